"""Checks whether supervised processes are alive, each in its own thread; a hanging check counts as silence."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

CHECK_EVERY_S = 5.0
MAX_SILENCE_S = 60.0
"""A worker silent for as long has stopped working, whatever its process does."""


@dataclass(frozen=True, slots=True)
class LivenessCheck:
    """Check of a process every `every_s`; it counts as dead after `limit_s` of silence."""

    is_alive: Callable[[], bool]  # may be slow
    limit_s: float  # without success for longer the process is hung
    every_s: float = CHECK_EVERY_S


class FileHeartbeat:
    """Check that a heartbeat file was touched since the last call."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._touched_ns: int | None = None

    def __call__(self) -> bool:
        try:
            touched_ns = self._path.stat().st_mtime_ns
        except FileNotFoundError:
            return False
        was_touched = touched_ns != self._touched_ns
        self._touched_ns = touched_ns
        return was_touched


class Watch:
    """Repeats a liveness check until `end`."""

    def __init__(self, name: str, check: LivenessCheck, report: Callable[[str], None]) -> None:
        self._name = name
        self._check = check
        self._report = report
        self._is_alive = threading.Event()
        self._has_ended = threading.Event()
        self._has_failed = False
        threading.Thread(target=self._run, name=f"watch {name}", daemon=True).start()

    def was_alive(self) -> bool:
        was_alive = self._is_alive.is_set()
        self._is_alive.clear()
        return was_alive

    def end(self) -> None:
        self._has_ended.set()

    def _run(self) -> None:
        while not self._has_ended.wait(self._check.every_s):
            if self._is_alive_now():
                self._is_alive.set()

    def _is_alive_now(self) -> bool:
        try:
            return self._check.is_alive()
        except Exception as error:  # noqa: BLE001 - a bug in the check must not end the checked process
            if not self._has_failed:
                self._report(f"{self._name}: liveness check failed: {type(error).__name__}: {error}")
            self._has_failed = True
            return True
