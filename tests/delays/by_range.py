"""How a longer RTT was told before there were segments: the newest values of a series are above all before them.

In: a figure of the newest bursts, oldest first, of shape (paths, bursts). Out: for each path the number of its newest
bursts that are raised.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from monitor.analysis.changes.least_rise import least_rise_ms

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

LEAST_AFTER = 3
"""Raised bursts in a row."""
LEAST_BEFORE = 10
SPREADS = 2.0
"""So many times the range of the bursts before them lie the raised ones above their highest."""


def raised(values_ms: ArrayLike, least_ms: ArrayLike, least_ratio: ArrayLike) -> Ints:
    """The number of the newest values of each row that lie above all before them, by `least_ms` of the row or, if that
    is less, by the share `least_ratio` of the values before and a millisecond, and by SPREADS times their range; 0
    where none do. Rows with an infinite `least_ms` are not looked at."""
    values = np.asarray(values_ms, dtype=np.float64)
    count = values.shape[1]
    if count < LEAST_BEFORE + LEAST_AFTER:
        return np.zeros(len(values), dtype=np.int64)
    highest, lowest = np.maximum.accumulate(values, axis=1), np.minimum.accumulate(values, axis=1)
    least_after = np.minimum.accumulate(values[:, ::-1], axis=1)[:, ::-1]
    places = np.arange(LEAST_BEFORE, count - LEAST_AFTER + 1)
    above = least_after[:, places] - highest[:, places - 1]
    own_ms, ratio = (np.asarray(limit, dtype=np.float64)[:, np.newaxis] for limit in (least_ms, least_ratio))
    least = np.where(np.isfinite(own_ms), least_rise_ms(own_ms, ratio, lowest[:, places - 1]), np.inf)
    wide = SPREADS * (highest[:, places - 1] - lowest[:, places - 1])
    is_raised = above >= np.maximum(least, wide)
    best = np.where(is_raised, above, -np.inf).argmax(axis=1)
    return np.where(is_raised.any(axis=1), count - places[best], 0)
