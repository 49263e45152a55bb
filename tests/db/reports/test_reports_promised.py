"""The promised service in the weekly report and on the page of a path, from stored tests."""

from datetime import timedelta

import pytest

from monitor.analysis.promised_service import ServiceVerdict
from monitor.archive.models import PolicerResult, ThroughputTest
from monitor.mesh.models import Mesh
from monitor.overview.promised_service import service_of_path
from monitor.reports.contents.compose import report_of
from monitor.reports.contents.report import ReportScope
from monitor.reports.formats.view import view_of
from monitor.reports.numbers import Numbers
from tests.db.alert_rows import make_mesh
from tests.db.report_rows import WEEK, make_throughput

pytestmark = pytest.mark.django_db
PROMISE = {"promised_bps": 100e6}


@pytest.fixture
def path():
    return make_mesh(["slac", "cern"], WEEK.since - timedelta(days=100))["slac → cern"]


def store(path, rates_bps, verdict="bottleneck queue"):
    since = WEEK.since + timedelta(minutes=ThroughputTest.objects.count())
    for number, rate_bps in enumerate(rates_bps):
        make_throughput(path, since + timedelta(minutes=number), rate_bps)
    ThroughputTest.objects.filter(measured_at__gte=since).update(verdict=verdict)


def found(path, **levels):
    Mesh.objects.update(service_levels=PROMISE | levels)
    return service_of_path(path, WEEK.since, WEEK.until)


def test_half_of_the_rate_is_not_the_service_you_pay_for(path):
    store(path, [50e6] * 8)
    service = found(path)
    assert (service.finding.verdict, service.finding.counts.short) == (ServiceVerdict.NOT_KEPT, 8)


def test_slow_tests_that_a_host_limits_prove_nothing(path):
    store(path, [50e6] * 8, "window-limited")
    service = found(path)
    assert service.finding.verdict is ServiceVerdict.CANNOT_TELL
    assert (service.finding.counts.tests, service.finding.counts.left_out) == (0, 8)


def test_sixty_tests_at_the_rate_keep_the_promise(path):
    store(path, [95e6] * 60, None)
    assert found(path).finding.verdict is ServiceVerdict.KEPT


def test_policer_tests_count_with_rate_and_burst(path):
    for number in range(4):
        PolicerResult.objects.create(
            path_id=path.pk, measured_at=WEEK.since + timedelta(hours=number), test="p", outcome="measured",
            verdict="policer", sustained_bps=98e6, burst_bytes=4e5, sent=1, received=1, sent_bytes=1,
        )  # fmt: skip
    counts = found(path, promised_burst_bytes=1e6).finding.counts
    assert (counts.tests, counts.short, counts.bursts, counts.bursts_short) == (4, 0, 4, 4)
    assert found(path, promised_burst_bytes=1e6).finding.falls_short == "burst"


def test_path_without_promise_or_tests_has_no_line(path):
    assert found(path) is None
    store(path, [95e6])
    Mesh.objects.update(service_levels={"loss_ratio": 0.01})
    assert service_of_path(path, WEEK.since, WEEK.until) is None


def test_report_has_a_line_and_a_sentence(path):
    store(path, [50e6] * 8)
    Mesh.objects.update(service_levels=PROMISE)
    numbers = Numbers()
    report = report_of(ReportScope(), WEEK, WEEK.until, numbers)

    (line,) = view_of(report, numbers).promised
    assert line[0] == f"{path.source.name} → {path.destination.name}"
    assert "100 Mbit/s" in line[1]
    assert line[2].endswith("not the service you pay for")
    assert line[3].startswith("8 of 8 tests below 90 Mbit/s (100%")
    (sentence,) = [said for said in report.sentences if said.rule == "promised service"]
    assert line[0] in sentence.text


def test_page_has_the_same_words(path, client, settings):
    settings.LOCAL_READ = settings.ALLOW_PLAIN_HTTP = True
    store(path, [50e6] * 8)
    Mesh.objects.update(service_levels=PROMISE)
    between = f"since={WEEK.since:%Y-%m-%dT%H:%M:%SZ}&until={WEEK.until:%Y-%m-%dT%H:%M:%SZ}"
    page = client.get(f"/paths/{path.pk}/?{between}&tab=tests", headers={"host": "localhost"}).content.decode()
    assert "not the service you pay for" in page
    assert "8 of 8 tests below 90 Mbit/s" in page
