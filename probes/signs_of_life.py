"""How a supervisor learns whether a process works: it is asked, or shows by itself, in a thread of its own.

In: a `SignOfLife`, which says how to ask and how long a silence may last. Out: a `Watch`, which says whether there was
a sign lately. A question that hangs holds up neither the supervisor nor the questions to other processes: it is
silence. What follows from silence is `probes.supervise`'s business.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

ASK_EVERY_S = 5.0


@dataclass(frozen=True, slots=True)
class SignOfLife:
    """`is_shown` answers whether there is a sign now; it may take its time, since slow is not dead. After `limit_s`
    without any the process is taken to be wedged."""

    is_shown: Callable[[], bool]
    limit_s: float
    every_s: float = ASK_EVERY_S


class Pulse:
    """A sign of life: the process has touched its file since the last question."""

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
    """Asks for one sign of life, again and again, until `end`."""

    def __init__(self, name: str, sign: SignOfLife, report: Callable[[str], None]) -> None:
        self._name = name
        self._sign = sign
        self._report = report
        self._is_alive = threading.Event()
        self._has_ended = threading.Event()
        self._has_failed = False
        threading.Thread(target=self._run, name=f"watch {name}", daemon=True).start()

    def was_alive(self) -> bool:
        """Whether there was a sign since this was called last."""
        was_alive = self._is_alive.is_set()
        self._is_alive.clear()
        return was_alive

    def end(self) -> None:
        """Ask no more. A question that is under way is not waited for."""
        self._has_ended.set()

    def _run(self) -> None:
        while not self._has_ended.wait(self._sign.every_s):
            if self._ask():
                self._is_alive.set()

    def _ask(self) -> bool:
        try:
            return self._sign.is_shown()
        except Exception as error:  # noqa: BLE001 - a fault in the question must not end the process that is asked
            if not self._has_failed:
                self._report(f"{self._name} cannot be asked for a sign of life: {type(error).__name__}: {error}")
            self._has_failed = True
            return True
