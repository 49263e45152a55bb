"""The report's sections about request-response and aggregate tests."""

from __future__ import annotations

import statistics
from datetime import timedelta

import pytest

from monitor.archive.models import RequestResponseResult
from monitor.mesh.models import Path
from monitor.reports.contents.compose import report_of
from monitor.reports.contents.report import ReportScope
from monitor.reports.formats.page import render
from monitor.reports.formats.view import view_of
from monitor.reports.numbers import Numbers
from tests.db.aggregate_rows import RATES_BPS, aggregate_run
from tests.db.mesh_of_three import make_mesh
from tests.db.reports.test_reports_promised import WEEK

pytestmark = pytest.mark.django_db
MEDIANS_MS = (20.0, 30.0, 100.0)


@pytest.fixture
def paths():
    make_mesh()
    return list(Path.objects.order_by("pk"))


def store_run(path, number, median_ms=None, **fields):
    """A run; without a median it was not measured."""
    rates = {} if median_ms is None else {"p95_ms": 2 * median_ms, "transactions_per_s": 1000 / median_ms}
    RequestResponseResult.objects.create(
        path_id=path.pk, measured_at=WEEK.since + timedelta(hours=number), test="blocks", request_bytes=100,
        response_bytes=65_536, latencies_ms=[], outcome="refused" if median_ms is None else "measured",
        median_ms=median_ms, **{"during_test": False, **rates, **fields},
    )  # fmt: skip


def test_a_path_with_request_and_response_has_a_line(paths):
    for number, median_ms in enumerate(MEDIANS_MS):
        store_run(paths[0], number, median_ms)
    store_run(paths[0], 5, 900.0, during_test=True)
    store_run(paths[0], 6)
    numbers = Numbers()

    (line,) = view_of(report_of(ReportScope(), WEEK, WEEK.until, numbers), numbers).responses
    median_ms = statistics.median(MEDIANS_MS)
    assert line[:2] == (f"{paths[0].source.name} → {paths[0].destination.name}", "blocks")
    assert line[3:5] == (f"{median_ms:.2f} ms", f"{2 * median_ms:.2f} ms")
    assert line[5:] == (f"{1000 / median_ms:.1f}", "3 of 4")


def test_an_aggregate_test_has_a_line(paths):
    aggregate_run(paths[:2], WEEK.since + timedelta(hours=1))
    aggregate_run(paths[:2], WEEK.since + timedelta(hours=2), missing=1)
    aggregate_run(paths[:2], WEEK.until + timedelta(hours=2))
    numbers = Numbers()
    report = report_of(ReportScope(), WEEK, WEEK.until, numbers)

    (line,) = view_of(report, numbers).aggregates
    rate = f"{sum(RATES_BPS[:2]) / 1e6:g} Mbit/s"
    assert line[:2] == ("into-cern", "many-to-one")
    assert line[2:4] == (rate, f"{rate} to {rate}")
    assert line[5] == "1 of 2"
    page = render(report, numbers)
    assert "Aggregate tests" in page
    assert "Request and response" not in page
