"""What was written last of each track, and which are to be written now."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from monitor.present.track import Codes

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]

AWAY_S = 300.0
"""Calm tracks that say the same are written once in this time, or in half of it; a process that has not looked for so
long begins anew."""


class Written:
    """What was written last of each track, and when."""

    def __init__(self, tracks: int) -> None:
        self.conditions = np.full(tracks, -1, dtype=np.int8)
        self.changes = np.full(tracks, -1, dtype=np.int64)
        self.newest_s, self.at_s = np.full((2, tracks), -np.inf)
        self._was_calm = np.zeros(tracks, dtype=np.bool_)

    def take(
        self, conditions: Codes, changes: Ints, newest_s: Floats, is_calm: Bools, spread: Ints, now_s: float
    ) -> Ints:
        """The tracks to be written now: those that say something else, those that are not calm with newer bursts, and
        calm ones after a while, by the number `spread` over the time."""
        is_same = (conditions == self.conditions) & (changes == self.changes) & (is_calm == self._was_calm)
        is_due = np.where(is_calm, now_s - self.at_s >= AWAY_S * (0.5 + spread % 32 / 64.0), newest_s > self.newest_s)
        rows = np.flatnonzero(~is_same | is_due)
        self.conditions[rows], self.changes[rows] = conditions[rows], changes[rows]
        self.newest_s[rows], self.at_s[rows], self._was_calm[rows] = newest_s[rows], now_s, is_calm[rows]
        return rows
