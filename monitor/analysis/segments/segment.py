"""A segment: a stretch of a signal with one level, with its begin."""

from __future__ import annotations

import math
from dataclasses import dataclass


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
