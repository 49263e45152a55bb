"""Segments of usual or longer RTT of many paths. Usual is the last hour's RTT, or the same hour's of other days where
longer."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from monitor.analysis.segments.delay_filter import BURSTS, LEVEL, DelayFilter, DelayLevel, Rows
from monitor.analysis.segments.segment import HOUR_S, MOST_SEGMENTS, OUTSIDE, TOLD_UNTIL, Moment

Floats = NDArray[np.float64]

# A jitter of ±30 ms is reported from 0.8 on in 6% of half-hour runs, from 0.95 on in 2%.
LONGER_FROM = 1.0 - OUTSIDE
# Bursts of one level that establish the usual RTT of a new path.
USUAL_BURSTS = 8

USUAL, LONGER = 0, 1


@dataclass(frozen=True, slots=True)
class DelaySegment:
    """A stretch of usual or longer RTT since a moment."""

    state: int
    since: Moment
    median_ms: float
    low_ms: float  # of the 95% interval of the level
    high_ms: float
    worst_ms: float  # the longest level

    @property
    def level(self) -> float:
        return self.median_ms

    @property
    def worst(self) -> float:
        return self.worst_ms

    @property
    def interval(self) -> tuple[float, float]:
        return self.low_ms, self.high_ms


class DelaySegments:
    """The segments of `paths` paths. RTT is longer if `rises_ms` above usual (and `hourly_ms` where known), never if
    that is NaN."""

    def __init__(self, paths: int) -> None:
        self.filter = DelayFilter(paths)
        self.usual_ms, self.hourly_ms, self.rises_ms = np.full((3, paths), np.nan)
        self.states = np.zeros(paths, dtype=np.int8)
        # How often a segment began.
        self.changes = np.zeros(paths, dtype=np.int64)
        self._since = np.full((3, paths), -np.inf)
        self._worst_ms = np.full(paths, np.nan)
        # Level and interval of the newest longer stretch, when it was last probable enough.
        self._longer_ms = np.full((3, paths), np.nan)
        self._earlier: dict[int, deque[DelaySegment]] = {}

    def begin(self, rows: Rows, at_s: Floats) -> None:
        """Begin these paths anew with a burst; their usual RTT stays known."""
        self.filter.begin(rows)
        self.states[rows] = USUAL
        self.changes[rows] += 1
        self._since[:, rows] = np.stack([at_s, np.full(len(rows), -np.inf), at_s])
        for row in rows[np.isin(rows, list(self._earlier))].tolist():
            del self._earlier[row]

    def go_on(self, row: int, segments: Sequence[DelaySegment]) -> None:
        """Continue a path that has just begun with its stored segments."""
        *earlier, newest = segments
        self.states[row], self._worst_ms[row] = newest.state, newest.worst_ms
        self._since[:, row] = newest.since.at_s, newest.since.earliest_s, newest.since.latest_s
        self._longer_ms[:, row] = newest.median_ms, newest.low_ms, newest.high_ms
        self._earlier[row] = deque(earlier, maxlen=MOST_SEGMENTS)

    def take(self, rows: Rows, at_s: Floats, spacing_s: Floats, median_ms: Floats) -> None:
        self.filter.take(rows, at_s, spacing_s, median_ms)
        likeliest = self.filter.log_weights[rows].argmax(axis=1)
        level_ms = self.filter.stretches[LEVEL, rows, likeliest]
        bursts = self.filter.stretches[BURSTS, rows, likeliest]
        is_first = np.isnan(self.usual_ms[rows]) & (bursts >= USUAL_BURSTS)
        # A level of an hour is the usual one: in a slow rise it follows late enough to be told.
        share = np.where(is_first, 1.0, -np.expm1(-spacing_s / HOUR_S))
        usual_ms = np.where(is_first, level_ms, self.usual_ms[rows])
        above = self.filter.above(np.nan_to_num(self.limits_of(rows), nan=np.inf), rows)
        follows = (self.states[rows] == USUAL) & (above < TOLD_UNTIL)
        self.usual_ms[rows] = np.where(follows, usual_ms + share * (level_ms - usual_ms), usual_ms)
        states = np.where(self.states[rows] == LONGER, above >= TOLD_UNTIL, above >= LONGER_FROM).astype(np.int8)
        is_changed = states != self.states[rows]
        for row, state in zip(rows[is_changed].tolist(), states[is_changed].tolist(), strict=True):
            self._change(row, state)
        worst_ms = np.fmax(self._worst_ms[rows], level_ms)
        self._worst_ms[rows] = np.where(is_changed | (states == USUAL), level_ms, worst_ms)
        longer = rows[(self.states[rows] == LONGER) & (above >= LONGER_FROM)]
        if len(longer):
            levels = [level for level in self.filter.levels(longer) if level is not None]
            self._longer_ms[:, longer] = np.array([(of.median_ms, of.low_ms, of.high_ms) for of in levels]).T

    @property
    def since_s(self) -> Floats:
        return np.asarray(self._since[0])

    def limits_of(self, rows: Rows) -> Floats:
        return np.asarray(np.fmax(self.usual_ms[rows], self.hourly_ms[rows]) + self.rises_ms[rows])

    def segments(self, rows: Rows) -> list[tuple[DelaySegment, ...]]:
        """The segments of each of these paths, the newest last; none without a burst."""
        levels = zip(rows.tolist(), self.filter.levels(rows), strict=True)
        return [() if of is None else (*self._earlier.get(row, ()), self._segment(row, of)) for row, of in levels]

    def _change(self, row: int, state: int) -> None:
        [level], since = self.filter.levels(np.array([row])), self._moment(row)
        if level is None:
            return
        begun_s = since.at_s if level.before_ms is None else level.since_s
        if begun_s > since.at_s:  # else the path was never in the state before
            usual_ms = float(self.usual_ms[row])
            median_ms, low_ms, high_ms = self._longer_ms[:, row].tolist() if state == USUAL else [usual_ms] * 3
            worst_ms = float(self._worst_ms[row]) if state == USUAL else usual_ms
            ended = DelaySegment(int(self.states[row]), since, median_ms, low_ms, high_ms, worst_ms)
            self._earlier.setdefault(row, deque(maxlen=MOST_SEGMENTS)).append(ended)
            self._since[:, row] = begun_s, level.earliest_s, level.latest_s
        self.states[row], self._longer_ms[:, row] = state, np.nan
        self.changes[row] += 1

    def _segment(self, row: int, level: DelayLevel) -> DelaySegment:
        since, of_now = self._moment(row), (level.median_ms, level.low_ms, level.high_ms)
        if self.states[row] == USUAL:
            return DelaySegment(USUAL, since, *of_now, level.median_ms)
        told = self._longer_ms[:, row].tolist()
        median_ms, low_ms, high_ms = of_now if np.isnan(told[0]) else told
        return DelaySegment(LONGER, since, median_ms, low_ms, high_ms, max(float(self._worst_ms[row]), median_ms))

    def _moment(self, row: int) -> Moment:
        return Moment(*self._since[:, row].tolist())
