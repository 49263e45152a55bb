import os
import shutil
import signal
import sys
import threading
import time
from pathlib import Path

import pytest

from probes.supervision import supervise
from probes.supervision.socket_folders import make_socket_dir, socket_dir
from probes.supervision.supervise import StartError, StartInterrupted, Supervisor
from tests.facts import lacks

SPINNING = [sys.executable, "-c", "while True: pass"]
SLEEP = [sys.executable, "-c", "import time; time.sleep(600)"]


def wait_for(condition, timeout_s=20.0):
    deadline = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < deadline, "the condition did not become true in time"
        time.sleep(0.02)


def alive(pid):
    try:
        os.kill(pid, 0)
        stat = Path(f"/proc/{pid}/stat").read_text()
    except (ProcessLookupError, FileNotFoundError):
        return False
    return "Z" not in stat.rsplit(")", 1)[1].split()[0]


@pytest.fixture
def supervisor(tmp_path):
    lines = []
    supervisor = Supervisor(tmp_path / "log", lines.append)
    supervisor.lines = lines
    yield supervisor
    supervisor.stop()


def test_a_killed_child_is_restarted(supervisor):
    child = supervisor.add("sleeper", SLEEP)
    first = child.process.pid

    os.kill(first, signal.SIGKILL)
    wait_for(lambda: supervisor.look_after() or (child.running and child.process.pid != first))

    assert child.restarts == 1
    assert any("sleeper ended with status -9" in line for line in supervisor.lines)


@pytest.fixture
def family(supervisor, tmp_path):
    """A child with a child of its own: the supervised child, and the process id of its child."""
    pid_file = tmp_path / "pid"
    script = (
        f"import subprocess; process = subprocess.Popen({SLEEP!r})\n"
        f"open({str(pid_file)!r}, 'w').write(str(process.pid)); process.wait()"
    )
    child = supervisor.add("parent", [sys.executable, "-c", script])
    wait_for(lambda: pid_file.exists() and pid_file.read_text())
    return child, int(pid_file.read_text())


def test_stopping_ends_grandchildren(supervisor, family):
    _, grandchild = family

    supervisor.stop()

    wait_for(lambda: not alive(grandchild))


def test_orphans_of_a_killed_child_end_before_its_restart(supervisor, family):
    child, grandchild = family

    os.kill(child.process.pid, signal.SIGKILL)
    wait_for(lambda: supervisor.look_after() or child.restarts == 1)

    wait_for(lambda: not alive(grandchild))


def test_a_child_that_never_gets_ready_fails_with_its_log(supervisor):
    child = supervisor.add("broken", [sys.executable, "-c", "raise SystemExit('no such database')"])

    with pytest.raises(StartError, match=r"restarted \d times?.*\n.*no such database"):
        supervisor.wait_ready(child, lambda: False, timeout_s=1.5)


class TestSlowStart:
    """A child that takes longer than its timeout until it is ready."""

    @pytest.fixture(autouse=True)
    def fast(self, monkeypatch):
        monkeypatch.setattr(supervise, "REPORT_WAIT_EVERY_S", 0.3)
        monkeypatch.setattr(supervise, "PROGRESS_CPU_S", 0.01)
        monkeypatch.setattr(supervise, "SLOW_READY_POLL_S", 0.05)

    def test_a_computing_child_may_exceed_its_timeout(self, supervisor, monkeypatch):
        monkeypatch.setattr(os, "getloadavg", lambda: (31.4, 0.0, 0.0))
        child = supervisor.add("web", SPINNING)
        began = time.monotonic()

        supervisor.wait_ready(child, lambda: time.monotonic() - began > 6.0, timeout_s=2.0)

        assert any("web is not ready" in line and "busy, load 31.4" in line for line in supervisor.lines)

    def test_a_computing_child_has_a_limit(self, supervisor, monkeypatch):
        monkeypatch.setattr(supervise, "LONGEST_START_S", 2.0)
        child = supervisor.add("web", SPINNING)

        with pytest.raises(StartError) as failed:
            supervisor.wait_ready(child, lambda: False, timeout_s=60.0)
        assert lacks(str(failed.value), "web ", "not ready", " 2 s ") == []

    def test_an_idle_child_with_an_empty_log_fails_and_is_reported(self, supervisor):
        child = supervisor.add("web", SLEEP)

        with pytest.raises(StartError) as failed:
            supervisor.wait_ready(child, lambda: False, timeout_s=1.5)
        assert lacks(str(failed.value), "idle for ", "log is empty", str(child.log)) == []

    def test_a_stop_ends_the_wait(self, tmp_path):
        stop = threading.Event()
        supervisor = Supervisor(tmp_path / "log", print, stop=stop)
        child = supervisor.add("web", SLEEP)
        stop.set()

        with pytest.raises(StartInterrupted, match=r"web: stopped .*ready"):
            supervisor.wait_ready(child, lambda: False, timeout_s=60.0)

        supervisor.stop()


def test_a_missing_program_is_named(supervisor):
    with pytest.raises(StartError) as failed:
        supervisor.add("ghost", ["/nowhere/ghost"])
    assert lacks(str(failed.value), "ghost: ", "cannot start /nowhere/ghost:", "No such file or directory") == []


def test_children_end_when_their_supervisor_is_killed(tmp_path):
    script = (
        "import sys, threading; from pathlib import Path; from probes.supervision.supervise import Supervisor\n"
        f"child = Supervisor(Path({str(tmp_path)!r}), print).add('sleeper', {SLEEP!r})\n"
        f"Path({str(tmp_path / 'pid')!r}).write_text(str(child.process.pid)); threading.Event().wait()"
    )
    parent = os.spawnv(os.P_NOWAIT, sys.executable, [sys.executable, "-c", script])
    wait_for(lambda: (tmp_path / "pid").exists() and (tmp_path / "pid").read_text())
    child = int((tmp_path / "pid").read_text())

    os.kill(parent, signal.SIGKILL)
    os.waitpid(parent, 0)

    wait_for(lambda: not alive(child))


def test_sockets_of_a_deep_folder_get_a_path_that_fits(tmp_path):
    deep = tmp_path / ("deep" * 40)

    folder = make_socket_dir(deep)

    try:
        assert len(os.fsencode(folder / ".s.PGSQL.5432.lock")) < 107
        assert folder == socket_dir(deep)
        assert folder.parent.stat().st_mode & 0o777 == folder.stat().st_mode & 0o777 == 0o700
    finally:
        shutil.rmtree(folder.parent)
    assert socket_dir(Path("/srv/soundings")) == Path("/srv/soundings/socket")


def test_an_open_socket_folder_is_closed(tmp_path):
    (tmp_path / "socket").mkdir()
    (tmp_path / "socket").chmod(0o777)

    assert make_socket_dir(tmp_path).stat().st_mode & 0o777 == 0o700


def test_files_of_children_are_closed_for_any_umask(tmp_path):
    before = os.umask(0)
    supervisor = Supervisor(tmp_path / "log", print)
    try:
        supervisor.add("toucher", ["touch", str(tmp_path / "written")])
        wait_for((tmp_path / "written").exists)
    finally:
        supervisor.stop()
        os.umask(before)

    modes = [(tmp_path / name).stat().st_mode & 0o777 for name in ("log", "log/toucher.log", "written")]
    assert modes == [0o700, 0o600, 0o600]


def test_a_socket_folder_writable_by_others_is_refused(tmp_path):
    deep = tmp_path / ("deep" * 40)
    taken = socket_dir(deep).parent
    taken.mkdir()
    taken.chmod(0o777)
    try:
        with pytest.raises(StartError) as failed:
            make_socket_dir(deep)
        assert lacks(str(failed.value), f"{taken} ", "another user", "not private") == []
    finally:
        taken.rmdir()
