"""A segment: a stretch of a signal with one level, with its begin."""

from __future__ import annotations

import math
from dataclasses import dataclass

TAIL = 0.025
"""On each side of a 95% set."""
OUTSIDE = 2.0 * TAIL
"""The probability of what a 95% set leaves out: nothing is excluded that is likelier."""
TOLD_UNTIL = 0.25
"""A trouble is told until its probability falls below this."""
KEPT = 16
"""Hypotheses of each path."""
MOST_SEGMENTS = 32
"""Segments kept of a path. One that flaps each 20 seconds has more in an hour; the newest tell the present."""
HOUR_S = 3600.0


@dataclass(frozen=True, slots=True)
class Moment:
    """A time with its 95% set, in seconds since the epoch; `earliest_s` is -inf where nothing bounds it."""

    at_s: float
    earliest_s: float
    latest_s: float

    @property
    def is_bounded(self) -> bool:
        """Whether measurements tell the earliest time."""
        return math.isfinite(self.earliest_s)

    @property
    def width_s(self) -> float:
        """Of the 95% set; infinite where nothing bounds it."""
        return self.latest_s - self.earliest_s


@dataclass(frozen=True, slots=True)
class RateSegment:
    """A stretch of usual (0) or low (1) throughput since a moment: its newest and its lowest rate."""

    state: int
    since: Moment
    level: float
    worst: float
