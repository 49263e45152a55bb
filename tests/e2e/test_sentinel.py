"""The centre's Redis behind Sentinels: the client and Celery find the new master when the old one is killed."""

import kombu
import pytest

from monitor.redis_client import RedisClient, SentinelUrl
from tests.e2e.stack import wait_for
from tests.sentinel import redis_with_sentinels


@pytest.fixture
def servers(tmp_path):
    with redis_with_sentinels(tmp_path) as servers:
        yield servers


def test_client_and_broker_find_the_new_master(servers, monkeypatch):
    monkeypatch.setattr("monitor.redis_client.OPEN_S", 0.1)
    client, sentinels = RedisClient(servers.url, timeout_s=2.0), SentinelUrl.parse(servers.url)
    options = {"master_name": sentinels.master, "socket_connect_timeout": 2, "socket_timeout": 5}
    first = servers.master_port()
    assert client.command("incr", "counter") == 1
    (name,) = [name for name, port in servers.redis_ports.items() if port == first]

    servers.processes[name].kill()

    wait_for(lambda: client.command("set", "counter", 7), 60, "the client writes to the new master")
    assert servers.master_port() != first
    with kombu.Connection(sentinels.broker_url, transport_options=options) as connection:
        queue = connection.SimpleQueue("alerts")
        queue.put({"task": "one"})
        assert queue.get(timeout=10).payload == {"task": "one"}
