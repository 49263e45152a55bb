"""Supervise processes: start, restart and stop them, each a process group with a private log.

The kernel stops children if this process is killed.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from probes.private_files import UMASK, make_folder, opener
from probes.supervision import logs
from probes.supervision.liveness import LivenessCheck, Watch
from probes.supervision.processes import cpu_time_s, descendants, is_stopped, machine_load

PR_SET_PDEATHSIG = 1
FIRST_RESTART_S = 0.5
LONGEST_RESTART_S = 10.0
STEADY_AFTER_S = 60.0
STOP_GRACE_S = 10.0
POLL_S = 1.0
READY_POLL_S = 0.05
# Readiness checks after `REPORT_WAIT_EVERY_S`; each may cost CPU time, but less than a start.
SLOW_READY_POLL_S = 1.0
REPORT_WAIT_EVERY_S = 10.0
# CPU time within `REPORT_WAIT_EVERY_S` that shows that a child is still starting: 1% of a CPU.
PROGRESS_CPU_S = 0.1
LONGEST_START_S = 600.0
# Interval of the checks of liveness and log sizes.
LOOK_EVERY_S = 1.0
# Maximum time between two checks that counts as a child's silence: this process may have been stopped.
LONGEST_LOOK_S = 5.0
# Interval of the checks for stopped processes; each reads a file of every thread of every descendant.
STOPPED_EVERY_S = 5.0
# A process stopped (SIGSTOP) for this long is killed; a busy process is never in that state.
STOPPED_LIMIT_S = 30.0


class StartError(Exception):
    """A process could not be started, or died before it was ready; the message names it and its log."""


class StartInterrupted(StartError):
    """The start was stopped by the user."""


@dataclass(slots=True)
class Child:
    name: str
    argv: Sequence[str]
    log: Path
    environment: Mapping[str, str] | None = None
    directory: Path | None = None
    stop_signal: signal.Signals = signal.SIGTERM
    liveness: LivenessCheck | None = None
    watch: Watch | None = None
    silent_s: float = 0.0
    restarts: int = 0
    process: subprocess.Popen[bytes] | None = None
    started_at: float = 0.0
    restart_at: float | None = None
    back_off_s: float = field(default=FIRST_RESTART_S)

    @property
    def running(self) -> bool:
        return self.process is not None and self.process.poll() is None

    def last_lines(self, count: int = 5) -> str:
        lines: list[str] = []
        if self.log.exists():
            with self.log.open("rb") as log:
                log.seek(max(0, self.log.stat().st_size - 4096))
                lines = log.read().decode(errors="replace").splitlines()[-count:]
        return "\n".join([f"end of its log {self.log}:", *lines]) if lines else f"its log is empty: {self.log}"


class Supervisor:
    """Starts children, restarts them with exponential backoff, stops them in reverse order.

    Children die with the *thread* that started them: call `add` and `run_until` in the main thread.
    """

    def __init__(
        self,
        log_dir: Path,
        report: Callable[[str], None],
        *,
        stop: threading.Event | None = None,
        stopped_limit_s: float = STOPPED_LIMIT_S,
    ) -> None:
        self.log_dir = log_dir
        self.report = report
        self._stop = stop if stop is not None else threading.Event()
        self.children: list[Child] = []
        self._stopped_limit_s = stopped_limit_s
        self._stopped_s: dict[int, float] = {}
        self._looked_at = self._sought_stopped_at = time.monotonic()
        self._logs_too_large: set[Path] = set()
        make_folder(log_dir)

    def add(
        self,
        name: str,
        argv: Sequence[str],
        *,
        env: Mapping[str, str] | None = None,
        cwd: Path | None = None,
        log: Path | None = None,
        stop_signal: signal.Signals = signal.SIGTERM,
        liveness: LivenessCheck | None = None,
    ) -> Child:
        """Start a process and keep it running; without `liveness` it restarts only after ending."""
        child = Child(
            name=name,
            argv=argv,
            log=log if log is not None else self.log_dir / f"{name}.log",
            environment=env,
            directory=cwd,
            stop_signal=stop_signal,
            liveness=liveness,
        )
        _start(child)
        if liveness is not None:
            child.watch = Watch(name, liveness, self.report)
        self.children.append(child)
        return child

    def wait_ready(self, child: Child, ready: Callable[[], bool], timeout_s: float) -> None:
        """Wait until `ready()`, up to `LONGEST_START_S` for a child that computes.

        Raises `StartError` if not ready within `timeout_s`, and `StartInterrupted` when `stop` is set.
        """
        startup = _Startup(child, timeout_s)
        while not ready():
            self.look_after()
            startup.check(self.report)
            if self._stop.wait(startup.poll_s):
                raise StartInterrupted(f"{child.name}: stopped before it was ready")

    def run_until(self, stop: threading.Event) -> None:
        while not stop.wait(POLL_S):
            self.look_after()

    def look_after(self) -> None:
        """Restart dead children after their backoff, kill hung children, and rotate logs."""
        now = time.monotonic()
        since_look_s = now - self._looked_at
        if since_look_s >= LOOK_EVERY_S:
            self._looked_at = now
            since_sought_s = now - self._sought_stopped_at
            if since_sought_s >= STOPPED_EVERY_S:
                self._sought_stopped_at = now
                self._end_stopped(min(since_sought_s, LONGEST_LOOK_S))
            self._end_silent(min(since_look_s, LONGEST_LOOK_S))
            self._rotate_logs()
        for child in self.children:
            if child.running:
                continue
            if child.restart_at is None:
                self._plan_restart(child, now)
            elif now >= child.restart_at:
                child.restarts += 1
                _start(child)
                self.report(f"{child.name} started again (restart {child.restarts})")

    def _end_stopped(self, elapsed_s: float) -> None:
        stopped = {
            pid: child
            for child in self.children
            if child.process is not None and child.running
            for pid in (child.process.pid, *descendants(child.process.pid))
            if is_stopped(pid)
        }
        self._stopped_s = {pid: self._stopped_s.get(pid, 0.0) + elapsed_s for pid in stopped}
        for pid, child in stopped.items():
            if self._stopped_s[pid] >= self._stopped_limit_s:
                self.report(f"{child.name}: process {pid} was stopped for {self._stopped_limit_s:.0f} s; killed")
                _kill(pid)

    def _end_silent(self, elapsed_s: float) -> None:
        for child in self.children:
            if child.watch is None or child.liveness is None or not child.running:
                continue
            child.silent_s = 0.0 if child.watch.was_alive() else child.silent_s + elapsed_s
            if child.silent_s >= child.liveness.limit_s:
                self.report(f"{child.name}: no heartbeat for {child.liveness.limit_s:.0f} s; killed")
                _kill_tree(child)

    def _rotate_logs(self) -> None:
        for path in {child.log for child in self.children}:
            try:
                logs.rotate(path)
                self._logs_too_large.discard(path)
            except OSError as error:
                if path not in self._logs_too_large:
                    self.report(f"{path}: log rotation failed: {error.strerror}; older lines are lost")
                self._logs_too_large.add(path)

    def _plan_restart(self, child: Child, now: float) -> None:
        # Remaining processes of its group may hold its port or files.
        _signal_group(child, signal.SIGKILL)
        if now - child.started_at >= STEADY_AFTER_S:
            child.back_off_s = FIRST_RESTART_S
        child.restart_at = now + child.back_off_s
        child.back_off_s = min(2 * child.back_off_s, LONGEST_RESTART_S)
        code = child.process.returncode if child.process is not None else None
        self.report(f"{child.name} ended with status {code}; see {child.log}")

    def stop(self) -> None:
        for child in reversed(self.children):
            if child.watch is not None:
                child.watch.end()
            if child.running:
                _signal_group(child, child.stop_signal)
                _wait(child, STOP_GRACE_S)
            _kill_tree(child)
            _wait(child, STOP_GRACE_S)
        self.children.clear()


class _Startup:
    """Progress of a starting child by CPU time, and when to give up."""

    def __init__(self, child: Child, timeout_s: float) -> None:
        self.poll_s = READY_POLL_S
        self._child = child
        self._timeout_s = timeout_s
        self._restarts = child.restarts
        self._cpu_s = 0.0
        self._began_at = self._progress_at = self._checked_at = time.monotonic()

    def check(self, report: Callable[[str], None]) -> None:
        """Report the progress every `REPORT_WAIT_EVERY_S`. Raises `StartError` without any."""
        now = time.monotonic()
        if now - self._checked_at >= REPORT_WAIT_EVERY_S:
            self._checked_at = now
            self.poll_s = SLOW_READY_POLL_S
            if self._is_computing():
                self._progress_at = now
            report(f"{self._state(now)}; waiting")
        if now >= min(self._progress_at + self._timeout_s, self._began_at + LONGEST_START_S):
            raise StartError(f"{self._state(now)}; gave up; {self._child.last_lines()}")

    def _is_computing(self) -> bool:
        if self._child.process is None or self._child.restarts != self._restarts:
            return False
        before_s, self._cpu_s = self._cpu_s, cpu_time_s(self._child.process.pid)
        return self._cpu_s - before_s >= PROGRESS_CPU_S

    def _state(self, now: float) -> str:
        restarts = self._child.restarts - self._restarts
        if restarts:
            activity = f"restarted {restarts} time{'s' if restarts > 1 else ''}"
        elif self._progress_at == self._checked_at:
            activity = "still starting"
        else:
            activity = f"idle for {now - self._progress_at:.0f} s"
        return f"{self._child.name} is not ready after {now - self._began_at:.0f} s ({activity}); {machine_load()}"


def _start(child: Child) -> None:
    prctl = ctypes.CDLL(None, use_errno=True).prctl

    def die_with_parent() -> None:
        prctl(PR_SET_PDEATHSIG, child.stop_signal, 0, 0, 0)

    environment = {**os.environ, "PYTHONUNBUFFERED": "1", **(child.environment or {})}
    with open(child.log, "ab", opener=opener) as log:
        try:
            child.process = subprocess.Popen(
                child.argv,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                env=environment,
                cwd=child.directory,
                start_new_session=True,
                umask=UMASK,
                preexec_fn=die_with_parent,
            )
        except OSError as error:
            raise StartError(f"{child.name}: cannot start {child.argv[0]}: {error.strerror}") from error
    child.started_at = time.monotonic()
    child.restart_at = None
    child.silent_s = 0.0


def _signal_group(child: Child, number: signal.Signals) -> None:
    if child.process is None:
        return
    with contextlib.suppress(ProcessLookupError):
        os.killpg(child.process.pid, number)


def _kill_tree(child: Child) -> None:
    # Kill the child, its group and all descendants, which may have own groups.
    if child.process is None:
        return
    below = descendants(child.process.pid)
    _signal_group(child, signal.SIGKILL)
    for pid in below:
        _kill(pid)


def _kill(pid: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)


def _wait(child: Child, timeout_s: float) -> None:
    if child.process is None:
        return
    with contextlib.suppress(subprocess.TimeoutExpired):
        child.process.wait(timeout_s)
