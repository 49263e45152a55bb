"""Alert rules on request-response latencies, from stored runs to the incident and its end."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from monitor.alerts.evaluate import evaluate
from monitor.alerts.evidence.words import headline
from monitor.alerts.incidents import lifecycle
from monitor.alerts.models import Incident, IncidentPath
from monitor.archive.models import RequestResponseResult
from monitor.mesh.models import KindName, Measurement, Mesh
from monitor.mesh.models import Test as MeshTest
from tests.db.alert_rows import make_bursts, make_mesh, only
from tests.facts import lacks

NOW = datetime(2026, 11, 21, 10, 30, tzinfo=UTC)
RUN = timedelta(minutes=5)
USUAL = 25.0
PAST = 50 * 12
"""Runs of the 48 hours of the baseline, and of the hour before the test."""

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def confirmed_at_once(monkeypatch):
    monkeypatch.setattr(lifecycle, "CONFIRM_S", 0)


@pytest.fixture
def path():
    path = make_mesh(["nersc", "cern"], NOW - timedelta(days=60), request_response={})["nersc → cern"]
    test = MeshTest.objects.create(name="blocks", kind=KindName.REQUEST_RESPONSE, every_s=300)
    Measurement.objects.create(path=path, test=test, started_at=NOW - timedelta(days=60))
    return path


def measure(path, medians_ms, first_at, *, p95_ratio=1.1, response_bytes=65_536, during_test=False):
    """Runs every five minutes with these medians, each a little different."""
    RequestResponseResult.objects.bulk_create(
        RequestResponseResult(
            path_id=path.pk, measured_at=first_at + number * RUN, test="blocks", outcome="measured",
            request_bytes=100, response_bytes=response_bytes, transactions=100, errors=0,
            median_ms=median_ms + 0.01 * (number % 7), p95_ms=p95_ratio * median_ms + 0.01 * (number % 5),
            during_test=during_test, latencies_ms=[],
        )
        for number, median_ms in enumerate(medians_ms)
    )  # fmt: skip


def test_a_rise_is_proven_by_six_runs_and_ends_when_it_is_back(path):
    measure(path, [USUAL] * PAST, NOW - PAST * RUN)
    measure(path, [2 * USUAL] * 5, NOW)
    assert evaluate(NOW + 5 * RUN).opened == 0, "five runs are no proof at this interval"
    measure(path, [2 * USUAL], NOW + 5 * RUN)

    assert evaluate(NOW + 6 * RUN).opened == 1
    incident = Incident.objects.get()
    row = incident.paths.get()
    assert (row.rule, row.since) == ("request_response", NOW)
    assert lacks(row.sentence, "65,536", "6 runs", "48 before", "2026-11-21 10:30") == []
    assert row.figures["before_ms"] == pytest.approx(USUAL * (1.1 if row.figures["of"] == "p95_ms" else 1), rel=0.01)
    assert row.figures["after_ms"] == pytest.approx(2 * row.figures["before_ms"], rel=0.01)
    assert "transaction latency" in headline(incident)

    measure(path, [USUAL] * 2, NOW + 6 * RUN)
    assert evaluate(NOW + 8 * RUN).closed == 0, "three runs end it, not two"
    measure(path, [USUAL], NOW + 8 * RUN)
    assert evaluate(NOW + 9 * RUN).closed == 1
    assert evaluate(NOW + 9 * RUN + timedelta(minutes=1)).opened == 0


@pytest.mark.parametrize(("closing", "opened"), [("median 25 ms again", 1), ("accepted as the new baseline", 0)])
def test_a_second_rise_is_compared_with_the_runs_before_the_first(path, closing, opened):
    """A day ago the latency was four times as high for an hour."""
    begins = NOW - timedelta(hours=24)
    measure(path, [USUAL] * (PAST - 24 * 12), NOW - PAST * RUN)
    measure(path, [4 * USUAL] * 12, begins)
    measure(path, [USUAL] * (23 * 12), begins + 12 * RUN)
    measure(path, [2 * USUAL] * 6, NOW)
    row = Incident.objects.create(
        rule="request_response", cause=str(path), opened_at=begins + 6 * RUN, closed_at=begins + 15 * RUN, summary="",
        closing=f"{path}: transaction latency {closing}",
    )  # fmt: skip
    IncidentPath.objects.create(
        incident=row, path=path, added_at=row.opened_at, rule=row.rule, since=begins, figures={}, sentence="",
        is_over=True, ended_at=row.closed_at,
    )  # fmt: skip

    assert evaluate(NOW + 6 * RUN).opened == opened


def test_a_few_slow_transactions_raise_the_percentile_alone(path):
    measure(path, [USUAL] * PAST, NOW - PAST * RUN)
    measure(path, [USUAL] * 6, NOW, p95_ratio=10.0)

    assert evaluate(NOW + 6 * RUN).opened == 1
    row = Incident.objects.get().paths.get()
    assert row.figures["of"] == "p95_ms"
    assert "95th percentile" in row.sentence


@pytest.mark.parametrize(("newest_ms", "reason"), [(1.4 * USUAL, "above_ratio"), (USUAL + 0.5, "least_rise_ms")])
def test_a_proven_rise_that_is_small_is_none(path, newest_ms, reason):
    measure(path, [USUAL] * PAST, NOW - PAST * RUN)
    measure(path, [newest_ms] * 12, NOW)

    assert evaluate(NOW + 12 * RUN).opened == 0, reason


def test_runs_of_other_sizes_and_under_load_are_apart(path):
    measure(path, [USUAL] * PAST, NOW - PAST * RUN)
    measure(path, [4 * USUAL] * 12, NOW, response_bytes=1_000_000)
    measure(path, [4 * USUAL] * 12, NOW + 12 * RUN, during_test=True)

    assert evaluate(NOW + 24 * RUN).opened == 0


def test_slower_blocks_of_a_path_with_loss_are_in_its_incident(path):
    Mesh.objects.update(alerts=only(request_response={}, loss={"above_ratio": 0.01}))
    measure(path, [USUAL] * PAST, NOW - PAST * RUN)
    measure(path, [10 * USUAL] * 6, NOW)
    make_bursts(path, [2] * 60, NOW + 6 * RUN - timedelta(hours=1))

    evaluate(NOW + 6 * RUN)
    incident = Incident.objects.get()
    assert {row.rule for row in incident.paths.all()} == {"loss", "request_response"}


def test_a_limit_fires_beyond_it_and_ends_at_it(path):
    Mesh.objects.update(alerts=only(request_response_limit={"above_ms": 40.0}))
    measure(path, [50.0] * 4, NOW)
    assert evaluate(NOW + 4 * RUN).opened == 0, "four runs are no proof at this interval"
    measure(path, [50.0] * 2, NOW + 4 * RUN)

    assert evaluate(NOW + 6 * RUN).opened == 1
    row = Incident.objects.get().paths.get()
    assert (row.figures["limit_ms"], row.figures["runs_above"]) == (40.0, 6)

    measure(path, [36.0] * 3, NOW + 6 * RUN)
    assert evaluate(NOW + 9 * RUN).closed == 1


def test_a_raised_limit_ends_the_finding(path):
    Mesh.objects.update(alerts=only(request_response_limit={"above_ms": 40.0}))
    measure(path, [50.0] * 8, NOW)
    assert evaluate(NOW + 8 * RUN).opened == 1
    Mesh.objects.update(alerts=only(request_response_limit={"above_ms": 60.0}))

    assert evaluate(NOW + 8 * RUN + timedelta(minutes=1)).closed == 1
