"""A changed limits.toml is taken up by a running agent; one that cannot be used changes nothing and is named."""

from __future__ import annotations

import os
import threading
import time

import pytest

from probes.site.limits.limits import Limits
from probes.site.limits.read import LimitsError
from probes.site.limits.watched import CHECK_S, WatchedLimits

PRIVATE = '[networks]\nallowed = ["0.0.0.0/0", "::/0", "10.0.0.0/24"]\n'
REFUSED = "10.0.0.10"


class Clock:
    now_s = 0.0

    def __call__(self):
        return self.now_s


@pytest.fixture
def file(tmp_path):
    return tmp_path / "limits.toml"


@pytest.fixture
def clock():
    return Clock()


def watch(file, clock):
    return WatchedLimits(lambda: file if file.exists() else None, clock=clock)


def write(file, text, number=[0]):  # noqa: B006 (each content has a time of its own)
    file.write_text(text)
    number[0] += 1
    os.utime(file, ns=(number[0] * 10**9, number[0] * 10**9))


def later(limits, clock, checks=2):
    for _ in range(checks):
        clock.now_s += CHECK_S
        limits.current()


def test_a_changed_file_is_taken_up(file, clock):
    write(file, "")
    limits = watch(file, clock)
    assert limits.forbids_address(REFUSED) is not None

    write(file, PRIVATE)
    later(limits, clock)

    assert limits.forbids_address(REFUSED) is None


def test_a_file_written_after_the_start_is_taken_up(file, clock):
    limits = watch(file, clock)
    assert limits.current() == Limits()

    write(file, PRIVATE)
    later(limits, clock)

    assert limits.forbids_address(REFUSED) is None


@pytest.mark.parametrize("content", [b"[networks\n", b"\xff", b"[network]\n", b"# " + b"x" * (2 << 20)])
def test_a_bad_file_keeps_the_limits_and_is_logged_once(file, clock, caplog, content):
    write(file, PRIVATE)
    limits = watch(file, clock)

    file.write_bytes(content)
    later(limits, clock, checks=5)

    assert limits.forbids_address(REFUSED) is None
    assert [record.levelname for record in caplog.records] == ["ERROR"]
    assert str(file) in caplog.text


def test_a_given_file_that_is_gone_keeps_the_limits(file, clock, caplog):
    write(file, PRIVATE)
    limits = WatchedLimits(lambda: file, clock=clock)

    file.unlink()
    later(limits, clock, checks=5)

    assert limits.forbids_address(REFUSED) is None
    assert len(caplog.records) == 1


def test_a_file_that_is_being_written_is_not_read(file, clock):
    """An editor has emptied it, and writes the rest: without its rules all would be open."""
    write(file, '[networks]\nforbidden = ["192.0.2.0/24"]\n')
    limits = watch(file, clock)

    for text in ("", "# the rules of ", '[networks]\nforbidden = ["192.0.2.0/24", "198.51.100.0/24"]\n'):
        write(file, text)
        later(limits, clock, checks=1)
        assert limits.forbids_address("192.0.2.1") is not None
    later(limits, clock)

    assert limits.forbids_address("198.51.100.1") is not None


def test_an_agent_does_not_start_with_a_bad_file(file, clock):
    write(file, "[networks\n")

    with pytest.raises(LimitsError):
        watch(file, clock)


def test_a_service_runs_with_the_present_sections(file):
    made, stopped, stop = [], [], threading.Event()

    class Service:
        def __init__(self, limits):
            made.append(limits.stamp.reflect)

        def run(self, ended):
            ended.wait()
            stopped.append(len(made))

    write(file, "")
    clock = Clock()
    limits = watch(file, clock)
    thread = threading.Thread(target=limits.serve, args=(Service, ("stamp",), stop))
    thread.start()
    write(file, "[stamp]\nreflect = false\n")
    until = time.monotonic() + 30
    while len(made) < 2 and time.monotonic() < until:
        clock.now_s += CHECK_S
        time.sleep(0.05)
    stop.set()
    thread.join(30)

    assert made == [True, False]
    assert stopped == [1, 2]
