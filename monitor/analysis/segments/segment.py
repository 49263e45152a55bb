"""A segment: a stretch of a signal with one level, with its start."""

from __future__ import annotations

import math
from dataclasses import dataclass

# On each side of a 95% set.
TAIL = 0.025
# Probability outside of a 95% set: nothing likelier is excluded.
OUTSIDE = 2.0 * TAIL
# A trouble is reported until its probability falls below this.
TOLD_UNTIL = 0.25
# Hypotheses of each path.
KEPT = 16
# Segments kept of a path; one that flaps each 20 seconds has more in an hour.
MOST_SEGMENTS = 32
HOUR_S = 3600.0


@dataclass(frozen=True, slots=True)
class Moment:
    """A time with its 95% set, in seconds since the epoch; `earliest_s` is -inf where nothing bounds it."""

    at_s: float
    earliest_s: float
    latest_s: float

    @property
    def is_bounded(self) -> bool:
        return math.isfinite(self.earliest_s)

    @property
    def width_s(self) -> float:
        """Width of the 95% set; infinite where nothing bounds it."""
        return self.latest_s - self.earliest_s


@dataclass(frozen=True, slots=True)
class RateSegment:
    """A stretch of throughput since a moment."""

    state: int  # usual (0) or low (1)
    since: Moment
    level: float  # the newest rate
    worst: float  # the lowest rate
