"""Group paths with raw results read by one statement, with a constant path list and period.

Any plan reads the period at most once; a join with each path's period may not.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import numpy as np
from numpy.typing import ArrayLike, NDArray

from monitor.archive.statements import LONGEST_RAW
from monitor.arrays import Floats

# Lengths in a group are all shorter, or within a factor of two, so few long paths do not dominate.
SHORTEST_S = 3600.0


@dataclass(frozen=True, slots=True)
class PathGroup:
    """Positions of the paths, and their earliest time."""

    places: NDArray[np.int64]
    since: datetime


def groups_of(since_s: ArrayLike, until: datetime, longest: timedelta = LONGEST_RAW) -> Iterator[PathGroup]:
    """Group paths by time to read, within a factor of two; `since_s` (epoch) is at most `longest` before `until`."""
    first_s = np.maximum(np.asarray(since_s, dtype=np.float64), (until - longest).timestamp())
    lengths_s = np.maximum(until.timestamp() - first_s, SHORTEST_S)
    doubled = np.ceil(np.log2(lengths_s / SHORTEST_S))
    for times in np.unique(doubled).tolist():
        places = np.flatnonzero(doubled == times)
        yield PathGroup(places, datetime.fromtimestamp(float(first_s[places].min()), UTC))


def is_since(path_id: Floats, at_s: Floats, path_ids: ArrayLike, since_s: ArrayLike) -> NDArray[np.bool_]:
    """Whether each result is from its path's own time on, to the microsecond. Paths are listed once."""
    ids, first_s = np.asarray(path_ids, dtype=np.int64), np.asarray(since_s, dtype=np.float64)
    order = np.argsort(ids)
    first_s = first_s[order][np.searchsorted(ids, path_id.astype(np.int64), sorter=order)]
    return np.rint(at_s * 1e6) >= np.rint(first_s * 1e6)
