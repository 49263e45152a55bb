"""Turns the kernel's wall-clock stamps into monotonic ones, so that a step of the wall clock bends no round trip.

The kernel stamps packets with CLOCK_REALTIME. Slewing moves CLOCK_REALTIME and CLOCK_MONOTONIC alike; only a step
changes their difference. The difference is held fixed until a step is seen, so its reading adds no noise.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np

from probes.ping.arrays import Bools, Int64s

STEP_NS = 100_000
SLACK_NS = 100_000
NARROW_NS = 5_000
READINGS = 5

Reading = tuple[int, int]
"""Monotonic now and (realtime - monotonic), both in nanoseconds."""


def read_clocks() -> Reading:
    """Read both clocks as close together as can be: the narrowest of a few readings."""
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
    """The difference of the two clocks, watched for steps. `observe` before each reading of stamps."""

    def __init__(self, read: Callable[[], Reading] = read_clocks) -> None:
        self._read = read
        self._observed_ns, self.offset_ns = read()
        self._since_ns = self._observed_ns
        self._stepped_from_ns: int | None = None

    def observe(self) -> int:
        """Look at both clocks. Returns monotonic now, in nanoseconds."""
        self._since_ns = self._observed_ns
        self._observed_ns, offset_ns = self._read()
        self._stepped_from_ns = None
        if abs(offset_ns - self.offset_ns) > STEP_NS:
            self._stepped_from_ns = self.offset_ns
            self.offset_ns = offset_ns
        return self._observed_ns

    def to_monotonic(
        self, stamps_ns: Int64s, not_before_ns: Int64s, not_after_ns: int | Int64s
    ) -> tuple[Int64s, Bools]:
        """Monotonic times of kernel stamps, and which of them can be trusted; of the others, the latest they can be.

        A stamp is trusted if it falls between what must have come before it (for example the call that sent the
        packet) and `not_after_ns`. Where the clock has just stepped, the old difference is tried as well; if both fit,
        nobody can tell which holds: the stamp is not trusted, and its time is the later of the two.
        """
        times_ns = stamps_ns - self.offset_ns
        trusted = _between(times_ns, not_before_ns, not_after_ns)
        times_ns = np.where(trusted, times_ns, not_after_ns)
        if self._stepped_from_ns is not None:
            earlier_ns = stamps_ns - self._stepped_from_ns
            fits = _between(earlier_ns, np.maximum(not_before_ns, self._since_ns), not_after_ns)
            times_ns = np.where(fits, np.where(trusted, np.maximum(times_ns, earlier_ns), earlier_ns), times_ns)
            trusted = trusted ^ fits
        return times_ns, trusted


def _between(times_ns: Int64s, not_before_ns: Int64s, not_after_ns: int | Int64s) -> Bools:
    inside: Bools = (times_ns >= not_before_ns - SLACK_NS) & (times_ns <= not_after_ns + SLACK_NS)
    return inside
