"""The newest RTTs of each path as windows for the change detector; each burst is judged once.

Figures: minimum, median and delay variation (RFC 3393).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime

import numpy as np

from monitor.alerts.detect.past.recent_bursts import BurstTable, RecentBursts
from monitor.alerts.detect.sources import Source
from monitor.analysis.changes.detector import AFTER, BEFORE
from monitor.arrays import Floats, Ints
from monitor.mesh.queries import MeasuredPath

WINDOW = BEFORE + AFTER
# Windows compared at once, which bounds memory.
WINDOWS_AT_ONCE = 10_000
# Cycles without an answer that a window may hold; with more, the path is judged when it answers better.
SPARE_CYCLES = 12
# Bursts between the two stretches that are compared for a slow rise.
SLOW_GAP = 6
# The newest bursts are in neither stretch: a sudden rise is judged as such before.
SLOW_LAG = 4


@dataclass(frozen=True, slots=True)
class TripWindows:
    """Windows of WINDOW bursts, by path and time."""

    path_id: Ints
    first: Ints  # place in `bursts` of the path's first burst
    ends: Ints  # place of the window's newest burst
    judged_s: Mapping[int, float]  # newest burst by path; later bursts are new next time
    bursts: RecentBursts  # of all paths
    spans: Mapping[int, tuple[int, int]]  # first and end of each path's bursts

    def window(self, number: int) -> RecentBursts:
        end = int(self.ends[number]) + 1
        return self.bursts.part(end - WINDOW, end)

    def values_ms(self, figure: str, windows: slice | Ints = slice(None)) -> Floats:
        """A figure in these windows, of shape (windows, WINDOW), oldest burst first."""
        return self.bursts.values_ms[figure][self.ends[windows][:, np.newaxis] + np.arange(1 - WINDOW, 1)]

    def with_gaps(self) -> tuple[Ints, Ints]:
        """Window numbers, and places of their bursts, of shape (windows, WINDOW): moved back by `SLOW_LAG`, with a gap
        of `SLOW_GAP` before the change."""
        windows = np.flatnonzero(self.ends - self.first >= WINDOW + SLOW_GAP + SLOW_LAG - 1)
        back = np.arange(1 - WINDOW, 1) - SLOW_LAG - np.where(np.arange(WINDOW) < BEFORE, SLOW_GAP, 0)
        return windows, self.ends[windows][:, np.newaxis] + back

    def bursts_of(self, path_id: int) -> RecentBursts | None:
        """Recent bursts of a path; None unless it is watched or has new bursts."""
        span = self.spans.get(path_id)
        return None if span is None else self.bursts.part(*span)

    def with_bursts_of(self, others: TripWindows) -> TripWindows:
        if others.bursts is self.bursts:
            return replace(self, spans={**self.spans, **others.spans})
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
    *,
    with_rtts: bool = False,
) -> TripWindows:
    """Windows and bursts of the `watched` paths and those that answered since they were judged."""
    due = [
        path
        for path_id, path in paths.items()
        if path.packet_bytes is not None
        and (path_id in watched or answered_s.get(path_id, -np.inf) > judged_s.get(path_id, -np.inf))
    ]
    since_s = [judged_s.get(path.path_id, now.timestamp()) - (WINDOW + SPARE_CYCLES) * path.every_s for path in due]
    sizes = [path.packet_bytes or 0 for path in due]
    path_ids = [path.path_id for path in due]
    return windows_of(source.recent_bursts(path_ids, sizes, since_s, now, with_rtts=with_rtts), judged_s)


def windows_of(table: BurstTable, judged_s: Mapping[int, float]) -> TripWindows:
    """Windows that end after the path's last judged burst; only the newest if none was judged."""
    ids, at_s = table.path_id.tolist(), table.bursts.at_s
    judged = np.array([judged_s.get(path_id, np.nan) for path_id in ids])
    newest_s = at_s[table.end - 1]
    judged = np.where(np.isnan(judged), np.nextafter(newest_s, -np.inf), judged)
    rows, ends = np.arange(len(ids)), table.end - 1
    windows = [(rows[:0], ends[:0])]
    while len(rows):
        is_new = (ends - table.first[rows] >= WINDOW - 1) & (at_s[ends] > judged[rows])
        rows, ends = rows[is_new], ends[is_new]
        windows.append((rows, ends))
        ends = ends - 1
    row, last = (np.concatenate(columns) for columns in zip(*windows, strict=True))
    order = np.lexsort((last, row))
    row, last = row[order], last[order]
    return TripWindows(
        path_id=table.path_id[row],
        first=table.first[row],
        ends=last,
        judged_s=dict(zip(ids, newest_s.tolist(), strict=True)),
        bursts=table.bursts,
        spans=dict(zip(ids, zip(table.first.tolist(), table.end.tolist(), strict=True), strict=True)),
    )
