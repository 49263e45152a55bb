"""The supervisor kills stopped and hung processes, and leaves busy processes alone."""

import os
import signal
import sys
import threading

import pytest

from probes.supervision import supervise
from probes.supervision.liveness import FileHeartbeat, LivenessCheck
from probes.supervision.processes import descendants, is_stopped
from probes.supervision.supervise import Supervisor
from tests.facts import lacks
from tests.unit.site.test_supervise import SLEEP, alive, wait_for

LIMIT_S = 2.0
"""Timeout for children that must not be restarted, on a busy machine too."""
SHORT_S = 0.3
"""Timeout for children that stay silent."""
BEATING = "import pathlib, time\nwhile True: pathlib.Path({0!r}).touch(); time.sleep(0.1)"
SPINNING = (
    "import pathlib, threading, time\n"
    "def spin():\n"
    "    while True: pass\n"
    "for _ in range(4): threading.Thread(target=spin, daemon=True).start()\n"
    "while True: pathlib.Path({0!r}).touch(); time.sleep(0.1)"
)


@pytest.fixture
def supervisor(tmp_path, monkeypatch):
    monkeypatch.setattr(supervise, "LOOK_EVERY_S", 0.1)
    monkeypatch.setattr(supervise, "STOPPED_EVERY_S", 0.1)
    lines = []
    supervisor = Supervisor(tmp_path / "log", lines.append, stopped_limit_s=1.0)
    supervisor.lines = lines
    yield supervisor
    supervisor.stop()


def look_until(supervisor, condition, timeout_s=30.0):
    wait_for(lambda: supervisor.look_after() or condition(), timeout_s)


def look_for(supervisor, seconds):
    ends = threading.Event()
    timer = threading.Timer(seconds, ends.set)
    timer.start()
    supervisor.run_until(ends)
    timer.join()


def started(supervisor, name, script, check):
    return supervisor.add(name, [sys.executable, "-c", script], liveness=check)


def heartbeat_check(path, limit_s=LIMIT_S):
    return LivenessCheck(FileHeartbeat(path), limit_s, every_s=0.1)


class TestStopped:
    def test_a_stopped_child_is_started_again(self, supervisor):
        child = supervisor.add("sleeper", SLEEP)
        first = child.process.pid

        os.kill(first, signal.SIGSTOP)
        look_until(supervisor, lambda: child.running and child.process.pid != first)

        assert any(
            lacks(line, "sleeper", f"process {first} ", "stopped", " 1 s", "killed") == [] for line in supervisor.lines
        )
        assert not alive(first)

    def test_a_stopped_grandchild_in_a_group_of_its_own_is_killed(self, supervisor, tmp_path):
        script = f"import subprocess; subprocess.Popen({SLEEP!r}, start_new_session=True).wait(); input()"
        child = supervisor.add("parent", [sys.executable, "-c", script])
        wait_for(lambda: descendants(child.process.pid))
        [grandchild] = descendants(child.process.pid)

        os.kill(grandchild, signal.SIGSTOP)
        look_until(supervisor, lambda: not alive(grandchild))

        assert child.restarts <= 1

    def test_a_child_that_is_continued_in_time_is_not_restarted(self, supervisor):
        child = supervisor.add("sleeper", SLEEP)
        os.kill(child.process.pid, signal.SIGSTOP)
        wait_for(lambda: is_stopped(child.process.pid))
        look_for(supervisor, 0.4)
        os.kill(child.process.pid, signal.SIGCONT)

        look_for(supervisor, 1.5)

        assert child.restarts == 0


class TestSilent:
    def test_a_child_whose_heartbeat_stops_is_started_again(self, supervisor, tmp_path):
        once = f"import pathlib, time; pathlib.Path({str(tmp_path / 'heartbeat')!r}).touch(); time.sleep(600)"
        child = started(supervisor, "wedged", once, heartbeat_check(tmp_path / "heartbeat", SHORT_S))

        look_until(supervisor, lambda: child.restarts == 1)

        assert any(lacks(line, "wedged", "no heartbeat", " 0 s", "killed") == [] for line in supervisor.lines)

    @pytest.mark.parametrize("script", [BEATING, SPINNING], ids=["idle", "busy"])
    def test_a_child_with_a_heartbeat_is_not_restarted(self, supervisor, tmp_path, script):
        path = tmp_path / "heartbeat"
        child = started(supervisor, "well", script.format(str(path)), heartbeat_check(path))

        look_for(supervisor, 1.5 * LIMIT_S)

        assert (child.restarts, child.running) == (0, True)

    def test_a_restarted_child_gets_its_full_time_again(self, supervisor, tmp_path):
        path = tmp_path / "heartbeat"
        late = f"import time; time.sleep({LIMIT_S / 4})\n" + BEATING.format(str(path))
        child = started(supervisor, "late", late, heartbeat_check(path))
        look_for(supervisor, LIMIT_S / 2)

        os.kill(child.process.pid, signal.SIGKILL)
        look_for(supervisor, 2 * LIMIT_S)

        assert (child.restarts, child.running) == (1, True)

    def test_a_check_that_hangs_does_not_hide_other_children(self, supervisor, tmp_path):
        never = threading.Event()
        hanging = started(supervisor, "hanging", "import time; time.sleep(600)", LivenessCheck(never.wait, 600.0, 0.1))
        silent = started(
            supervisor, "silent", "import time; time.sleep(600)", LivenessCheck(lambda: False, SHORT_S, every_s=0.1)
        )
        try:
            look_until(supervisor, lambda: silent.restarts == 1)
        finally:
            never.set()

        assert hanging.restarts == 0

    def test_a_check_that_hangs_counts_as_no_heartbeat(self, supervisor):
        never = threading.Event()
        child = started(supervisor, "deaf", "import time; time.sleep(600)", LivenessCheck(never.wait, SHORT_S, 0.1))
        try:
            look_until(supervisor, lambda: child.restarts == 1)
        finally:
            never.set()

    def test_a_check_that_fails_kills_nothing_and_is_reported_once(self, supervisor):
        def broken():
            raise ValueError("no such check")

        child = started(supervisor, "fine", "import time; time.sleep(600)", LivenessCheck(broken, SHORT_S, every_s=0.1))

        look_for(supervisor, 1.5)

        assert child.restarts == 0
        (line,) = supervisor.lines
        assert lacks(line, "fine", "liveness check", "failed", "ValueError: no such check") == []

    def test_a_pause_of_the_supervisor_is_not_taken_for_silence(self, supervisor, tmp_path):
        path = tmp_path / "heartbeat"
        child = started(supervisor, "well", BEATING.format(str(path)), heartbeat_check(path, limit_s=60.0))
        look_until(supervisor, path.exists)

        supervisor._looked_at -= 3600
        child.watch.was_alive()
        supervisor.look_after()

        assert child.silent_s < 10
        assert (child.restarts, child.running) == (0, True)


def test_a_hung_child_is_killed_with_children_in_other_groups(supervisor):
    script = f"import subprocess; subprocess.Popen({SLEEP!r}, start_new_session=True).wait()"
    silent = LivenessCheck(lambda: False, SHORT_S, every_s=0.1)
    child = supervisor.add("parent", [sys.executable, "-c", script], liveness=silent)
    wait_for(lambda: descendants(child.process.pid))
    [grandchild] = descendants(child.process.pid)

    look_until(supervisor, lambda: child.restarts == 1)

    wait_for(lambda: not alive(grandchild))
