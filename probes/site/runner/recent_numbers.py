"""Numbers seen lately, each forgotten after its own time. Used by several threads."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable


class RecentNumbers:
    def __init__(self, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._monotonic = monotonic
        self._forget_at: dict[int, float] = {}
        self._lock = threading.Lock()

    def add(self, number: int, remember_s: float) -> bool:
        """Remember a number for so many seconds. False, without a change, if remembered already."""
        with self._lock:
            now = self._monotonic()
            self._forget_at = {seen: at for seen, at in self._forget_at.items() if at > now}
            if number in self._forget_at:
                return False
            self._forget_at[number] = now + remember_s
            return True
