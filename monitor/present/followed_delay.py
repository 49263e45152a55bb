"""Follow the RTT of many paths as their bursts arrive, in the memory of a process.

In: the median RTT of the answered bursts of the smallest packets, as the alert rules have read them. Out: the segments
of each path. A burst that is older than the newest taken is left out: it tells nothing of now.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from monitor.analysis.changes.raised import least_rise_ms
from monitor.analysis.segments.delay_segments import DelaySegments
from monitor.present.followed_loss import GAP_CYCLES

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Medians:
    """Bursts, those of a path in order of time: the path, the begin, and the median RTT of each."""

    path_id: Ints
    at_s: Floats
    median_ms: Floats


@dataclass(frozen=True, slots=True)
class RttLimit:
    """From when on the RTT of a path is longer: by `rise_ms` or `rise_ratio` of its usual RTT, whichever is less; of a
    path with an open finding, from `above_ms` on, where it is half back to `usual_ms`."""

    rise_ms: float
    rise_ratio: float
    usual_ms: float | None = None
    above_ms: float | None = None


class FollowedDelay:
    """The tracks of RTT of paths with these cycles, and with the usual RTT where it is known from before."""

    def __init__(self, every_s: Mapping[int, float], usual_ms: Mapping[int, float]) -> None:
        self.path_ids = np.array(sorted(every_s), dtype=np.int64)
        self.segments = DelaySegments(len(every_s))
        self.segments.usual_ms[:] = [usual_ms.get(path_id, np.nan) for path_id in self.path_ids.tolist()]
        self.newest_s = np.full(len(every_s), -np.inf)
        self.every_s = np.array([every_s[path_id] for path_id in self.path_ids.tolist()])

    def set_limits(self, limits: Mapping[int, RttLimit]) -> None:
        """Set the limits of all paths; those without an entry have none."""
        of_paths = [limits.get(path_id) for path_id in self.path_ids.tolist()]
        segments = self.segments
        rises_ms = np.array([np.nan if of is None else of.rise_ms for of in of_paths])
        ratios = np.array([np.nan if of is None else of.rise_ratio for of in of_paths])
        given_ms = np.array([np.nan if of is None or of.usual_ms is None else of.usual_ms for of in of_paths])
        segments.usual_ms[:] = np.where(np.isnan(given_ms), segments.usual_ms, given_ms)
        segments.rises_ms[:] = least_rise_ms(rises_ms, ratios, segments.usual_ms)
        segments.limits_ms[:] = [np.nan if of is None or of.above_ms is None else of.above_ms for of in of_paths]

    def follow(self, medians: Medians) -> None:
        """Take those of these bursts that are newer than any taken of their path."""
        rows = np.searchsorted(self.path_ids, medians.path_id)
        is_known = np.append(self.path_ids, -1)[rows] == medians.path_id
        is_new = np.flatnonzero(is_known)
        is_new = is_new[medians.at_s[is_new] > self.newest_s[rows[is_new]]]
        rows, at_s, median_ms = rows[is_new], medians.at_s[is_new], medians.median_ms[is_new]
        order = np.lexsort((at_s, rows))
        rows, at_s, median_ms = rows[order], at_s[order], median_ms[order]
        _, firsts, counts = np.unique(rows, return_index=True, return_counts=True)
        rank = np.arange(len(rows)) - np.repeat(firsts, counts)
        for number in range(int(counts.max(initial=0))):
            self._take(rows[rank == number], at_s[rank == number], median_ms[rank == number])

    def _take(self, rows: Ints, at_s: Floats, median_ms: Floats) -> None:
        spacing_s = at_s - self.newest_s[rows]
        is_first = spacing_s > GAP_CYCLES * self.every_s[rows]
        self.segments.begin(rows[is_first], at_s[is_first])
        self.segments.take(rows, at_s, np.where(is_first, 0.0, spacing_s), median_ms)
        self.newest_s[rows] = at_s


def medians_of(spans: Iterable[tuple[int, tuple[int, int]]], at_s: Floats, median_ms: Floats) -> Medians:
    """The bursts of paths, each with the places of its first and after its last."""
    path_ids, ends = zip(*spans, strict=True) if (spans := list(spans)) else ((), ())
    first, end = np.array(ends, dtype=np.int64).reshape(-1, 2).T
    counts = end - first
    places = np.repeat(first - (counts.cumsum() - counts), counts) + np.arange(counts.sum())
    return Medians(np.repeat(np.array(path_ids, dtype=np.int64), counts), at_s[places], median_ms[places])
