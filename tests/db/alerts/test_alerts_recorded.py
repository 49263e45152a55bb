"""Snapshots from arrays equal those from the archive: the same bursts in both, every query compared."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import numpy as np
import pytest

from monitor.alerts.backtest.recorded import RecordedBursts, RecordedSource
from monitor.alerts.backtest.recorded_tests import MeasuredTests
from monitor.alerts.detect.past.baselines import baselines_at
from monitor.alerts.detect.past.incident_times import NO_TIMES, IncidentTimes, MeasureKind, PathTime
from monitor.alerts.detect.rules.catalogue import RULES
from monitor.alerts.detect.sources import STORED
from monitor.alerts.evaluate import findings, snapshot_at
from monitor.alerts.scope import scope_now
from monitor.archive.models import Burst, ThroughputTest
from monitor.archive.rollup.recompute import recompute
from monitor.mesh.models import KindName, Measurement
from monitor.mesh.models import Test as MeshTest
from tests.db.alert_rows import make_mesh
from tests.db.copied_rows import copy_rows

NOW = datetime(2026, 11, 21, 10, 30, 30, tzinfo=UTC)
LATER = timedelta(minutes=20)

pytestmark = pytest.mark.django_db


@pytest.fixture(scope="module")
def drawn():
    """Two days of bursts of two paths, every ten minutes and of two sizes. In the last three hours one path loses 20%,
    and the other is slower."""
    random = np.random.default_rng(4)
    began = NOW - timedelta(days=2)
    rows = []
    for path in (0, 1):
        for number in range(2 * 144 + 2):
            for size in (100, 1000):
                rtts = 20 + 30 * (number > 270 and path == 0) + random.exponential(0.5, 10)
                rtts[random.random(10) < (0.2 if number > 270 and path == 1 else 0.01)] = np.nan
                if random.random() < 0.02:
                    rtts[:] = np.nan
                at = began + timedelta(minutes=10 * number, seconds=float(random.integers(0, 30)), milliseconds=size)
                rows.append((path, at, size, rtts.astype(np.float32), random.random() < 0.1, random.random() < 0.05))
    return rows


@pytest.fixture
def paths():
    rules: dict[str, dict[str, object]] = {name: {} for name in RULES} | {"loss": {"window_s": 2000}}
    paths = list(make_mesh(["slac", "cern"], NOW - timedelta(days=60), **rules).values())
    tcp = MeshTest.objects.create(name="tcp", kind=KindName.THROUGHPUT, every_s=3600)
    Measurement.objects.create(path=paths[0], test=tcp, started_at=NOW - timedelta(days=60))
    return paths


TESTS = [(NOW - timedelta(hours=number + 0.5), 1e9 + number) for number in range(70)]


@pytest.fixture
def archive_and_arrays(paths, drawn):
    """The archive and the arrays, with the scope."""
    store(paths, drawn, TESTS)
    return recorded(paths, drawn, TESTS), scope_now()


def store(paths, bursts, tests):
    """Store these bursts and tests in the archive, replacing all others."""
    Burst.objects.all().delete()
    ThroughputTest.objects.all().delete()
    copy_rows(
        Burst(
            path_id=paths[path].pk, packet_bytes=size, measured_at=at, outcome="measured", sent=10,
            received=int((~np.isnan(rtts)).sum()), duplicates=int(doubled), reordered=int(swapped), during_test=False,
            ttl=57, rtts_ms=[None if np.isnan(rtt) else float(rtt) for rtt in rtts],
        )
        for path, at, size, rtts, swapped, doubled in bursts
    )  # fmt: skip
    ThroughputTest.objects.bulk_create(
        ThroughputTest(
            path_id=paths[0].pk, measured_at=at, test="tcp", outcome="measured", streams=1, throughput_bps=rate
        )
        for at, rate in tests
    )
    for _ in recompute(NOW - timedelta(days=3), NOW + timedelta(hours=1), NOW + timedelta(hours=1), None):
        pass


def recorded(paths, bursts, tests):
    """These bursts and tests as arrays."""
    columns = RecordedBursts.from_columns(
        [paths[row[0]].pk for row in bursts],
        [row[1].timestamp() for row in bursts],
        np.array([row[3] for row in bursts]),
        [row[2] for row in bursts],
        reordered=[int(row[4]) for row in bursts],
        duplicated=[int(row[5]) for row in bursts],
        ttl=57,
    )
    measured = MeasuredTests(
        np.full(len(tests), paths[0].pk), np.array([at.timestamp() for at, _ in tests]), np.array([r for _, r in tests])
    )
    return RecordedSource(columns, measured)


def snapshots_of(source, scope, now, times=NO_TIMES):
    judged_s = {path_id: (now - timedelta(hours=3)).timestamp() for path_id in scope.pinged}
    return snapshot_at(now, scope, judged_s, (), baselines_at(now, source, times), source)


def test_the_snapshot_of_arrays_equals_that_of_the_archive(archive_and_arrays):
    recorded, scope = archive_and_arrays
    fired = set()
    for now in (NOW, NOW - LATER, NOW - timedelta(hours=20)):
        ours, theirs = snapshots_of(recorded, scope, now), snapshots_of(STORED, scope, now)
        is_the_same(ours, theirs)
        from_arrays, from_archive = (
            {(finding.rule, finding.path_id) for finding in findings(snapshot, scope)} for snapshot in (ours, theirs)
        )
        assert from_arrays == from_archive
        fired |= from_arrays
    assert {rule for rule, _ in fired} & {"loss", "rtt", "loss_regression"}, "nothing to compare"


def test_requests_of_arrays_equal_those_of_the_archive(archive_and_arrays):
    recorded, scope = archive_and_arrays
    path_ids = sorted(scope.pinged)
    since_s = [(NOW - timedelta(hours=3 + number)).timestamp() for number in range(len(path_ids))]

    ours, theirs = (source.requests(path_ids, since_s, NOW) for source in (recorded, STORED))

    assert len(ours["at_s"]) > len(path_ids)
    for name, column in ours.items():
        assert np.allclose(column, theirs[name], rtol=0.0, atol=1e-5), name


def test_the_same_hours_of_earlier_incidents_are_left_out_of_both(archive_and_arrays):
    """An incident of three hours and a bit, and one of a path that has not been measured."""
    recorded, scope = archive_and_arrays
    begin = (NOW - timedelta(hours=30)).timestamp()
    path_id = next(iter(scope.pinged))
    of_path = (PathTime(path_id, begin, begin + 11_000.0), PathTime(path_id + 1000, begin, begin + 3600.0))
    times = IncidentTimes({MeasureKind.PACKETS: of_path, MeasureKind.TESTS: of_path})

    ours, theirs = (snapshots_of(source, scope, NOW, times) for source in (recorded, STORED))

    is_the_same(ours, theirs)
    every = snapshots_of(STORED, scope, NOW)
    row = ours.rows[path_id]
    assert ours.baseline["bursts"][row] == every.baseline["bursts"][row] - 4 * 12
    assert ours.baseline["hours"][row] == every.baseline["hours"][row] - 4
    others = [other for other in range(len(ours.paths)) if other != row]
    for name, column in every.baseline.items():
        np.testing.assert_allclose(ours.baseline[name][others], column[others], rtol=1e-9, err_msg=name)
    left_out_s = ours.tested_at_s[ours.tests_left_out]
    assert left_out_s.tolist() == sorted(at.timestamp() for at, _ in TESTS if begin <= at.timestamp() < begin + 11_000)


def is_the_same(ours, theirs):
    for name in theirs.recent:
        np.testing.assert_array_equal(ours.recent[name], theirs.recent[name], err_msg=name)
    for name in theirs.hourly:
        np.testing.assert_array_equal(ours.hourly[name], theirs.hourly[name], err_msg=name)
    for name in theirs.baseline:
        np.testing.assert_allclose(ours.baseline[name], theirs.baseline[name], rtol=1e-9, err_msg=name)
    for window_s, counts in theirs.windows.items():
        for name, column in counts.items():
            np.testing.assert_array_equal(ours.windows[window_s][name], column, err_msg=f"{name} in {window_s} s")
    np.testing.assert_array_equal(ours.trips.path_id, theirs.trips.path_id)
    for number in range(len(theirs.trips.path_id)):
        our_window, their_window = ours.trips.window(number), theirs.trips.window(number)
        np.testing.assert_array_equal(our_window.at_s, their_window.at_s)
        np.testing.assert_array_equal(our_window.ttl, their_window.ttl)
        for name, values in their_window.values_ms.items():
            np.testing.assert_allclose(our_window.values_ms[name], values, rtol=1e-6, err_msg=name)
    assert ours.trips.judged_s == theirs.trips.judged_s
    np.testing.assert_array_equal(ours.tests_bps, theirs.tests_bps)
    np.testing.assert_array_equal(ours.tested_at_s, theirs.tested_at_s)
    np.testing.assert_allclose(ours.daily_rtts_ms, theirs.daily_rtts_ms, rtol=0.011)
    np.testing.assert_allclose(ours.daily_estimates_bps, theirs.daily_estimates_bps, rtol=1e-3)


WHOLE_HOUR = NOW.replace(hour=9, minute=0, second=0)
MIDNIGHT = NOW.replace(hour=0, minute=0, second=0)


@pytest.mark.parametrize("then", [NOW - LATER, WHOLE_HOUR, MIDNIGHT], ids=["within an hour", "whole hour", "midnight"])
def test_later_data_does_not_affect_a_snapshot(paths, drawn, then):
    """All later measurements are shuffled, and half of them removed: live and replayed snapshots are the same as
    before."""
    scope, rate_after = scope_now(), 1e6
    later = [row for row in drawn if row[1] >= then]
    order = np.random.default_rng(8).permutation(len(later))
    shuffled = [row for row in drawn if row[1] < then] + [
        (1 - path, at, size, *later[order[number]][3:])
        for number, (path, at, size, *_) in enumerate(later)
        if number % 2
    ]
    other_tests = [(at, rate_after if at >= then else rate) for at, rate in TESTS]
    assert len(later) > 10
    in_arrays = [
        snapshots_of(recorded(paths, *data), scope, then) for data in ((drawn, TESTS), (shuffled, other_tests))
    ]
    store(paths, drawn, TESTS)
    in_archive = [snapshots_of(STORED, scope, then)]
    store(paths, shuffled, other_tests)
    in_archive.append(snapshots_of(STORED, scope, then))

    for before, after in (in_arrays, in_archive):
        is_the_same(before, after)
        assert findings(before, scope) == findings(after, scope)
    is_the_same(*(snapshots[0] for snapshots in (in_arrays, in_archive)))
