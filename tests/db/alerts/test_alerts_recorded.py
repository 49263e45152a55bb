"""Arrays answer what a snapshot asks as the archive does: the same bursts in both, every answer compared."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import numpy as np
import pytest

from monitor.alerts.backtest.recorded import MeasuredTests, RecordedBursts, RecordedSource
from monitor.alerts.detect.baselines import baselines_at
from monitor.alerts.detect.rules.catalogue import RULES
from monitor.alerts.detect.sources import STORED, PastStoredSource
from monitor.alerts.evaluate import findings, scope_now, snapshot_at
from monitor.archive.models import Burst, ThroughputTest
from monitor.archive.rollup.recompute import recompute
from monitor.mesh.models import Kind, Measurement
from monitor.mesh.models import Test as MeshTest
from tests.db.alert_rows import make_mesh

NOW = datetime(2026, 11, 21, 10, 30, 30, tzinfo=UTC)
LATER = timedelta(minutes=20)

pytestmark = pytest.mark.django_db


@pytest.fixture(scope="module")
def drawn():
    """Two days of bursts of two paths, every ten minutes and of two sizes. In the last three hours one path loses a
    fifth, and the other is slower."""
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
def both(drawn):
    """The archive and the arrays, and the scope."""
    rules: dict[str, dict[str, object]] = {name: {} for name in RULES} | {"loss": {"window_s": 2000}}
    paths = list(make_mesh(["slac", "cern"], NOW - timedelta(days=60), **rules).values())
    Burst.objects.bulk_create(
        Burst(
            path_id=paths[path].pk, packet_bytes=size, measured_at=at, outcome="measured", sent=10,
            received=int((~np.isnan(rtts)).sum()), duplicates=int(doubled), reordered=int(swapped), during_test=False,
            ttl=57, rtts_ms=[None if np.isnan(one) else float(one) for one in rtts],
        )
        for path, at, size, rtts, swapped, doubled in drawn
    )  # fmt: skip
    for _ in recompute(NOW - timedelta(days=3), NOW + timedelta(hours=1), NOW + timedelta(hours=1), None):
        pass
    tcp = MeshTest.objects.create(name="tcp", kind=Kind.THROUGHPUT, every_s=3600)
    Measurement.objects.create(path=paths[0], test=tcp, started_at=NOW - timedelta(days=60))
    rates = [1e9 + number for number in range(70)]
    times = [NOW - timedelta(hours=number + 0.5) for number in range(70)]
    ThroughputTest.objects.bulk_create(
        ThroughputTest(
            path_id=paths[0].pk, measured_at=at, test="tcp", outcome="measured", streams=1, throughput_bps=rate
        )
        for at, rate in zip(times, rates, strict=True)
    )
    bursts = RecordedBursts.from_columns(
        [paths[row[0]].pk for row in drawn],
        [row[1].timestamp() for row in drawn],
        np.array([row[3] for row in drawn]),
        [row[2] for row in drawn],
        reordered=[int(row[4]) for row in drawn],
        duplicated=[int(row[5]) for row in drawn],
        ttl=57,
    )
    tests = MeasuredTests(np.full(70, paths[0].pk), np.array([at.timestamp() for at in times]), np.array(rates))
    return RecordedSource(bursts, tests), scope_now()


def snapshots_of(source, scope, now):
    judged_s = {path_id: (now - timedelta(hours=3)).timestamp() for path_id in scope.pinged}
    return snapshot_at(now, scope, judged_s, (), baselines_at(now, source), source)


def test_the_snapshot_of_arrays_is_that_of_the_archive(both):
    recorded, scope = both
    fired = set()
    for now in (NOW, NOW - LATER, NOW - timedelta(hours=20)):
        ours, theirs = snapshots_of(recorded, scope, now), snapshots_of(PastStoredSource(), scope, now)
        is_the_same(ours, theirs)
        from_arrays, from_archive = (
            {(finding.rule, finding.path_id) for finding in findings(snapshot, scope)} for snapshot in (ours, theirs)
        )
        assert from_arrays == from_archive
        fired |= from_arrays
    assert {rule for rule, _ in fired} & {"loss", "rtt", "loss_regression"}, "nothing to compare"


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
    for name in ("path_id", "at_s", "ttl"):
        np.testing.assert_array_equal(getattr(ours.trips, name), getattr(theirs.trips, name), err_msg=name)
    for name, values in theirs.trips.values_ms.items():
        np.testing.assert_allclose(ours.trips.values_ms[name], values, rtol=1e-6, err_msg=name)
    assert ours.trips.judged_s == theirs.trips.judged_s
    np.testing.assert_array_equal(ours.tests_bps, theirs.tests_bps)
    np.testing.assert_array_equal(ours.tested_at_s, theirs.tested_at_s)
    np.testing.assert_allclose(ours.daily_rtts_ms, theirs.daily_rtts_ms, rtol=0.011)
    np.testing.assert_allclose(ours.daily_estimates_bps, theirs.daily_estimates_bps, rtol=1e-3)


def test_a_snapshot_holds_nothing_younger_than_its_moment(both):
    """The summary of the hour has by now what came later; the hour as it ran then has not."""
    _, scope = both
    then = NOW - LATER

    as_it_was = snapshots_of(PastStoredSource(), scope, then).hourly["bursts"][:, 0]
    as_it_is = snapshots_of(STORED, scope, then).hourly["bursts"][:, 0]

    assert as_it_was.tolist() == [2.0, 2.0]
    assert (as_it_is > as_it_was).all()
