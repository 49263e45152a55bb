"""Keeps a set of processes running: starts them, restarts what dies, stops them all.

Used by a site's agent (its Redis, its Celery worker) and by `manage.py up`. Each child is a process group of its own
with a log file; children are ended by their process id, last started first, and by the kernel if this process is
killed. What the processes do, and when they are ready, is their starter's business.
"""

from __future__ import annotations

import contextlib
import ctypes
import hashlib
import os
import signal
import stat
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

PR_SET_PDEATHSIG = 1
FIRST_RESTART_S = 0.5
LONGEST_RESTART_S = 10.0
STEADY_AFTER_S = 60.0
STOP_GRACE_S = 10.0
POLL_S = 0.25
LONGEST_SOCKET_DIR_BYTES = 85


class StartError(Exception):
    """A process could not be started, or died before it was ready; says which and where its log is."""


def socket_dir(directory: Path) -> Path:
    """Folder for the Unix sockets of what runs in `directory`: one inside it, unless that is so deep that a socket's
    path would not fit into the kernel's 107 bytes."""
    inside = directory / "socket"
    if len(os.fsencode(inside)) <= LONGEST_SOCKET_DIR_BYTES:
        return inside
    digest = hashlib.sha256(os.fsencode(directory)).hexdigest()[:12]
    return Path(tempfile.gettempdir()) / f"soundings-{os.getuid()}-{digest}" / "socket"


def make_socket_dir(directory: Path) -> Path:
    """Make the `socket_dir` of `directory`. Raises `StartError` where somebody else has taken the name of one that
    lies outside."""
    folder = socket_dir(directory)
    folder.parent.mkdir(mode=0o711, parents=True, exist_ok=True)
    if folder.parent != directory:
        status = folder.parent.lstat()
        if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.getuid() or status.st_mode & 0o022:
            raise StartError(f"{folder.parent} is not a folder of ours; remove it, or use a shorter data folder")
    folder.mkdir(exist_ok=True)
    return folder


@dataclass(slots=True)
class Child:
    """One supervised process: how it is started, and how it is doing."""

    name: str
    argv: Sequence[str]
    log: Path
    environment: Mapping[str, str] | None = None
    directory: Path | None = None
    stop_signal: signal.Signals = signal.SIGTERM
    restarts: int = 0
    process: subprocess.Popen[bytes] | None = None
    started_at: float = 0.0
    restart_at: float | None = None
    back_off_s: float = field(default=FIRST_RESTART_S)

    @property
    def running(self) -> bool:
        return self.process is not None and self.process.poll() is None

    def last_lines(self, count: int = 5) -> str:
        """The end of its log, for messages about its death."""
        if not self.log.exists():
            return ""
        with self.log.open("rb") as log:
            log.seek(max(0, self.log.stat().st_size - 4096))
            return "\n".join(log.read().decode(errors="replace").splitlines()[-count:])


class Supervisor:
    """Starts children at once, restarts them with growing pauses, stops them in reverse order.

    `report` is called with one line for a person whenever something happens. Children die with the *thread* that
    started them (so the kernel's parent-death signal works): `add` and `run_until` belong to the main thread.
    """

    def __init__(self, log_dir: Path, report: Callable[[str], None]) -> None:
        self.log_dir = log_dir
        self.report = report
        self.children: list[Child] = []
        log_dir.mkdir(parents=True, exist_ok=True)

    def add(
        self,
        name: str,
        argv: Sequence[str],
        *,
        env: Mapping[str, str] | None = None,
        cwd: Path | None = None,
        log: Path | None = None,
        stop_signal: signal.Signals = signal.SIGTERM,
    ) -> Child:
        """Start a process and keep it running from now on. `env` is added to our own environment."""
        child = Child(
            name=name,
            argv=argv,
            log=log if log is not None else self.log_dir / f"{name}.log",
            environment=env,
            directory=cwd,
            stop_signal=stop_signal,
        )
        _start(child)
        self.children.append(child)
        return child

    def wait_ready(self, child: Child, ready: Callable[[], bool], timeout_s: float) -> None:
        """Wait until `ready()` holds. Raises `StartError` when the child keeps dying or the time is over."""
        deadline = time.monotonic() + timeout_s
        while not ready():
            self.look_after()
            if time.monotonic() >= deadline:
                raise StartError(
                    f"{child.name} was not ready within {timeout_s:.0f} s; see {child.log}\n{child.last_lines()}"
                )
            time.sleep(POLL_S / 5)

    def run_until(self, stop: threading.Event) -> None:
        """Look after the children until `stop` is set."""
        while not stop.wait(POLL_S):
            self.look_after()

    def look_after(self) -> None:
        """Restart each child that has died and whose pause is over."""
        now = time.monotonic()
        for child in self.children:
            if child.running:
                continue
            if child.restart_at is None:
                self._plan_restart(child, now)
            elif now >= child.restart_at:
                child.restarts += 1
                _start(child)
                self.report(f"{child.name} started again (restart {child.restarts})")

    def _plan_restart(self, child: Child, now: float) -> None:
        # What the dead process leaves behind may hold its port or its files, and nobody would look after it.
        _signal_group(child, signal.SIGKILL)
        if now - child.started_at >= STEADY_AFTER_S:
            child.back_off_s = FIRST_RESTART_S
        child.restart_at = now + child.back_off_s
        child.back_off_s = min(2 * child.back_off_s, LONGEST_RESTART_S)
        code = child.process.returncode if child.process is not None else None
        self.report(f"{child.name} ended with status {code}; see {child.log}")

    def stop(self) -> None:
        """Stop every child, the last started first; those that do not obey are killed after a while."""
        for child in reversed(self.children):
            if child.running:
                _signal_group(child, child.stop_signal)
                _wait(child, STOP_GRACE_S)
            _signal_group(child, signal.SIGKILL)
            _wait(child, STOP_GRACE_S)
        self.children.clear()


def _start(child: Child) -> None:
    """Start the process of `child`, with its output appended to its log."""
    libc = ctypes.CDLL(None, use_errno=True)

    def die_with_parent() -> None:
        libc.prctl(PR_SET_PDEATHSIG, child.stop_signal, 0, 0, 0)

    environment = {**os.environ, "PYTHONUNBUFFERED": "1", **(child.environment or {})}
    with child.log.open("ab") as log:
        try:
            child.process = subprocess.Popen(
                child.argv,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                env=environment,
                cwd=child.directory,
                start_new_session=True,
                preexec_fn=die_with_parent,
            )
        except OSError as error:
            raise StartError(f"{child.name}: cannot start {child.argv[0]}: {error.strerror}") from error
    child.started_at = time.monotonic()
    child.restart_at = None


def _signal_group(child: Child, number: signal.Signals) -> None:
    """Signal the child's whole process group; that it is gone already is what we wanted."""
    if child.process is None:
        return
    with contextlib.suppress(ProcessLookupError):
        os.killpg(child.process.pid, number)


def _wait(child: Child, timeout_s: float) -> None:
    if child.process is None:
        return
    with contextlib.suppress(subprocess.TimeoutExpired):
        child.process.wait(timeout_s)
