"""Latency under load: from the delivery of bursts to the queries, and its effect on coverage."""

from datetime import timedelta

import pytest

from monitor.archive.models import BurstHour
from monitor.archive.periods import start_of
from monitor.archive.queries.metrics import Metric
from monitor.archive.queries.operation.completeness import coverage_by_site_and_day, planned_bursts
from monitor.archive.queries.operation.ledger import ledger_of_path
from monitor.archive.queries.operation.uptime import UptimeStep, measured_shares
from monitor.archive.queries.paths import path_series, path_summaries
from monitor.archive.queries.tables import Grouping, Tick, grid, table
from monitor.archive.queries.throughput.under_load import loaded_series, path_under_load, under_load
from monitor.archive.rollup.recompute import roll_up
from monitor.mesh.models import Measurement, MeasurementPeriod
from monitor.mesh.models import Test as MeshTest
from probes.site.wire import Account
from tests.db.merging import merge_all
from tests.db.mesh_of_three import HOUR, NOW, batch, burst, delivered, make_mesh
from tests.deliveries import store

pytestmark = [pytest.mark.django_db, pytest.mark.timescale]
MINUTE, DAY = timedelta(minutes=1), timedelta(days=1)
SEVEN = tuple(float(rtt_ms) for rtt_ms in range(100, 170, 10))


@pytest.fixture
def mesh():
    return make_mesh()


@pytest.fixture
def hour_with_tests(mesh):
    """Sixty bursts of ten packets: in every fourth, eight packets were sent under load, of which the last was lost;
    another burst was sent under load as a whole, and the last is of an agent that does not distinguish packets."""
    test = MeshTest.objects.create(name="pinger", kind="ping", every_s=60, parameters={})
    measurement = Measurement.objects.create(path=mesh.slac_cern, test=test, started_at=HOUR)
    MeasurementPeriod.objects.create(
        measurement=measurement, every_s=60, packet_bytes=[100], started_at=HOUR, ended_at=HOUR + 60 * MINUTE
    )
    results = []
    for number in range(60):
        at, during_test = HOUR + number * MINUTE, number in (58, 59)
        if during_test:
            measured = burst(*[200.0] * 10, at=at, loaded_rtts_ms=() if number == 58 else None)
        elif number % 4 == 0:
            measured = burst(10.0, 10.0, at=at, loaded_rtts_ms=(*SEVEN, None))
        else:
            measured = burst(*[10.0] * 10, at=at)
        cycle = int(at.timestamp()) // 60
        results.append(
            delivered(mesh.slac_cern, measured, number + 1, during_test=during_test, every_s=60, cycle=cycle)
        )
    store(mesh.slac.pk, batch(*results), NOW + 60 * MINUTE)
    while roll_up(NOW):
        continue
    merge_all(NOW)
    return mesh.slac_cern


def test_latency_under_load_is_a_separate_series(hour_with_tests):
    path_id, until = hour_with_tests.pk, HOUR + 60 * MINUTE

    raw = path_under_load(path_id, 100, HOUR, until)
    (summary,) = under_load(HOUR, until, path_ids=[path_id])
    minutes = loaded_series(path_id, 100, HOUR, until)
    (hour,) = loaded_series(path_id, 100, HOUR, HOUR + timedelta(days=2))

    # 15 bursts of eight packets, and the ten of a whole burst.
    assert [(figures.sent, figures.received, figures.lost) for figures in (raw, summary)] == [(130, 115, 15)] * 2
    assert (hour.sent, hour.received) == (130, 115)
    assert (raw.rtt_median_ms, raw.rtt_p95_ms) == (130.0, 200.0)
    assert (summary.rtt_median_ms, summary.rtt_p95_ms) == (
        pytest.approx(130.0, rel=0.003),
        pytest.approx(200, rel=0.003),
    )
    assert [(point.at - HOUR) // MINUTE for point in minutes] == [*range(0, 60, 4), 58]
    assert (minutes[0].sent, minutes[0].received, minutes[0].rtt_median_ms) == (8, 7, 130.0)


def test_a_window_has_only_its_own_packets_under_load(hour_with_tests):
    path_id = hour_with_tests.pk

    assert path_under_load(path_id, 100, HOUR + MINUTE, HOUR + 4 * MINUTE) is None
    assert path_under_load(path_id, 100, HOUR + MINUTE, HOUR + 9 * MINUTE).sent == 16
    assert path_under_load(path_id, 1000, HOUR, HOUR + 60 * MINUTE) is None
    assert under_load(HOUR - timedelta(hours=3), HOUR) == []


def test_packets_under_load_are_in_no_other_figure(hour_with_tests):
    path_id, until = hour_with_tests.pk, HOUR + 60 * MINUTE

    (summary,) = path_summaries(HOUR, until, path_ids=[path_id])
    points = path_series(path_id, 100, HOUR, until).points

    # 43 whole bursts and 15 of two packets.
    assert (summary.sent, summary.received, summary.rtt_max_ms) == (460, 460, 10.0)
    assert (sum(point.sent for point in points), {point.rtt_max_ms for point in points}) == (460, {10.0})
    assert (summary.bursts, summary.bursts_during_test, summary.bursts_measured) == (58, 2, 60)


def test_every_measured_burst_is_covered_as_in_the_ledger(hour_with_tests):
    """All sixty were measured, those with packets under load as well."""
    until = HOUR + 60 * MINUTE

    (cell,) = grid(Metric.COVERAGE, HOUR, until, packet_bytes=100)
    days = coverage_by_site_and_day(HOUR.date(), HOUR.date() + timedelta(days=1), HOUR + timedelta(days=2))
    [share] = measured_shares(UptimeStep.DAY, start_of("day", HOUR), start_of("day", NOW) + DAY, NOW + DAY)
    hours = table(Grouping.SITE, Metric.COVERAGE, Tick.HOUR, HOUR, until, 100, now=NOW + DAY)
    ledger = {line.outcome: line.count for line in ledger_of_path(hour_with_tests.pk, HOUR, until)}

    assert (cell.value, [at.value for at in hours]) == (1.0, [1.0])
    assert [(day.bursts_planned, day.bursts_measured, day.bursts_during_test) for day in days] == [(60, 60, 2)]
    assert (share.planned, share.measured) == (60, 60)
    assert ledger == {"measured": 60}


def test_nothing_is_planned_before_the_first_report(mesh):
    """Planned since midnight, but the agent started at minute 20 and reported from then on."""
    test = MeshTest.objects.create(name="pinger", kind="ping", every_s=60, parameters={})
    since = start_of("day", HOUR)
    measurement = Measurement.objects.create(path=mesh.slac_cern, test=test, started_at=since)
    MeasurementPeriod.objects.create(measurement=measurement, every_s=60, packet_bytes=[100], started_at=since)
    first = int((HOUR + 20 * MINUTE).timestamp()) // 60
    results = [
        delivered(mesh.slac_cern, burst(10.0, at=HOUR + (20 + n) * MINUTE), n + 1, every_s=60, cycle=first + n)
        for n in range(40)
    ]
    until = HOUR + 60 * MINUTE
    store(mesh.slac.pk, batch(*results, account=Account(until=until, gaps=())), until)
    while roll_up(until):
        continue
    merge_all(until)

    (cell,) = grid(Metric.COVERAGE, HOUR, until, packet_bytes=100)
    [day] = coverage_by_site_and_day(HOUR.date(), HOUR.date() + DAY, until)
    [share] = measured_shares(UptimeStep.HOUR, HOUR, until, until)
    ledger = {line.outcome: line.count for line in ledger_of_path(mesh.slac_cern.pk, HOUR, until)}

    assert cell.value == 1.0
    assert (day.bursts_planned, day.bursts_measured, day.coverage_ratio) == (40, 40, 1.0)
    assert (share.planned, share.measured) == (40, 40)
    assert planned_bursts(since, until, path_ids=[mesh.slac_cern.pk]) == {(mesh.slac_cern.pk, 100): 40}
    assert BurstHour.objects.get().bursts_planned == 40
    assert ledger == {"unknown": 20, "measured": 40}
