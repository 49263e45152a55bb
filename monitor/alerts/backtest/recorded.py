"""A source of snapshots from arrays instead of the archive, for labelled series and simulations.

No result holds data younger than the given moment.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache

import numpy as np
from numpy.typing import ArrayLike, NDArray

from monitor.alerts.backtest.recorded_tests import (
    NO_RESPONSES,
    NO_TESTS,
    MeasuredResponses,
    MeasuredTests,
    newest_of,
)
from monitor.alerts.detect.past.recent_bursts import FIGURES, BurstsOfTrips, figures
from monitor.alerts.detect.route_effects import RouteEffect
from monitor.analysis.routes.compare import RouteHops
from monitor.analysis.tcp import mathis_estimate
from monitor.archive.queries.for_alerts import (
    COUNTS,
    DAY,
    DIRECTIONS,
    EVENTS,
    HOUR,
    NO_HOURS,
    TIMES,
    Columns,
    LeftOutHours,
    RoundTrips,
)
from monitor.arrays import Floats, Ints
from probes.bounds import LARGEST_SMALLINT

HOUR_S = 3600
DAY_S = 24 * HOUR_S
_MICROSECONDS = 1e6
_OF_DIRECTION = ("sent", "lossy", "hours_lossy", "lossy_squares", "season_lossy")


@dataclass(frozen=True, slots=True)
class RecordedBursts:
    """Bursts as columns; times are seconds since the epoch."""

    path_id: Ints
    at_s: Floats
    rtts_ms: Floats  # shape (bursts, packets sent), NaN where lost
    packet_bytes: Ints  # of all packets of a burst
    reordered: Ints
    duplicated: Ints
    ttl: Floats

    @classmethod
    def from_columns(
        cls, path_id: ArrayLike, at_s: ArrayLike, rtts_ms: ArrayLike, packet_bytes: ArrayLike = 100,
        reordered: ArrayLike = 0, duplicated: ArrayLike = 0, ttl: ArrayLike = np.nan,
    ) -> RecordedBursts:  # fmt: skip
        """Sort bursts by path and time; scalars apply to all bursts."""
        ids, times = np.asarray(path_id, dtype=np.int64), np.asarray(at_s, dtype=np.float64)
        order = np.lexsort((times, ids))
        columns = [
            np.broadcast_to(np.asarray(column, dtype=np.int64), ids.shape)[order]
            for column in (packet_bytes, reordered, duplicated)
        ]
        rtts = np.asarray(rtts_ms, dtype=np.float64)
        rtts = (rtts[:, np.newaxis] if rtts.ndim == 1 else rtts)[order]
        ttls = np.broadcast_to(np.asarray(ttl, dtype=np.float64), ids.shape)[order]
        return cls(ids[order], times[order], rtts, columns[0], columns[1], columns[2], ttls)


@dataclass(frozen=True, slots=True)
class HourlyPast:
    """Counts of the hours from `since` up to the first burst, by `COUNTS`, of shape (paths, hours)."""

    since: datetime
    counts: Mapping[str, Floats]


class RecordedSource(BurstsOfTrips):
    """Bursts and tests as a source.

    `ways` are sources for both directions, with raw one-way delays as RTTs, or none; `offset_ms` bounds the clock
    offset, NaN if unknown.
    """

    def __init__(
        self,
        bursts: RecordedBursts,
        tests: MeasuredTests = NO_TESTS,
        past: HourlyPast | None = None,
        path_ids: Sequence[int] | None = None,
        ways: Sequence[RecordedSource] = (),
        offset_ms: tuple[float, float] = (np.nan, np.nan),
        responses: MeasuredResponses = NO_RESPONSES,
    ) -> None:
        self._ways, self._offset_ms = tuple(ways), offset_ms
        self._bursts, self._tests, self._responses = bursts, tests, responses
        self.path_ids = np.unique(bursts.path_id if path_ids is None else np.asarray(path_ids, dtype=np.int64))
        first_s, last_s = (float(bursts.at_s.min()), float(bursts.at_s.max())) if len(bursts.at_s) else (0.0, 0.0)
        self._origin_s = first_s - first_s % HOUR_S if past is None else past.since.timestamp()
        self._span = round((last_s - self._origin_s + 2 * DAY_S) * _MICROSECONDS)
        place = np.searchsorted(self.path_ids, bursts.path_id)
        self._keys = place * self._span + self._since_origin(bursts.at_s)
        received = (~np.isnan(bursts.rtts_ms)).sum(axis=1)
        of_burst = {
            "bursts": np.ones(len(received)),
            "sent": np.full(len(received), bursts.rtts_ms.shape[1]),
            "received": received,
            "lossy": received < bursts.rtts_ms.shape[1],
            "reordered": bursts.reordered > 0,
            "duplicated": bursts.duplicated > 0,
        }
        self._sums = {name: np.append(0.0, np.cumsum(column, dtype=np.float64)) for name, column in of_burst.items()}
        answered = received > 0
        self._answered = answered
        self._last_answered = np.append(-1, np.maximum.accumulate(np.where(answered, np.arange(len(received)), -1)))
        self._hours = self._hourly(past, int(self._span / _MICROSECONDS // HOUR_S) + 1)
        self._figures_of = lru_cache(maxsize=200)(self._day_figures)

    def recent_counts(self, until: datetime, step_s: float, steps: int) -> Columns:
        end_s = until.timestamp()
        edges = self._places(np.array([end_s - number * step_s for number in range(steps + 1)]))
        newer, older = edges[:, :-1], edges[:, 1:]
        columns: Columns = {
            "path_id": np.repeat(self.path_ids, steps).astype(np.float64),
            "step": np.tile(np.arange(steps, dtype=np.float64), len(self.path_ids)),
        }
        columns |= {name: (self._sums[name][newer] - self._sums[name][older]).ravel() for name in COUNTS}
        newest = self._times(newer - 1, newer > older)
        answered_at = self._last_answered[newer]
        answered = self._times(answered_at, answered_at >= older)
        return columns | dict(zip(TIMES, (newest, newest, answered, newest), strict=True))

    def hourly_counts(self, since: datetime, until: datetime, now: datetime) -> Columns:
        hours = int((until - since) / HOUR)
        ends = [until - number * HOUR for number in range(hours)]
        running = [number for number, end in enumerate(ends) if end - HOUR <= now < end]
        columns = self._hours_between(since, until)
        for number in running:
            so_far = self.recent_counts(now, (now - ends[number] + HOUR).total_seconds(), 1)
            for name in COUNTS:
                columns[name][:, hours - 1 - number] = so_far[name]
        return {
            "path_id": np.repeat(self.path_ids, hours).astype(np.float64),
            "step": np.tile(np.arange(hours, dtype=np.float64)[::-1], len(self.path_ids)),
            **{name: column.ravel() for name, column in columns.items()},
        }

    def baseline_counts(
        self,
        since: datetime,
        hours_since: datetime,
        until: datetime,
        season: Sequence[datetime],
        left_out: LeftOutHours = NO_HOURS,
    ) -> Columns:
        every = self._hours_between(since, until)
        is_left_out = self._left_out(left_out, since, every["bursts"])
        in_season = np.array([round((hour - since) / HOUR) for hour in season], dtype=np.int64)
        is_of_season = ~self._is_of_single_week(is_left_out[:, in_season])
        of_season = {event: (every[event][:, in_season] * is_of_season).sum(axis=1) for event in ("bursts", "lossy")}
        every = {name: np.where(is_left_out, 0.0, column) for name, column in every.items()}
        first = round((hours_since - since) / HOUR)
        scattered = {name: column[:, first:] for name, column in every.items()}
        columns: Columns = {"path_id": self.path_ids.astype(np.float64)}
        columns |= {name: column.sum(axis=1) for name, column in every.items()}
        bursts = scattered["bursts"]
        columns["hours"] = (bursts > 0).sum(axis=1).astype(np.float64)
        columns["hours_bursts"] = bursts.sum(axis=1)
        for event in EVENTS:
            columns[f"hours_{event}"] = scattered[event].sum(axis=1)
            columns[f"{event}_squares"] = (scattered[event] ** 2 / np.maximum(bursts, 1.0)).sum(axis=1)
        return columns | {f"season_{event}": counts for event, counts in of_season.items()}

    def _left_out(self, left_out: LeftOutHours, since: datetime, bursts: Floats) -> NDArray[np.bool_]:
        is_left_out, first = np.zeros(bursts.shape, dtype=np.bool_), round(since.timestamp()) // HOUR_S
        rows = {path_id: row for row, path_id in enumerate(self.path_ids.tolist())}
        for path_id, begin, end in zip(left_out.path_id, left_out.first, left_out.end, strict=True):
            if path_id in rows:
                is_left_out[rows[path_id], max(begin - first, 0) : max(end - first, 0)] = True
        share = (bursts * is_left_out).sum(axis=1) / np.maximum(bursts.sum(axis=1), 1.0)
        return is_left_out & (bursts > 0) & (share <= left_out.most)[:, np.newaxis]

    @staticmethod
    def _is_of_single_week(is_left_out: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """Mask left-out season hours, three a week, if no other week has any."""
        weeks = is_left_out.reshape(len(is_left_out), is_left_out.shape[1] // 3, 3).any(axis=2).sum(axis=1)
        return is_left_out & (weeks == 1)[:, np.newaxis]

    def recent_directions(self, until: datetime, step_s: float, steps: int) -> Columns:
        return self._of_ways([way.recent_counts(until, step_s, steps) for way in self._ways])

    def hourly_directions(self, since: datetime, until: datetime, now: datetime) -> Columns:
        return self._of_ways([way.hourly_counts(since, until, now) for way in self._ways])

    def baseline_directions(
        self,
        since: datetime,
        hours_since: datetime,
        until: datetime,
        season: Sequence[datetime],
        left_out: LeftOutHours = NO_HOURS,
    ) -> Columns:
        return self._of_ways([way.baseline_counts(since, hours_since, until, season, left_out) for way in self._ways])

    @staticmethod
    def _of_ways(ways: Sequence[Columns]) -> Columns:
        columns: Columns = dict(ways[0]) if ways else {}
        for direction, of in zip(DIRECTIONS, ways, strict=False):
            columns |= {f"{direction}_{name}": of[name] for name in _OF_DIRECTION if name in of}
            columns[f"{direction}_lost"] = of["sent"] - of["received"]
            columns |= {"delayed_s": of["answered_s"]} if "answered_s" in of else {}
        return columns

    def recent_delays(self, path_ids: Sequence[int], since_s: Sequence[float], until: datetime) -> Columns:
        trips = []
        for way in self._ways:
            smallest = int(way._bursts.packet_bytes.min(initial=LARGEST_SMALLINT))
            trips.append(way.recent_round_trips(path_ids, [smallest] * len(path_ids), since_s, until))
        keys = [of.path_id * self._span + of.at_s for of in trips]
        columns: Columns = {"path_id": np.zeros(0), "at_s": np.zeros(0)}
        for number, direction in enumerate(DIRECTIONS):
            of = {name: np.zeros(0) for name in FIGURES}
            if trips:
                in_both = np.isin(keys[number], keys[1 - number])
                of = figures(trips[number].rtts_ms[in_both])
                columns |= {"path_id": trips[number].path_id[in_both], "at_s": trips[number].at_s[in_both]}
            columns |= {f"{direction}_{name}": of[name] for name in FIGURES}
        lo_ms, hi_ms = self._offset_ms
        none = np.zeros(len(columns["path_id"]))
        return columns | {"offset_lo": none + lo_ms, "offset_hi": none + hi_ms}

    def newest_tests(self, path_ids: Sequence[int], since: datetime, until: datetime, most: int) -> Columns:
        kept, columns = newest_of(self._tests, path_ids, since, until, most)
        return columns | {"throughput_bps": self._tests.throughput_bps[kept]}

    def newest_responses(self, path_ids: Sequence[int], since: datetime, until: datetime, most: int) -> Columns:
        runs = self._responses
        kept, columns = newest_of(runs, path_ids, since, until, most)
        no_bytes = np.zeros(len(kept))
        sizes = {"request_bytes": no_bytes, "response_bytes": no_bytes}
        return columns | sizes | {"median_ms": runs.median_ms[kept], "p95_ms": runs.p95_ms[kept]}

    def hourly_responses(self, since: datetime, until: datetime) -> Columns:
        runs = self._responses
        within = np.flatnonzero((runs.at_s >= since.timestamp()) & (runs.at_s < until.timestamp()))
        order = within[np.lexsort((runs.at_s[within], runs.path_id[within]))]
        hours = np.column_stack([runs.path_id[order], runs.at_s[order] // HOUR_S])
        _, firsts = np.unique(hours, axis=0, return_index=True)
        kept = order[firsts]
        return {
            "path_id": runs.path_id[kept].astype(np.float64),
            **dict.fromkeys(("request_bytes", "response_bytes"), np.zeros(len(kept))),
            "at_s": runs.at_s[kept],
            "median_ms": runs.median_ms[kept],
            "p95_ms": runs.p95_ms[kept],
        }

    def daily_figures(self, since: datetime, until: datetime) -> Columns:
        numbers = range(round((until - since) / DAY))
        first_s = max(since.timestamp(), self._origin_s - DAY_S)
        days = [
            (place, self._figures_of((until - (place + 1) * DAY).timestamp()))
            for place in numbers
            if (until - (place + 1) * DAY).timestamp() >= first_s
        ]
        columns = [np.column_stack([ids, np.full(len(ids), place), rtts, rates]) for place, (ids, rtts, rates) in days]
        rows = np.concatenate(columns) if columns else np.zeros((0, 4))
        return dict(zip(("path_id", "place", "rtt_median_ms", "estimate_bps"), rows.T.copy(), strict=True))

    def recent_round_trips(
        self, path_ids: Sequence[int], packet_bytes: Sequence[int], since_s: Sequence[float], until: datetime
    ) -> RoundTrips:
        until_s = until.timestamp()
        asked_s = np.maximum(since_s, until_s - DAY_S)
        is_known = np.isin(path_ids, self.path_ids)
        row = np.searchsorted(self.path_ids, np.asarray(path_ids, dtype=np.int64)[is_known])
        begin = np.searchsorted(self._keys, row * self._span + self._since_origin(asked_s[is_known]))
        end = np.searchsorted(self._keys, row * self._span + self._since_origin(np.full(len(row), until_s)))
        counts = np.maximum(end - begin, 0)
        bursts = np.repeat(begin - np.cumsum(counts) + counts, counts) + np.arange(counts.sum())
        sizes = np.repeat(np.asarray(packet_bytes, dtype=np.int64)[is_known], counts)
        kept = bursts[self._answered[bursts] & (self._bursts.packet_bytes[bursts] == sizes)]
        of = self._bursts
        return RoundTrips(of.path_id[kept].astype(np.float64), of.at_s[kept], of.ttl[kept], of.rtts_ms[kept])

    def requests(self, path_ids: Sequence[int], since_s: Sequence[float], until: datetime) -> Columns:
        of, first_s = self._bursts, dict(zip(path_ids, since_s, strict=True))
        asked_s = np.array([first_s.get(path_id, np.inf) for path_id in self.path_ids.tolist()])
        is_in = (of.at_s >= asked_s[np.searchsorted(self.path_ids, of.path_id)]) & (of.at_s < until.timestamp())
        return {
            "path_id": of.path_id[is_in].astype(np.float64),
            "at_s": of.at_s[is_in],
            "packet_bytes": of.packet_bytes[is_in].astype(np.float64),
            "answered": self._answered[is_in].astype(np.float64),
        }

    def routes(self, path_ids: Sequence[int], now: datetime) -> Mapping[int, RouteHops]:
        return {}

    def as_paths(self, now: datetime) -> Mapping[str, frozenset[int]]:
        return {}

    def route_effects(self, path_ids: Sequence[int], now: datetime) -> tuple[RouteEffect, ...]:
        return ()

    def agents(self, now: datetime) -> Mapping[str, float]:
        return {}

    def _since_origin(self, times_s: Floats) -> Ints:
        ticks = np.rint((times_s - self._origin_s) * _MICROSECONDS).astype(np.int64)
        return np.asarray(np.clip(ticks, 0, self._span - 1), dtype=np.int64)

    def _places(self, times_s: Floats) -> Ints:
        keys = np.arange(len(self.path_ids))[:, np.newaxis] * self._span + self._since_origin(times_s)
        return np.searchsorted(self._keys, keys)

    def _times(self, places: Ints, there: NDArray[np.bool_]) -> Floats:
        if not len(self._bursts.at_s):
            return np.full(places.size, np.nan)
        return np.where(there, self._bursts.at_s[np.maximum(places, 0)], np.nan).ravel()

    def _hourly(self, past: HourlyPast | None, hours: int) -> dict[str, Floats]:
        edges = self._places(self._origin_s + np.arange(hours + 1, dtype=np.float64) * HOUR_S)
        columns = {name: np.diff(self._sums[name][edges], axis=1) for name in COUNTS}
        if past is not None:
            for name, column in past.counts.items():
                columns[name][:, : column.shape[1]] += column
        return columns

    def _hours_between(self, since: datetime, until: datetime) -> dict[str, Floats]:
        """Counts of hours that begin in [since, until), shape (paths, hours), 0 without data."""
        first = round((since.timestamp() - self._origin_s) / HOUR_S)
        hours = round((until - since) / HOUR)
        at = np.arange(first, first + hours)
        there = (at >= 0) & (at < self._hours["bursts"].shape[1])
        columns = {name: np.zeros((len(self.path_ids), hours)) for name in COUNTS}
        for name, column in columns.items():
            column[:, there] = self._hours[name][:, at[there]]
        return columns

    def _day_figures(self, begin_s: float) -> tuple[Floats, Floats, Floats]:
        edges = self._places(np.array([begin_s, begin_s + DAY_S]))
        ids, medians, sent, received, means = [], [], [], [], []
        for path_id, (begin, end) in zip(self.path_ids.tolist(), edges.tolist(), strict=True):
            sizes = self._bursts.packet_bytes[begin:end][self._answered[begin:end]]
            if not len(sizes):
                continue
            rtts = self._bursts.rtts_ms[begin:end][self._bursts.packet_bytes[begin:end] == sizes.min()]
            answered = rtts[~np.isnan(rtts)]
            ids.append(path_id)
            medians.append(float(np.median(answered)))
            means.append(float(answered.mean()))
            sent.append(rtts.size)
            received.append(answered.size)
        rates, _ = mathis_estimate(np.array(means), np.array(sent), np.array(received))
        return np.array(ids, dtype=np.float64), np.array(medians), rates
