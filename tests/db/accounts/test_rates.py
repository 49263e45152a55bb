"""The token buckets in a real Redis: which requests pass, which wait, and that an unreachable Redis blocks nobody."""

import socket
import subprocess
import threading
import time

import pytest

from monitor import redis_client
from monitor.accounts.rate_limits import AGENT, PART_OF_CALM, Rate, wait_s, wait_s_of_calm
from monitor.redis_client import RedisClient
from monitor.stack import broker


@pytest.fixture(scope="module")
def redis_socket(tmp_path_factory):
    path = tmp_path_factory.mktemp("redis") / "redis.sock"
    process = subprocess.Popen(broker.command(path), stdout=subprocess.DEVNULL)
    deadline = time.monotonic() + 30
    while not broker.answers(path):
        assert time.monotonic() < deadline, "Redis does not start"
        time.sleep(0.05)
    yield path
    process.terminate()
    process.wait(timeout=10)


@pytest.fixture
def client(redis_socket):
    return RedisClient(f"redis+socket://{redis_socket}")


def test_a_full_bucket_passes_its_burst_then_gives_a_wait(client):
    """A hundredth per second: no machine is slow enough to get another token meanwhile."""
    rate = Rate(per_s=0.01, most=5)

    assert [wait_s("five", rate, client) for _ in range(5)] == [0.0] * 5
    assert 90 < wait_s("five", rate, client) <= 100
    assert 90 < wait_s("five", rate, client) <= 100, "a refusal takes no token"


def test_each_key_has_a_bucket_of_its_own(client):
    rate = Rate(per_s=0.01, most=1)

    assert wait_s("first", rate, client) == 0.0
    assert wait_s("first", rate, client) > 0
    assert wait_s("second", rate, client) == 0.0


def test_a_client_that_waits_as_requested_passes(client):
    rate = Rate(per_s=4, most=1)
    wait_s("patient", rate, client)

    time.sleep(wait_s("patient", rate, client))

    assert wait_s("patient", rate, client) == 0.0


def test_many_concurrent_requests_get_no_more_than_the_limit(client, redis_socket):
    """Ten threads, like several web processes, each with its own connection."""
    rate = Rate(per_s=0.01, most=50)
    admitted = []

    def ask():
        client = RedisClient(f"redis+socket://{redis_socket}")
        waits = [wait_s("shared", rate, client) for _ in range(10)]
        admitted.extend(seconds for seconds in waits if seconds == 0.0)

    threads = [threading.Thread(target=ask) for _ in range(10)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert len(admitted) == 50


def test_an_agent_that_drains_a_full_spool_never_has_to_wait(client):
    """256 MB of results of at least 100 bytes, 1,000 in a batch: 2,560 requests. Here they arrive as fast as Redis
    answers, with the minimum of 6 ms that the centre takes for a batch."""
    begun = time.monotonic()
    waits = []
    for number in range(2560):
        waits.append(wait_s("drain", AGENT, client))
        time.sleep(max(0.0, begun + number * 0.006 - time.monotonic()))

    assert set(waits) == {0.0}


def test_without_redis_all_pass_and_it_is_retried_after_a_pause(tmp_path, caplog):
    client = RedisClient(f"redis+socket://{tmp_path / 'nothing.sock'}")

    assert [wait_s("any", Rate(0.01, 1), client) for _ in range(3)] == [0.0] * 3
    assert caplog.text.count("Redis is unavailable (ConnectionError)") == 1


def test_a_redis_that_never_answers_delays_nobody(tmp_path):
    path = tmp_path / "mute.sock"
    with socket.socket(socket.AF_UNIX) as mute:
        mute.bind(str(path))
        mute.listen()
        client = RedisClient(f"redis+socket://{path}")
        begun = time.monotonic()

        assert [wait_s("any", Rate(0.01, 1), client) for _ in range(100)] == [0.0] * 100

    assert time.monotonic() - begun < 100 * redis_client.TIMEOUT_S, "only the first request waited"


def test_a_redis_that_recovers_counts_again(redis_socket, tmp_path, monkeypatch):
    monkeypatch.setattr(redis_client, "OPEN_S", 0.0)
    link = tmp_path / "later.sock"
    client = RedisClient(f"redis+socket://{link}")
    rate = Rate(per_s=0.01, most=1)
    assert [wait_s("back", rate, client) for _ in range(3)] == [0.0] * 3

    link.symlink_to(redis_socket)

    assert wait_s("back", rate, client) == 0.0
    assert wait_s("back", rate, client) > 0


def test_a_calm_key_is_not_counted_and_a_busy_one_is(client, monkeypatch):
    """Beyond a fiftieth of the burst, all of it is that of Redis."""
    monkeypatch.setattr("monitor.accounts.rate_limits.centre", lambda: client)
    rate = Rate(per_s=0.0001, most=2 * PART_OF_CALM)

    waits = [wait_s_of_calm("calm", rate) for _ in range(2 + rate.most)]

    assert waits == [0.0] * len(waits)
    assert wait_s_of_calm("calm", rate) > 0
    assert wait_s_of_calm("another", rate) == 0.0
