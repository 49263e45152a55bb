"""Paths whose throughput cannot be called normal: too few tests, or the newest much slower than those before.

In: the mesh and the time. Out: a `NewestTests`. The rules on throughput need a past (`throughput_drop`: LEAST_BEFORE
tests) and a second low test; until they judge, a path's throughput is said to be not judged or being checked. A test
that ran in a trouble of its path is no sign of another (`tests_in_trouble`); nor is one after which a test on demand
had a usual rate: such tests count in no statistics, but are newer.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import cast

import numpy as np
from numpy.typing import NDArray

from monitor.alerts.detect.rules.throughput import DROP_TESTS, LEAST_BEFORE, DropRule
from monitor.alerts.detect.snapshot import TESTS_WITHIN
from monitor.analysis import figures
from monitor.archive.queries.for_alerts import newest_tests
from monitor.mesh.document.alert_rules import settings_for
from monitor.mesh.models import KindName, Mesh
from monitor.mesh.queries import MeasuredPath, measured_paths
from monitor.overview.now.tests_in_trouble import in_incident, in_loss

Bools = NDArray[np.bool_]
Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

FEWEST_BEFORE = 2
"""A single earlier test tells nothing of how much the tests of a path vary."""


@dataclass(frozen=True, slots=True)
class NewestTests:
    """The paths, by id, whose newest tests are low, each with its name, the newest rate and the rate before it (`cern →
    slac: 3 Mbit/s at 09:57 UTC, before 30 Mbit/s`), and those with fewer tests than the rule needs."""

    low: Mapping[int, str] = field(default_factory=dict)
    unjudged: frozenset[int] = frozenset()


def load_newest_tests(mesh: Mesh, now: datetime, path_id: int | None = None) -> NewestTests:
    """Judge the newest tests of the paths with the rule `throughput_drop`, or of this path alone; three queries, two
    without any, four or more besides with low tests."""
    paths = measured_paths(KindName.THROUGHPUT)
    places = {key: path.place for key, path in paths.items() if path_id in (None, key)}
    rules = settings_for(mesh.alerts, "throughput_drop", places)
    if not rules:
        return NewestTests()
    path_ids = list(rules)
    tests = _load(path_ids, np.array([cast("DropRule", rules[key]).below_ratio for key in path_ids]), now)
    few = frozenset(path_ids[row] for row in np.flatnonzero(tests.counts < LEAST_BEFORE).tolist())
    low = tests.of(np.flatnonzero(tests.low))
    return NewestTests(_told(low, paths, mesh, now) if low.path_ids else {}, few)


@dataclass(frozen=True, slots=True)
class _Tests:
    """Start, in seconds since the epoch, and rate of the newest tests: rows are paths, columns their tests, the newest
    first, NaN after the last. `below_ratio` is that of each path's rule."""

    path_ids: list[int]
    below_ratio: Floats
    at_s: Floats
    rates_bps: Floats

    @property
    def counts(self) -> Ints:
        counts: Ints = (~np.isnan(self.rates_bps)).sum(axis=1)
        return counts

    @property
    def low(self) -> Ints:
        return low_tests(self.rates_bps, self.below_ratio)

    def of(self, rows: Ints) -> _Tests:
        """The tests of these rows."""
        path_ids = [self.path_ids[row] for row in rows.tolist()]
        return _Tests(path_ids, self.below_ratio[rows], self.at_s[rows], self.rates_bps[rows])

    def without(self, left_out: Bools) -> _Tests:
        """The tests but for those `left_out`."""
        order = np.argsort(left_out, axis=1, kind="stable")
        at_s, rates_bps = (
            np.take_along_axis(np.where(left_out, np.nan, column), order, axis=1)
            for column in (self.at_s, self.rates_bps)
        )
        return _Tests(self.path_ids, self.below_ratio, at_s, rates_bps)


def _load(path_ids: list[int], below_ratio: Floats, now: datetime) -> _Tests:
    columns = newest_tests(path_ids, now - TESTS_WITHIN, now, LEAST_BEFORE + DROP_TESTS)
    rows = {path_id: row for row, path_id in enumerate(path_ids)}
    places = [rows[int(path_id)] for path_id in columns["path_id"]], columns["place"].astype(np.int64)
    at_s, rates_bps = (np.full((len(path_ids), LEAST_BEFORE + DROP_TESTS), np.nan) for _ in range(2))
    at_s[places], rates_bps[places] = columns["at_s"], columns["throughput_bps"]
    return _Tests(path_ids, below_ratio, at_s, rates_bps)


def _told(tests: _Tests, paths: Mapping[int, MeasuredPath], mesh: Mesh, now: datetime) -> dict[int, str]:
    """The paths whose low tests no known trouble or later test explains, each with its name and rates."""
    of_low = {path_id: paths[path_id] for path_id in tests.path_ids}
    tests = tests.without(in_incident(of_low, tests.at_s, now))
    while tests.low.any():
        is_low = np.arange(tests.at_s.shape[1]) < tests.low[:, np.newaxis]
        left_out = in_loss(mesh, of_low, np.where(is_low, tests.at_s, np.nan), now)
        if not left_out.any():
            break
        tests = tests.without(left_out)
    tests = tests.of(np.flatnonzero(tests.low))
    if not tests.path_ids:
        return {}
    usual = _usual_on_demand(tests, now)
    told = {}
    for row, path_id in enumerate(tests.path_ids):
        if path_id not in usual:
            rate, before = (figures.bit_rate(float(tests.rates_bps[row, place])) for place in (0, tests.low[row]))
            told[path_id] = f"{paths[path_id].name}: {rate} at {_clock(tests.at_s[row, 0], now)}, before {before}"
    return told


def _usual_on_demand(tests: _Tests, now: datetime) -> set[int]:
    """The paths whose newest test is one on demand that is not low."""
    since = datetime.fromtimestamp(float(tests.at_s[:, 0].min()), UTC)
    newest = newest_tests(tests.path_ids, since, now, 1, on_demand=True)
    usual = set()
    for path_id, at_s, rate_bps in zip(newest["path_id"], newest["at_s"], newest["throughput_bps"], strict=True):
        row = tests.path_ids.index(int(path_id))
        lowest_bps = np.nanmin(tests.rates_bps[row, tests.low[row] :])
        if at_s > tests.at_s[row, 0] and rate_bps >= tests.below_ratio[row] * lowest_bps:
            usual.add(int(path_id))
    return usual


def _clock(at_s: float, now: datetime) -> str:
    at = datetime.fromtimestamp(at_s, UTC)
    return f"{at:%H:%M} UTC" if at.date() == now.date() else f"{at:%Y-%m-%d %H:%M} UTC"


def low_tests(rates_bps: Floats, below_ratio: Floats) -> Ints:
    """How many of the newest tests of each path are below this ratio of the lowest before them, and are not judged by
    the rule; 0 where none is. Rows are paths, columns their newest tests, the newest first, NaN after the last."""
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
