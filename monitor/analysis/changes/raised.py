"""Whether the newest values of a series are above all before them: a sign of a longer RTT, minutes before its proof.

In: least RTTs of the newest bursts, oldest first, of shape (paths, bursts). Out: for each path the number of its newest
bursts that are raised. It is no alarm: a path is only not called normal while the detector collects its samples.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

Ints = NDArray[np.int64]

LEAST_AFTER = 3
"""Raised bursts in a row."""
LEAST_BEFORE = 10
LEAST_BY_RATIO_MS = 1.0
SPREADS = 2.0
"""So many times the range of the bursts before them lie the raised ones above their highest."""


def raised(values_ms: ArrayLike, least_ms: ArrayLike, least_ratio: ArrayLike) -> Ints:
    """The number of the newest values of each row that lie above all before them, by `least_ms` of the row or, if that
    is less, by the share `least_ratio` of the values before and a millisecond, and by SPREADS times their range; 0
    where none do. Rows with an infinite `least_ms` are not looked at."""
    values = np.asarray(values_ms, dtype=np.float64)
    count = values.shape[1]
    highest, lowest = np.maximum.accumulate(values, axis=1), np.minimum.accumulate(values, axis=1)
    least_after = np.minimum.accumulate(values[:, ::-1], axis=1)[:, ::-1]
    places = np.arange(LEAST_BEFORE, count - LEAST_AFTER + 1)
    above = least_after[:, places] - highest[:, places - 1]
    own_ms, ratio = (np.asarray(limit, dtype=np.float64)[:, np.newaxis] for limit in (least_ms, least_ratio))
    by_ratio = np.maximum(ratio * lowest[:, places - 1], LEAST_BY_RATIO_MS)
    least = np.where(np.isfinite(own_ms), np.minimum(own_ms, by_ratio), np.inf)
    wide = SPREADS * (highest[:, places - 1] - lowest[:, places - 1])
    is_raised = above >= np.maximum(least, wide)
    best = np.where(is_raised, above, -np.inf).argmax(axis=1) if len(places) else np.zeros(len(values), dtype=np.int64)
    return np.where(is_raised.any(axis=1), count - places[best], 0) if len(places) else best
