"""Paths whose throughput cannot be called normal: too few tests, or the newest much slower than those before.

In: the mesh and the time. Out: a `NewestTests`. The rules on throughput need a past (`throughput_drop`: LEAST_BEFORE
tests) and a second low test; until they judge, a path's throughput is said to be not judged or being checked.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import cast

import numpy as np
from numpy.typing import NDArray

from monitor.alerts.detect.rules.throughput import DROP_TESTS, LEAST_BEFORE, DropRule
from monitor.alerts.detect.snapshot import TESTS_WITHIN
from monitor.analysis import figures
from monitor.archive.queries.for_alerts import newest_tests
from monitor.mesh.document.alert_rules import settings_for
from monitor.mesh.models import KindName, Mesh
from monitor.mesh.queries import measured_paths

Floats = NDArray[np.float64]

FEWEST_BEFORE = 2
"""A single earlier test tells nothing of how much the tests of a path vary."""


@dataclass(frozen=True, slots=True)
class NewestTests:
    """The paths, by id, whose newest tests are low, each with its name and change (`cern → slac: 30 → 3 Mbit/s`), and
    those with fewer tests than the rule needs."""

    low: Mapping[int, str] = field(default_factory=dict)
    unjudged: frozenset[int] = frozenset()


def load_newest_tests(mesh: Mesh, now: datetime, path_id: int | None = None) -> NewestTests:
    """Judge the newest tests of the paths with the rule `throughput_drop`, or of this path alone; three queries, two
    without any."""
    paths = measured_paths(KindName.THROUGHPUT)
    places = {key: path.place for key, path in paths.items() if path_id in (None, key)}
    rules = settings_for(mesh.alerts, "throughput_drop", places)
    if not rules:
        return NewestTests()
    path_ids = list(rules)
    columns = newest_tests(path_ids, now - TESTS_WITHIN, now, LEAST_BEFORE + DROP_TESTS)
    rates_bps = np.full((len(path_ids), LEAST_BEFORE + DROP_TESTS), np.nan)
    rows = {path_id: row for row, path_id in enumerate(path_ids)}
    of_path = [rows[int(path_id)] for path_id in columns["path_id"]]
    rates_bps[of_path, columns["place"].astype(np.int64)] = columns["throughput_bps"]
    counts = (~np.isnan(rates_bps)).sum(axis=1)
    below = [cast("DropRule", rules[path_id]).below_ratio for path_id in path_ids]
    newest = low_tests(rates_bps, np.array(below))
    low = {}
    for row in np.flatnonzero(newest).tolist():
        before_bps = float(np.quantile(rates_bps[row, newest[row] : counts[row]], 0.5, method="lower"))
        change = f"{figures.bit_rate(before_bps)} → {figures.bit_rate(float(rates_bps[row, 0]))}"
        low[path_ids[row]] = f"{paths[path_ids[row]].name}: {change}"
    few = {path_ids[row] for row in np.flatnonzero(counts < LEAST_BEFORE).tolist()}
    return NewestTests(low, frozenset(few))


def low_tests(rates_bps: Floats, below_ratio: Floats) -> NDArray[np.int64]:
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
