"""Groups of paths whose raw results are read by one statement, each path's from a time of its own on.

Such a statement has a constant list of paths, and a period: any plan of it reads the period at most once. Where it
joins each path with a period of its own, a table of which the server knows nothing yet, as a chunk of the new day, is
planned to be read once for each path.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import numpy as np
from numpy.typing import ArrayLike, NDArray

from monitor.archive.statements import LONGEST_RAW

Floats = NDArray[np.float64]

SHORTEST_S = 3600.0
"""The periods of a group are all shorter, or the longest is at most twice the shortest: few paths with a long period do
not let that of the others be read as long."""


@dataclass(frozen=True, slots=True)
class PathGroup:
    """The places of the paths in their sequence, and the first of their times."""

    places: NDArray[np.int64]
    since: datetime


def groups_of(since_s: ArrayLike, until: datetime, longest: timedelta = LONGEST_RAW) -> Iterator[PathGroup]:
    """Groups of paths whose results are read from `since_s` on (seconds since the epoch), and no earlier than `longest`
    before `until`."""
    first_s = np.maximum(np.asarray(since_s, dtype=np.float64), (until - longest).timestamp())
    lengths_s = np.maximum(until.timestamp() - first_s, SHORTEST_S)
    doubled = np.ceil(np.log2(lengths_s / SHORTEST_S))
    for times in np.unique(doubled).tolist():
        places = np.flatnonzero(doubled == times)
        yield PathGroup(places, datetime.fromtimestamp(float(first_s[places].min()), UTC))


def is_since(path_id: Floats, at_s: Floats, path_ids: ArrayLike, since_s: ArrayLike) -> NDArray[np.bool_]:
    """Of results of these paths, each listed once: whether they are not older than their path's own time, in
    microseconds as stored."""
    ids, first_s = np.asarray(path_ids, dtype=np.int64), np.asarray(since_s, dtype=np.float64)
    order = np.argsort(ids)
    first_s = first_s[order][np.searchsorted(ids, path_id.astype(np.int64), sorter=order)]
    return np.rint(at_s * 1e6) >= np.rint(first_s * 1e6)
