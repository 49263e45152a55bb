"""The panels of request-response and aggregate tests on the throughput dashboard, as Grafana's role."""

from __future__ import annotations

from datetime import timedelta

import pytest

from monitor.archive.models import RequestResponseResult
from tests.db.aggregate_rows import RATES_BPS, aggregate_run
from tests.db.dashboard_rows import HOURS, SINCE, UNTIL, make_rows
from tests.db.grafana import of_dashboard, run

pytestmark = [pytest.mark.django_db, pytest.mark.timescale]
QUERIES = of_dashboard("throughput")


def test_each_run_outside_of_throughput_tests_has_its_latencies():
    path = make_rows().slac_cern
    RequestResponseResult.objects.filter(measured_at__gt=HOURS[1]).update(during_test=True)

    rows = run(QUERIES["Request and response by run (ms)/A"], {"path": str(path.pk)}, SINCE, UNTIL)

    assert rows == [{"time": HOURS[0] + timedelta(minutes=20), "Median": 25.0, "95th percentile": 30.0}]


def test_a_partial_aggregate_test_has_no_sum():
    three = make_rows()
    at = HOURS[1] + timedelta(minutes=50)
    aggregate_run([three.slac_cern, three.slac_anl], at, missing=1)

    partial, newest, _ = run(QUERIES["Aggregate tests, newest first/A"], {}, SINCE, UNTIL)

    assert (partial["time"], partial["State"], partial["Members measured"], partial["Sum"]) == (at, "partial", 1, None)
    assert (newest["Test"], newest["State"], newest["Sum"]) == ("into-cern", "complete", sum(RATES_BPS[:2]))
