"""Follow the RTT of many paths in memory, by median RTTs of the smallest packets. Bursts older than the newest taken
are dropped."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from monitor.analysis.changes.least_rise import least_rise_ms
from monitor.analysis.segments.delay_segments import DelaySegment, DelaySegments
from monitor.present.followed_loss import GAP
from monitor.present.track import Track

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Medians:
    """Bursts, in order of time within a path."""

    path_id: Ints
    at_s: Floats  # starts
    median_ms: Floats


@dataclass(frozen=True, slots=True)
class RttBound:
    """Limit of a path's RTT: its usual RTT plus the lesser of both rises."""

    rise_ms: float  # half of the finding's rise, if is_found
    rise_ratio: float = np.inf  # of the usual RTT
    is_found: bool = False  # the bound is of a finding


class FollowedDelay:
    """The RTT tracks of paths with these cycles, continued from stored tracks."""

    def __init__(self, every_s: Mapping[int, float], stored: Iterable[Track] = ()) -> None:
        self.path_ids = np.array(sorted(every_s), dtype=np.int64)
        self.segments = DelaySegments(len(every_s))
        self._stored = {of.path_id: (of.newest_s, delays_of(of)) for of in stored}
        usual_ms = {path_id: usual for path_id, (_, of) in self._stored.items() if (usual := _usual_ms(of)) is not None}
        self.segments.usual_ms[:] = [usual_ms.get(path_id, np.nan) for path_id in self.path_ids.tolist()]
        self.newest_s = np.full(len(every_s), -np.inf)
        self.every_s = np.array([every_s[path_id] for path_id in self.path_ids.tolist()])
        self._rises_ms, self._rise_ratios = np.full((2, len(every_s)), np.nan)
        self.is_found = np.zeros(len(every_s), dtype=np.bool_)

    def set_limits(self, limits: Mapping[int, RttBound]) -> None:
        """Set the limits of all paths; those without an entry have none."""
        of_paths = [limits.get(path_id) for path_id in self.path_ids.tolist()]
        self._rises_ms[:] = [np.nan if of is None else of.rise_ms for of in of_paths]
        self._rise_ratios[:] = [np.nan if of is None else of.rise_ratio for of in of_paths]
        self.is_found[:] = [of is not None and of.is_found for of in of_paths]

    def set_hourly(self, usual_ms: Mapping[int, float]) -> None:
        """Set the usual RTT of paths at this hour of the day, which does not count as longer."""
        self.segments.hourly_ms[:] = [usual_ms.get(path_id, np.nan) for path_id in self.path_ids.tolist()]

    def follow(self, medians: Medians) -> None:
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
        is_first = spacing_s > GAP * self.every_s[rows]
        self.segments.begin(rows[is_first], at_s[is_first])
        for row, first_s in zip(rows[is_first].tolist(), at_s[is_first].tolist(), strict=True):
            self._go_on(row, first_s)
        # The usual RTT of a new path is known after some of these bursts.
        usual_ms = self.segments.usual_ms[rows]
        self.segments.rises_ms[rows] = least_rise_ms(self._rises_ms[rows], self._rise_ratios[rows], usual_ms)
        self.segments.take(rows, at_s, np.where(is_first, 0.0, spacing_s), median_ms)
        self.newest_s[rows] = at_s

    def _go_on(self, row: int, first_s: float) -> None:
        """Continue a path's stored segments, if older and without a gap."""
        newest_s, segments = self._stored.pop(int(self.path_ids[row]), (-np.inf, ()))
        if segments and segments[-1].since.at_s <= first_s <= newest_s + GAP * self.every_s[row]:
            self.segments.go_on(row, segments)


def delays_of(track: Track) -> tuple[DelaySegment, ...]:
    return tuple(segment for segment in track.segments if isinstance(segment, DelaySegment))


def _usual_ms(segments: Sequence[DelaySegment]) -> float | None:
    usual = [segment.median_ms for segment in segments if not segment.state]
    return usual[-1] if usual else None


def medians_of(spans: Iterable[tuple[int, tuple[int, int]]], at_s: Floats, median_ms: Floats) -> Medians:
    """Select the bursts of paths, each with its span [first, end) of places."""
    path_ids, ends = zip(*spans, strict=True) if (spans := list(spans)) else ((), ())
    first, end = np.array(ends, dtype=np.int64).reshape(-1, 2).T
    counts = end - first
    places = np.repeat(first - (counts.cumsum() - counts), counts) + np.arange(counts.sum())
    return Medians(np.repeat(np.array(path_ids, dtype=np.int64), counts), at_s[places], median_ms[places])
