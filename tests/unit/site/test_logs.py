"""Rotation of logs that processes write themselves: bounded size, and no line lost between rotations."""

import re
import sys

import pytest

from probes.supervision import logs, supervise
from probes.supervision.logs import rotate
from probes.supervision.supervise import Supervisor
from tests.unit.site.test_supervise import wait_for

LARGEST = 1000


def all_of(log):
    return sorted(log.parent.glob(f"{log.name}*"))


def test_a_small_log_is_not_rotated(tmp_path):
    log = tmp_path / "worker.log"
    log.write_text("all is well\n")

    assert not rotate(log, LARGEST)
    assert not rotate(tmp_path / "none.log", LARGEST)
    assert all_of(log) == [log]


def test_a_large_log_is_rotated_and_two_copies_are_kept(tmp_path):
    log = tmp_path / "worker.log"
    for letter in "abcd":
        log.write_text(letter * (LARGEST + 1))
        assert rotate(log, LARGEST)

    kept = {path.name: path.read_text()[:1] for path in all_of(log)}
    assert kept == {"worker.log": "", "worker.log.1": "d", "worker.log.2": "c"}


def test_the_newest_lines_of_a_huge_log_are_kept(tmp_path):
    log = tmp_path / "worker.log"
    log.write_bytes(b"old\n" * 10_000 + b"newest\n")

    rotate(log, LARGEST)

    copy = (tmp_path / "worker.log.1").read_bytes()
    assert len(copy) == LARGEST
    assert copy.endswith(b"newest\n")


def test_a_copy_is_readable_by_its_owner_only(tmp_path):
    log = tmp_path / "web.log"
    log.write_text("x" * (LARGEST + 1))

    rotate(log, LARGEST)

    assert (tmp_path / "web.log.1").stat().st_mode & 0o777 == 0o600


def test_on_a_full_disk_the_log_is_truncated_anyway(tmp_path, monkeypatch):
    def no_room(*_):
        raise OSError(28, "No space left on device")

    log = tmp_path / "worker.log"
    log.write_text("x" * (LARGEST + 1))
    monkeypatch.setattr(logs, "_copy_newest", no_room)

    with pytest.raises(OSError, match="No space left"):
        rotate(log, LARGEST)

    assert log.stat().st_size == 0


@pytest.fixture
def chatty(tmp_path, monkeypatch):
    """A supervised child that writes numbered lines without end, about 100 kB/s."""
    monkeypatch.setattr(supervise, "LOOK_EVERY_S", 0.1)
    monkeypatch.setattr(logs.rotate, "__defaults__", (20_000, 2))
    supervisor = Supervisor(tmp_path / "log", lambda line: None)
    script = "import time\nfor n in range(10**9): print(f'line {n:030d}'); n % 50 or time.sleep(0.01)"
    supervisor.add("chatty", [sys.executable, "-c", script])
    yield supervisor
    supervisor.stop()


def test_the_log_of_a_child_that_never_stops_writing_is_bounded(chatty, tmp_path):
    log = tmp_path / "log" / "chatty.log"
    newest = []

    def rotated_thrice():
        chatty.look_after()
        copy = log.with_name("chatty.log.1")
        if copy.exists() and (lines := copy.read_text().splitlines()) and lines[-1] not in newest:
            newest.append(lines[-1])
        return len(newest) >= 3

    wait_for(rotated_thrice, 30.0)

    assert len(all_of(log)) == 3
    assert all(path.stat().st_size <= 40_000 for path in all_of(log)[1:])
    numbers = [
        int(number) for number in re.findall(r"^line (\d{30})$", log.with_name("chatty.log.1").read_text(), re.M)
    ]
    assert numbers == list(range(numbers[0], numbers[-1] + 1))
