"""Converts the kernel's wall-clock timestamps to monotonic time.

Slewing moves both clocks alike; the offset is kept until a step is detected.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np

from probes.packets.arrays import Bools, Int64s

STEP_NS = 100_000
SLACK_NS = 100_000
NARROW_NS = 5_000
READINGS = 5

# Monotonic time and (realtime - monotonic), both in nanoseconds.
Reading = tuple[int, int]


def read_clocks() -> Reading:
    """Read both clocks closely: the narrowest of a few readings."""
    narrowest, best = 1 << 62, (0, 0)
    for _ in range(READINGS):
        before = time.monotonic_ns()
        wall = time.time_ns()
        after = time.monotonic_ns()
        if after - before < narrowest:
            narrowest, best = after - before, (after, wall - (before + after) // 2)
        if narrowest <= NARROW_NS:
            break
    return best


class StampClock:
    """Tracks the clock offset and detects steps. Call `observe` before reading timestamps."""

    def __init__(self, read: Callable[[], Reading] = read_clocks) -> None:
        self._read = read
        self._observed_ns, self.offset_ns = read()
        self._since_ns = self._observed_ns
        self._offset_before_step_ns: int | None = None

    def observe(self) -> int:
        """Read both clocks; return monotonic nanoseconds."""
        self._since_ns = self._observed_ns
        self._observed_ns, offset_ns = self._read()
        self._offset_before_step_ns = None
        if abs(offset_ns - self.offset_ns) > STEP_NS:
            self._offset_before_step_ns = self.offset_ns
            self.offset_ns = offset_ns
        return self._observed_ns

    def to_monotonic(
        self, stamps_ns: Int64s, not_before_ns: Int64s, not_after_ns: int | Int64s
    ) -> tuple[Int64s, Bools]:
        """Convert timestamps, and mark the trusted between `not_before_ns` and `not_after_ns`; others get the maximum.

        If after a step old and new offset fit, the later time counts, untrusted.
        """
        times_ns = stamps_ns - self.offset_ns
        trusted = _between(times_ns, not_before_ns, not_after_ns)
        times_ns = np.where(trusted, times_ns, not_after_ns)
        if self._offset_before_step_ns is not None:
            earlier_ns = stamps_ns - self._offset_before_step_ns
            fits = _between(earlier_ns, np.maximum(not_before_ns, self._since_ns), not_after_ns)
            times_ns = np.where(fits, np.where(trusted, np.maximum(times_ns, earlier_ns), earlier_ns), times_ns)
            trusted = trusted ^ fits
        return times_ns, trusted


def _between(times_ns: Int64s, not_before_ns: Int64s, not_after_ns: int | Int64s) -> Bools:
    inside: Bools = (times_ns >= not_before_ns - SLACK_NS) & (times_ns <= not_after_ns + SLACK_NS)
    return inside
