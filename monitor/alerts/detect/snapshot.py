"""The state of all measured paths at a moment, as arrays for the rules, which never query the database.

No data is younger than the moment.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from monitor.alerts.detect.delay_windows import delay_windows
from monitor.alerts.detect.past.baselines import DRIFT_DAYS, TESTED_HOURS, Baselines, baselines_at
from monitor.alerts.detect.past.incident_times import MeasureKind
from monitor.alerts.detect.past.silences import Silence, silences_of
from monitor.alerts.detect.response_runs import ResponseRuns
from monitor.alerts.detect.route_effects import RouteEffect
from monitor.alerts.detect.rtt_windows import TripWindows, trip_windows
from monitor.alerts.detect.sources import STORED, Source
from monitor.analysis.alarms import ranks
from monitor.analysis.routes.compare import RouteHops
from monitor.analysis.routes.wording import AsLabels
from monitor.archive.periods import start_of
from monitor.archive.queries import for_alerts
from monitor.archive.queries.for_alerts import COUNTS, DIRECTIONS, TIMES
from monitor.archive.statements import LONGEST_RAW
from monitor.arrays import Floats
from monitor.mesh.queries import MeasuredPath

# A path and a rule: at most a single lasting incident has a finding of this key.
Key = tuple[int, str]

RECENT_S = 3600
# Of the last hour; where cycles exceed 15 minutes, of the last four cycles, a day at most.
RECENT_STEPS = 12

RECENT_CYCLES = 4

SHARE_OF_ROUND_TRIPS = 0.5
# Shares of the false alarms of a rule on a path with STAMP tests: round trips and two directions.
SHARE_OF_DIRECTION = 0.25

TESTS_WITHIN = timedelta(days=60)

_PREFIXES = tuple(f"{direction}_" for direction in DIRECTIONS)


@dataclass(frozen=True, slots=True)
class NewestCounts:
    """`COUNTS` over the newest window, of shape (paths,) or scalar for a single path."""

    window_s: float
    counted_s: float  # without the seconds that the newest step lacks
    counts: Mapping[str, Floats]


@dataclass(frozen=True, slots=True)
class MeshRoutes:
    """The present routes of paths, and the known AS of their hops with names."""

    by_path: Mapping[int, RouteHops] = field(default_factory=dict)
    as_of: Mapping[str, int] = field(default_factory=dict)
    as_names: Mapping[int, str] = field(default_factory=dict)

    @property
    def labels(self) -> AsLabels:
        return AsLabels(self.as_of.get, self.as_names.get)


@dataclass(frozen=True, slots=True)
class OneWayCounts:
    """Counts and delays of a direction of the paths with STAMP tests, as in `Snapshot`."""

    paths: dict[int, MeasuredPath]
    trips: TripWindows
    step_s: float
    recent: Mapping[str, Floats]
    hourly: Mapping[str, Floats]
    baseline: Mapping[str, Floats]
    windows: Mapping[float, Mapping[str, Floats]]


@dataclass(frozen=True)
class Snapshot:
    """Arrays with a row for each of `paths`, in their order; counts have the shape (paths, steps), newest first.

    Without a measurement a count is 0 and a time NaN.
    """

    now: datetime
    paths: dict[int, MeasuredPath]
    rows: dict[int, int]
    step_s: float
    recent: Mapping[str, Floats]
    hourly: Mapping[str, Floats]
    baseline: Mapping[str, Floats]
    windows: Mapping[float, Mapping[str, Floats]]  # loss windows by seconds if no multiple of a step; shape (paths, 1)
    trips: TripWindows
    daily_rtts_ms: Floats
    daily_estimates_bps: Floats
    tested_paths: dict[int, MeasuredPath]
    test_rows: dict[int, int]
    tests_bps: Floats
    tested_at_s: Floats
    tests_left_out: NDArray[np.bool_]  # in an earlier incident or maintenance
    agents: Mapping[str, float]  # last contact with each site's agent
    silences: Mapping[int, Silence] = field(default_factory=dict)  # of paths with the newest burst lost entirely
    troubles: Mapping[str, tuple[str, ...]] = field(default_factory=dict)  # problems that agents report of themselves
    measuring_troubles: Mapping[str, tuple[str, ...]] = field(default_factory=dict)  # those that disturb measurements
    ended_s: Mapping[Key, float] = field(default_factory=dict)  # end of the last incident by path and rule
    maintained_s: Mapping[int, float] = field(default_factory=dict)  # end of a path's last maintenance
    # read only where a common cause depends on them (`with_routes`)
    routes: MeshRoutes = field(default_factory=MeshRoutes)
    route_effects: tuple[RouteEffect, ...] = ()  # empty unless the rule `route_change` is on
    as_paths: Mapping[str, frozenset[int]] = field(default_factory=dict)  # paths through each AS, since the hour began
    # `forward` and `reverse` of paths with STAMP tests
    directions: Mapping[str, OneWayCounts] = field(default_factory=dict)
    is_one_way: bool = False
    responses: ResponseRuns = field(default_factory=ResponseRuns)
    # seconds missing from the newest step or window (`Source.lacking_s`)
    lacking_s: Mapping[float, float] = field(default_factory=dict)

    def of_direction(self, direction: str) -> Snapshot:
        of = self.directions[direction]
        return replace(
            self,
            paths=of.paths,
            rows={path_id: row for row, path_id in enumerate(of.paths)},
            step_s=of.step_s,
            recent=of.recent,
            hourly=of.hourly,
            baseline=of.baseline,
            windows=of.windows,
            trips=of.trips,
            directions={},
            is_one_way=True,
            lacking_s={},
        )

    @property
    def delays_judged_s(self) -> Mapping[int, float]:
        """As `trips.judged_s`, for one-way delays."""
        return next((counts.trips.judged_s for counts in self.directions.values()), {})

    @cached_property
    def alarm_shares(self) -> Floats:
        """Each path's share of a rule's false alarms for these counts."""
        if self.is_one_way:
            return np.full(len(self.paths), SHARE_OF_DIRECTION)
        with_directions = {path_id for counts in self.directions.values() for path_id in counts.paths}
        return np.array([SHARE_OF_ROUND_TRIPS if path_id in with_directions else 1.0 for path_id in self.paths])

    @property
    def usual_tests_bps(self) -> Floats:
        """`tests_bps`, NaN for tests in an earlier incident or maintenance."""
        return np.where(self.tests_left_out, np.nan, self.tests_bps)

    @cached_property
    def every_s(self) -> Floats:
        return np.array([path.every_s for path in self.paths.values()], dtype=np.float64)

    @property
    def recent_s(self) -> float:
        """How far the recent counts reach back."""
        return self.step_s * RECENT_STEPS

    @property
    def recent_lacking_s(self) -> float:
        """Seconds missing from the newest recent step."""
        return self.lacking_s.get(self.step_s, 0.0)

    @property
    def running_hour_s(self) -> float:
        return (self.now - start_of("hour", self.now)).total_seconds()

    def newest_counts(self, window_s: float, row: int | slice = slice(None)) -> NewestCounts:
        """The counts in a loss window; other lengths are rounded up to whole recent steps."""
        if window_s in self.windows:
            return NewestCounts(
                window_s,
                window_s - self.lacking_s.get(window_s, 0.0),
                {name: column[row].sum(axis=-1) for name, column in self.windows[window_s].items()},
            )
        steps = min(math.ceil(window_s / self.step_s), RECENT_STEPS)
        counts = {name: self.recent[name][row, :steps].sum(axis=-1) for name in COUNTS}
        return NewestCounts(steps * self.step_s, steps * self.step_s - self.recent_lacking_s, counts)

    def newest(self, name: str) -> Floats:
        """When each path's newest burst was tried, measured or answered, in seconds since the epoch."""
        return np.fmax.reduce(self.recent[name], axis=1)


def take_snapshot(
    now: datetime,
    paths: dict[int, MeasuredPath],
    tested_paths: dict[int, MeasuredPath],
    windows_s: Iterable[float],
    judged_s: Mapping[int, float],
    watched: Iterable[int] = (),
    baselines: Baselines | None = None,
    source: Source = STORED,
    *,
    with_rtts: bool = True,
) -> Snapshot:
    """Load all inputs of the rules at `now` from `source`.

    Reuses `baselines` of the same hour; loads RTTs of `watched` paths even without new bursts.
    """
    rows, step_s = {path_id: row for row, path_id in enumerate(paths)}, _step_s(paths)
    recent = _by_path(source.recent_counts(now, step_s, RECENT_STEPS), (*COUNTS, *TIMES), rows, RECENT_STEPS)
    baselines = baselines_of(now, baselines, source)
    hour = baselines.hour
    hourly = source.hourly_counts(hour - TESTED_HOURS * for_alerts.HOUR, hour + for_alerts.HOUR, now)
    uneven = _uneven(windows_s, step_s)
    test_rows = {path_id: row for row, path_id in enumerate(tested_paths)}
    tests = source.newest_tests(list(tested_paths), now - TESTS_WITHIN, now, ranks.LONGEST) if tested_paths else {}
    by_test = _by_path(tests, ("throughput_bps", "at_s"), test_rows, ranks.LONGEST, "place")
    tested_at_s = by_test["at_s"][:, ::-1]
    of_tests = np.fromiter(test_rows, dtype=np.int64)
    daily = _by_path(baselines.daily, ("rtt_median_ms", "estimate_bps"), rows, DRIFT_DAYS, "place")
    return Snapshot(
        now=now,
        paths=paths,
        rows=rows,
        step_s=step_s,
        recent=recent,
        hourly=_by_path(hourly, COUNTS, rows, TESTED_HOURS + 1),
        baseline=_by_path_array(baselines.columns, rows),
        windows={window_s: _by_path(source.recent_counts(now, window_s, 1), COUNTS, rows, 1) for window_s in uneven},
        trips=trip_windows(
            now, paths, _newest(recent["answered_s"], paths), judged_s, set(watched), source, with_rtts=with_rtts
        ),
        daily_rtts_ms=daily["rtt_median_ms"][:, ::-1],
        daily_estimates_bps=daily["estimate_bps"][:, ::-1],
        tested_paths=tested_paths,
        test_rows=test_rows,
        tests_bps=by_test["throughput_bps"][:, ::-1],
        tested_at_s=tested_at_s,
        tests_left_out=baselines.times.over(MeasureKind.TESTS, of_tests, tested_at_s),
        agents=source.agents(now),
        silences=_silences(now, paths, recent, step_s * RECENT_STEPS, source),
        as_paths=baselines.as_paths,
        lacking_s={step_s: source.lacking_s(now, step_s, RECENT_STEPS)}
        | {window_s: source.lacking_s(now, window_s, 1) for window_s in uneven},
    )


def take_directions(
    now: datetime,
    paths: dict[int, MeasuredPath],
    windows_s: Iterable[float],
    judged_s: Mapping[int, float],
    watched: Iterable[int] = (),
    baselines: Baselines | None = None,
    source: Source = STORED,
) -> dict[str, OneWayCounts]:
    """Load counts and delays of each direction of `paths` with STAMP tests, at their interval `every_s`; empty without
    paths."""
    if not paths:
        return {}
    rows, step_s = {path_id: row for row, path_id in enumerate(paths)}, _step_s(paths)
    baselines = baselines_of(now, baselines, source)
    hour = baselines.hour
    recent = source.recent_directions(now, step_s, RECENT_STEPS)
    hourly = source.hourly_directions(hour - TESTED_HOURS * for_alerts.HOUR, hour + for_alerts.HOUR, now)
    windows = {window_s: source.recent_directions(now, window_s, 1) for window_s in _uneven(windows_s, step_s)}
    delayed_s = _newest(_by_path(recent, ("delayed_s",), rows, RECENT_STEPS)["delayed_s"], paths)
    delays = delay_windows(now, paths, delayed_s, judged_s, set(watched), source)
    return {
        direction: OneWayCounts(
            paths,
            delays[direction],
            step_s,
            _by_path(_one_way(recent, direction), COUNTS, rows, RECENT_STEPS),
            _by_path(_one_way(hourly, direction), COUNTS, rows, TESTED_HOURS + 1),
            _by_path_array(_one_way(baselines.directions, direction), rows),
            {
                window_s: _by_path(_one_way(columns, direction), COUNTS, rows, 1)
                for window_s, columns in windows.items()
            },
        )
        for direction in DIRECTIONS
    }


def _one_way(columns: Mapping[str, Floats], direction: str) -> dict[str, Floats]:
    """Columns of a direction by `COUNTS`; reordered and duplicated packets are not counted."""
    prefix = f"{direction}_"
    of_both = {name: column for name, column in columns.items() if not name.startswith(_PREFIXES)}
    of_one = {name.removeprefix(prefix): column for name, column in columns.items() if name.startswith(prefix)}
    none = np.zeros(len(columns["path_id"]))
    received = of_one["sent"] - of_one["lost"]
    return {**of_both, **of_one, "received": received, "reordered": none, "duplicated": none}


def _step_s(paths: Mapping[int, MeasuredPath]) -> float:
    slowest_s = max((path.every_s for path in paths.values()), default=0)
    return min(max(RECENT_S, RECENT_CYCLES * slowest_s), LONGEST_RAW.total_seconds()) / RECENT_STEPS


def _uneven(windows_s: Iterable[float], step_s: float) -> list[float]:
    return [window_s for window_s in sorted(set(windows_s)) if window_s > RECENT_STEPS * step_s or window_s % step_s]


def baselines_of(now: datetime, baselines: Baselines | None, source: Source) -> Baselines:
    return baselines if baselines is not None and baselines.hour == start_of("hour", now) else baselines_at(now, source)


def _by_path(
    columns: Mapping[str, Floats], names: Iterable[str], rows: Mapping[int, int], steps: int, place: str = "step"
) -> dict[str, Floats]:
    """Convert columns to arrays of shape (paths, places); missing counts are 0."""
    arrays = {name: np.full((len(rows), steps), 0.0 if name in COUNTS else np.nan) for name in names}
    if not columns or not rows:
        return arrays
    is_listed, row = _find_rows(columns["path_id"], rows)
    listed = np.flatnonzero(is_listed)
    at = columns[place][listed].astype(np.int64)
    within = (at >= 0) & (at < steps)
    listed, cells = listed[within], (row * steps + at)[within]
    for name, array in arrays.items():
        array.reshape(-1)[cells] = _zero_counts(name, columns[name][listed])
    return arrays


def _by_path_array(columns: Mapping[str, Floats], rows: Mapping[int, int]) -> dict[str, Floats]:
    is_listed, row = _find_rows(columns["path_id"], rows)
    arrays = {}
    for name, column in columns.items():
        arrays[name] = np.zeros(len(rows))
        arrays[name][row] = _zero_nan(column[is_listed])
    return arrays


def _silences(
    now: datetime, paths: Mapping[int, MeasuredPath], recent: Mapping[str, Floats], recent_s: float, source: Source
) -> dict[int, Silence]:
    """Find silences of paths that lost their newest burst: at most a query."""
    measured_s, answered_s = (np.fmax.reduce(recent[name], axis=1) for name in ("measured_s", "answered_s"))
    lost, path_ids = np.flatnonzero(~np.isnan(measured_s) & ~(answered_s >= measured_s)), list(paths)
    if not len(lost):
        return {}
    every_s = {path_ids[row]: paths[path_ids[row]].every_s for row in lost.tolist()}
    # Of long cycles the recent counts may end within the run that the rule needs.
    longest_s = np.maximum(recent_s, 2 * RECENT_CYCLES * np.array(list(every_s.values())))
    first_s = now.timestamp() - np.minimum(longest_s, LONGEST_RAW.total_seconds())
    since_s = np.where(np.isnan(answered_s[lost]), first_s, answered_s[lost])
    return silences_of(source.requests(list(every_s), since_s.tolist(), now), every_s)


def _newest(times_s: Floats, paths: Mapping[int, MeasuredPath]) -> dict[int, float]:
    newest = np.fmax.reduce(times_s, axis=1).tolist()
    return {path_id: at_s for path_id, at_s in zip(paths, newest, strict=True) if not np.isnan(at_s)}


def _zero_counts(name: str, column: Floats) -> Floats:
    # Replace NaN by 0 in counts; other figures stay NaN.
    return _zero_nan(column) if name in COUNTS else column


def _zero_nan(column: Floats) -> Floats:
    # An eighth of the time of `nan_to_num`, which looks for infinity too.
    return np.where(np.isnan(column), 0.0, column)


def _find_rows(path_ids: Floats, rows: Mapping[int, int]) -> tuple[NDArray[np.bool_], NDArray[np.int64]]:
    """Mask the entries with a row for their path, and find the rows."""
    wanted, ids = path_ids.astype(np.int64), np.fromiter(rows, dtype=np.int64)
    is_listed, order = np.isin(wanted, ids), np.argsort(ids)
    return is_listed, order[np.searchsorted(ids, wanted[is_listed], sorter=order)]
