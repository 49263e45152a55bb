"""The token buckets in a real Redis: what is let through, what not, and that a Redis that is away stops nobody."""

import socket
import subprocess
import threading
import time

import pytest

from monitor.accounts import rates
from monitor.accounts.rates import AGENT, Buckets, Rate
from probes import broker


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
def buckets(redis_socket):
    return Buckets(f"redis+socket://{redis_socket}")


def test_after_a_rest_so_many_are_let_through_and_the_next_is_told_how_long_to_wait(buckets):
    """A hundredth a second: on no machine is there another one meanwhile."""
    rate = Rate(per_s=0.01, most=5)

    assert [buckets.wait_s("five", rate) for _ in range(5)] == [0.0] * 5
    assert 90 < buckets.wait_s("five", rate) <= 100
    assert 90 < buckets.wait_s("five", rate) <= 100, "a refusal costs nothing more"


def test_each_key_has_a_bucket_of_its_own(buckets):
    rate = Rate(per_s=0.01, most=1)

    assert buckets.wait_s("first", rate) == 0.0
    assert buckets.wait_s("first", rate) > 0
    assert buckets.wait_s("second", rate) == 0.0


def test_who_waits_as_told_is_let_through(buckets):
    rate = Rate(per_s=4, most=1)
    buckets.wait_s("patient", rate)

    time.sleep(buckets.wait_s("patient", rate))

    assert buckets.wait_s("patient", rate) == 0.0


def test_many_at_once_get_no_more_than_there_is(buckets, redis_socket):
    """Ten threads, as of several web processes, with connections of their own."""
    rate = Rate(per_s=0.01, most=50)
    admitted = []

    def ask():
        mine = Buckets(f"redis+socket://{redis_socket}")
        admitted.extend(one for one in (mine.wait_s("shared", rate) for _ in range(10)) if one == 0.0)

    threads = [threading.Thread(target=ask) for _ in range(10)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert len(admitted) == 50


def test_an_agent_that_drains_the_fullest_spool_is_never_told_to_wait(buckets):
    """256 MB of results of at least 100 bytes, 1,000 in a batch: 2,560 requests. Here they come as fast as Redis
    answers, with the 2 ms that the centre takes at the very least for a batch of 1,000."""
    begun = time.monotonic()
    waits = []
    for number in range(2560):
        waits.append(buckets.wait_s("drain", AGENT))
        while time.monotonic() - begun < number * 0.006:
            time.sleep(0.0005)

    assert set(waits) == {0.0}


def test_while_redis_is_away_everybody_is_let_through_and_it_is_left_alone_for_a_while(tmp_path, caplog):
    buckets = Buckets(f"redis+socket://{tmp_path / 'nothing.sock'}")

    assert [buckets.wait_s("any", Rate(0.01, 1)) for _ in range(3)] == [0.0] * 3
    assert caplog.text.count("rate limits are off: Redis does not answer") == 1


def test_a_redis_that_accepts_and_says_nothing_holds_nobody_up(tmp_path):
    path = tmp_path / "mute.sock"
    with socket.socket(socket.AF_UNIX) as mute:
        mute.bind(str(path))
        mute.listen()
        buckets = Buckets(f"redis+socket://{path}")
        begun = time.monotonic()

        assert [buckets.wait_s("any", Rate(0.01, 1)) for _ in range(100)] == [0.0] * 100

    assert time.monotonic() - begun < 100 * rates.REDIS_TIMEOUT_S, "only the first one waited"


def test_a_redis_that_comes_back_counts_again(redis_socket, tmp_path, monkeypatch):
    monkeypatch.setattr(rates, "LEFT_ALONE_S", 0.0)
    link = tmp_path / "later.sock"
    buckets = Buckets(f"redis+socket://{link}")
    rate = Rate(per_s=0.01, most=1)
    assert [buckets.wait_s("back", rate) for _ in range(3)] == [0.0] * 3

    link.symlink_to(redis_socket)

    assert buckets.wait_s("back", rate) == 0.0
    assert buckets.wait_s("back", rate) > 0
