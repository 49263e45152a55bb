"""Retries of requests to the centre: exponential backoff with jitter and a cap, or the centre's Retry-After."""

from __future__ import annotations

import random
import time
from collections.abc import Callable

MIN_PAUSE_S = 1.0
MAX_PAUSE_S = 60.0
MAX_RETRY_AFTER_S = 600.0


class BackOff:
    """Counts failures in a row; `may_try` is false during each pause.

    The pause doubles, drawn between half and whole so that agents do not return together.
    """

    def __init__(
        self, *, clock: Callable[[], float] = time.monotonic, uniform: Callable[[float, float], float] = random.uniform
    ) -> None:
        self._clock = clock
        self._uniform = uniform
        self._failures = 0
        self._not_before = clock()

    def may_try(self) -> bool:
        return self._clock() >= self._not_before

    def succeeded(self) -> None:
        self._failures = 0
        self._not_before = self._clock()

    def failed(self, retry_after_s: float | None = None) -> float:
        """Note a failure; return the seconds of the pause that begins now."""
        ceiling = min(MAX_PAUSE_S, MIN_PAUSE_S * 2.0 ** min(self._failures, 16))
        pause = self._uniform(ceiling / 2, ceiling)
        if retry_after_s is not None:
            pause += min(retry_after_s, MAX_RETRY_AFTER_S)
        self._failures += 1
        self._not_before = self._clock() + pause
        return pause
