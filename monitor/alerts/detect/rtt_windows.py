"""The newest RTTs of each path as windows for the change detector: bursts that were not judged before.

In: the answered bursts of the smallest packets. Out: for each burst that was not judged before a
window of the bursts that end with it, of three figures: the least round trip of a burst, its median, and the mean
difference of consecutive RTTs (delay variation, RFC 3393). Each new burst is judged once, also when many
arrive together after the agent was cut off.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime

import numpy as np
from numpy.typing import NDArray

from monitor.alerts.detect.sources import Source
from monitor.analysis.changes.detector import AFTER, BEFORE
from monitor.mesh.queries import MeasuredPath

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

WINDOW = BEFORE + AFTER
SPARE_CYCLES = 12
"""Cycles without an answer that a window may hold; with more, the path is judged when it answers better."""
SLOW_GAP = 6
"""Bursts between the two stretches that are compared for a slow rise."""
SLOW_LAG = 4
"""The newest bursts are in neither: a sudden rise is judged as such before. With few cycles without an answer all of
these bursts are among those that are read for `SPARE_CYCLES`."""

FIGURES = {
    "minimum": "minimum RTT of each burst",
    "median": "median RTT of each burst",
    "jitter": "jitter of each burst",
}
"""Figures of a burst, with their words in evidence."""


@dataclass(frozen=True, slots=True)
class RecentBursts:
    """Answered bursts of the same path, oldest first: times, `FIGURES`, and RTTs of shape (bursts, packets), NaN where
    lost."""

    at_s: Floats
    values_ms: Mapping[str, Floats]
    rtts_ms: Floats

    def newest(self, count: int) -> RecentBursts:
        """At most this many bursts."""
        return self.part(max(len(self.at_s) - count, 0), len(self.at_s))

    def part(self, first: int, end: int) -> RecentBursts:
        """The bursts with these numbers."""
        values_ms = {name: column[first:end] for name, column in self.values_ms.items()}
        return RecentBursts(self.at_s[first:end], values_ms, self.rtts_ms[first:end])

    def followed_by(self, others: RecentBursts) -> RecentBursts:
        """Bursts of several paths, these first."""
        values_ms = {name: np.concatenate([column, others.values_ms[name]]) for name, column in self.values_ms.items()}
        packets = max(self.rtts_ms.shape[1], others.rtts_ms.shape[1])
        wide = [
            np.pad(rtts_ms, ((0, 0), (0, packets - rtts_ms.shape[1])), constant_values=np.nan)
            for rtts_ms in (self.rtts_ms, others.rtts_ms)
        ]
        return RecentBursts(np.concatenate([self.at_s, others.at_s]), values_ms, np.concatenate(wide))


@dataclass(frozen=True, slots=True)
class TripWindows:
    """Windows of shape (windows, WINDOW), oldest burst first. `bursts` are those of all paths, one path after the
    other; `spans` has the first and the end of each path's. `ends` has the place of the newest burst of each window.

    `judged_s` is the time of each path's newest burst here: later bursts are new in the next evaluation.
    """

    path_id: Ints
    at_s: Floats
    ttl: Floats
    values_ms: Mapping[str, Floats]
    judged_s: Mapping[int, float]
    bursts: RecentBursts
    spans: Mapping[int, tuple[int, int]]
    ends: Ints

    def with_gaps(self) -> tuple[Ints, Ints]:
        """Windows that end `SLOW_LAG` bursts before the newest burst, with a gap of `SLOW_GAP` bursts after the first
        `BEFORE`: the numbers of the windows that have such bursts, and their places in `bursts`, of shape (windows,
        WINDOW)."""
        first = np.array([self.spans[path_id][0] for path_id in self.path_id.tolist()], dtype=np.int64)
        windows = np.flatnonzero(self.ends - first >= WINDOW + SLOW_GAP + SLOW_LAG - 1)
        back = np.arange(1 - WINDOW, 1) - SLOW_LAG - np.where(np.arange(WINDOW) < BEFORE, SLOW_GAP, 0)
        return windows, self.ends[windows][:, np.newaxis] + back

    def bursts_of(self, path_id: int) -> RecentBursts | None:
        """The recent bursts of a path that has new ones or is watched; None of any other path."""
        span = self.spans.get(path_id)
        return None if span is None else self.bursts.part(*span)

    def with_bursts_of(self, others: TripWindows) -> TripWindows:
        """These windows, with the bursts of other paths too."""
        first = len(self.bursts.at_s)
        spans = {path_id: (first + begin, first + end) for path_id, (begin, end) in others.spans.items()}
        return replace(self, bursts=self.bursts.followed_by(others.bursts), spans={**self.spans, **spans})


def trip_windows(
    now: datetime,
    paths: Mapping[int, MeasuredPath],
    answered_s: Mapping[int, float],
    judged_s: Mapping[int, float],
    watched: set[int],
    source: Source,
) -> TripWindows:
    """The windows and bursts of the paths that have answered since they were judged, and of the `watched`.

    `answered_s` is when each path answered last. A path that was never judged begins with its newest burst.
    """
    due = [
        path
        for path_id, path in paths.items()
        if path.packet_bytes is not None
        and (path_id in watched or answered_s.get(path_id, -np.inf) > judged_s.get(path_id, -np.inf))
    ]
    since_s = [judged_s.get(path.path_id, now.timestamp()) - (WINDOW + SPARE_CYCLES) * path.every_s for path in due]
    sizes = [path.packet_bytes or 0 for path in due]
    trips = source.recent_round_trips([path.path_id for path in due], sizes, since_s, now)
    bursts = RecentBursts(trips.at_s, figures(trips.rtts_ms), trips.rtts_ms)
    return windows_of(trips.path_id.astype(np.int64), trips.ttl, bursts, judged_s)


def figures(rtts_ms: Floats) -> dict[str, Floats]:
    """The three figures of each burst of shape (bursts, packets), NaN where lost. Jitter of a single reply is 0."""
    if not rtts_ms.size:
        return {name: np.zeros(len(rtts_ms)) for name in FIGURES}
    ordered = np.sort(rtts_ms, axis=1)
    answered = (~np.isnan(rtts_ms)).sum(axis=1)
    row = np.arange(len(ordered))
    middle = (ordered[row, (answered - 1) // 2] + ordered[row, answered // 2]) / 2.0
    apart = np.abs(np.diff(rtts_ms, axis=1))
    pairs = (~np.isnan(apart)).sum(axis=1)
    return {
        "minimum": ordered[:, 0],
        "median": middle,
        "jitter": np.where(pairs > 0, np.nansum(apart, axis=1) / np.maximum(pairs, 1), 0.0),
    }


def windows_of(path_id: Ints, ttl: Floats, bursts: RecentBursts, judged_s: Mapping[int, float]) -> TripWindows:
    """Windows of bursts that lie together by path, in the order of time."""
    starts = np.flatnonzero(np.diff(path_id, prepend=-1))
    ends = np.append(starts, len(path_id))[1:]
    counts, ids = ends - starts, path_id[starts].tolist()
    judged = np.array([judged_s.get(path, np.nan) for path in ids])
    is_new = bursts.at_s > np.repeat(judged, counts)
    is_new[ends[np.isnan(judged)] - 1] = True
    is_full = np.arange(len(path_id)) - np.repeat(starts, counts) >= WINDOW - 1
    last = np.flatnonzero(is_new & is_full)
    window = last[:, np.newaxis] + np.arange(1 - WINDOW, 1)
    return TripWindows(
        path_id=path_id[last],
        at_s=bursts.at_s[window],
        ttl=ttl[window],
        values_ms={name: column[window] for name, column in bursts.values_ms.items()},
        judged_s=dict(zip(ids, bursts.at_s[ends - 1].tolist(), strict=True)),
        bursts=bursts,
        spans=dict(zip(ids, zip(starts.tolist(), ends.tolist(), strict=True), strict=True)),
        ends=last,
    )
