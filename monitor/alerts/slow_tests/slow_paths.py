"""Paths with much slower newest throughput tests, suspect until `throughput_drop` can judge them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, cast

import numpy as np

from monitor.alerts.detect.past.incident_times import MeasureKind
from monitor.alerts.detect.rules.loss import LossRule
from monitor.alerts.detect.rules.throughput import DROP_TESTS, LEAST_BEFORE, THROUGHPUT_DROP, DropRule
from monitor.alerts.detect.snapshot import Snapshot
from monitor.alerts.incidents.past_times import incident_times
from monitor.analysis.segments.loss_segments import LossSegment
from monitor.archive.queries.for_alerts import newest_tests
from monitor.arrays import Bools, Floats, Ints
from monitor.mesh.document.alert_rules import RuleSettings
from monitor.mesh.queries import MeasuredPath
from monitor.present import read
from monitor.present.track import Signal, Track

# All tests of a path may be in incidents: they are no baseline here.
EVERY_TEST = 1.0
# A trouble that begins within this many seconds after the begin of a test is in most tests too.
TEST_S = 10.0

# A single earlier test tells nothing of how much the tests of a path vary.
FEWEST_BEFORE = 2


def slow_paths(snapshot: Snapshot, settings: Mapping[str, Mapping[int, RuleSettings]]) -> set[int]:
    """Paths under `throughput_drop` with unexplained low tests: no query without low tests, four or more with some."""
    rules = {key: rule for key, rule in settings[THROUGHPUT_DROP.name].items() if key in snapshot.test_rows}
    if not rules:
        return set()
    rows = [snapshot.test_rows[key] for key in rules]
    newest = slice(None, -LEAST_BEFORE - DROP_TESTS - 1, -1)
    below_ratio = np.array([cast("DropRule", rule).below_ratio for rule in rules.values()])
    tests = _Tests(list(rules), below_ratio, snapshot.tested_at_s[rows, newest], snapshot.tests_bps[rows, newest])
    low = tests.of(np.flatnonzero(tests.low))
    return _told(low, snapshot, settings) if low.path_ids else set()


@dataclass(frozen=True, slots=True)
class _Tests:
    """Newest tests: rows are paths, columns tests, newest first, NaN after the last."""

    path_ids: list[int]
    below_ratio: Floats  # of each path's rule
    at_s: Floats  # start, seconds since the epoch
    rates_bps: Floats

    @property
    def low(self) -> Ints:
        return low_tests(self.rates_bps, self.below_ratio)

    def of(self, rows: Ints) -> _Tests:
        path_ids = [self.path_ids[row] for row in rows.tolist()]
        return _Tests(path_ids, self.below_ratio[rows], self.at_s[rows], self.rates_bps[rows])

    def without(self, left_out: Bools) -> _Tests:
        order = np.argsort(left_out, axis=1, kind="stable")
        at_s, rates_bps = (
            np.take_along_axis(np.where(left_out, np.nan, column), order, axis=1)
            for column in (self.at_s, self.rates_bps)
        )
        return _Tests(self.path_ids, self.below_ratio, at_s, rates_bps)


def _told(tests: _Tests, snapshot: Snapshot, settings: Mapping[str, Mapping[int, Any]]) -> set[int]:
    now, paths = snapshot.now, {key: snapshot.tested_paths[key] for key in tests.path_ids}
    tests = tests.without(in_incident(paths, tests.at_s, now))
    while tests.low.any():
        is_low = np.arange(tests.at_s.shape[1]) < tests.low[:, np.newaxis]
        left_out = in_loss(settings["loss"], paths, np.where(is_low, tests.at_s, np.nan), now)
        if not left_out.any():
            break
        tests = tests.without(left_out)
    tests = tests.of(np.flatnonzero(tests.low))
    return set(tests.path_ids) - _usual_on_demand(tests, now) if tests.path_ids else set()


def _usual_on_demand(tests: _Tests, now: datetime) -> set[int]:
    since = datetime.fromtimestamp(float(tests.at_s[:, 0].min()), UTC)
    newest = newest_tests(tests.path_ids, since, now, 1, on_demand=True)
    usual = set()
    for path_id, at_s, rate_bps in zip(newest["path_id"], newest["at_s"], newest["throughput_bps"], strict=True):
        row = tests.path_ids.index(int(path_id))
        lowest_bps = np.nanmin(tests.rates_bps[row, tests.low[row] :])
        if at_s > tests.at_s[row, 0] and rate_bps >= tests.below_ratio[row] * lowest_bps:
            usual.add(int(path_id))
    return usual


def low_tests(rates_bps: Floats, below_ratio: Floats) -> Ints:
    """Count each path's newest tests, if below this ratio of the lowest test before and too few for the rule; rows are
    paths, newest first, padded with NaN."""
    counts, low = (~np.isnan(rates_bps)).sum(axis=1), np.zeros(len(rates_bps), dtype=np.int64)
    highest = np.maximum.accumulate(rates_bps, axis=1)
    lowest = np.fmin.accumulate(rates_bps[:, ::-1], axis=1)[:, ::-1]
    for newest in range(rates_bps.shape[1] - FEWEST_BEFORE, 0, -1):
        before = counts - newest
        # With a past and two low tests the rule itself judges.
        is_open = (before >= FEWEST_BEFORE) & ((newest < DROP_TESTS) | (before < LEAST_BEFORE))
        is_low = is_open & (highest[:, newest - 1] < below_ratio * lowest[:, newest])
        low[is_low] = newest
    return low


def in_incident(paths: Mapping[int, MeasuredPath], at_s: Floats, now: datetime) -> Bools:
    """Mask tests in maintenance or an incident of the path or its reverse.

    `at_s` has a row for each path, in seconds since the epoch, NaN where there is no test.
    """
    since = datetime.fromtimestamp(float(np.nanmin(at_s)), UTC)
    times = incident_times(since, now, {key: path.place for key, path in paths.items()}, list(paths))
    ids, measures = np.fromiter(paths, dtype=np.int64), (MeasureKind.TESTS, MeasureKind.DELAYS)
    begin, end = (times.within(measures, ids, moment_s, EVERY_TEST) for moment_s in (at_s, at_s + TEST_S))
    return begin | end


def in_loss(
    settings: Mapping[int, RuleSettings], paths: Mapping[int, MeasuredPath], at_s: Floats, now: datetime
) -> Bools:
    """Mask tests during a tracked loss of their path proven above the rule; shapes as `in_incident`."""
    mask = np.zeros(at_s.shape, dtype=np.bool_)
    rows = {key: row for row, key in enumerate(paths) if key in settings and not np.isnan(at_s[row]).all()}
    for path_id, path in (read.load(list(rows)) if rows else {}).items():
        track, above_ratio = path.track(Signal.LOSS), cast("LossRule", settings[path_id]).above_ratio
        for since_s, until_s in () if track is None else _losses(track, above_ratio, now.timestamp()):
            mask[rows[path_id]] |= (at_s[rows[path_id]] < until_s) & (at_s[rows[path_id]] + TEST_S > since_s)
    return mask


def _losses(track: Track, above_ratio: float, now_s: float) -> Iterator[tuple[float, float]]:
    ends_s = [*(segment.since.at_s for segment in track.segments[1:]), now_s]
    for segment, end_s in zip(track.segments, ends_s, strict=True):
        if isinstance(segment, LossSegment) and segment.lost.lost and segment.lost.interval[0] > above_ratio:
            yield segment.since.at_s, end_s
