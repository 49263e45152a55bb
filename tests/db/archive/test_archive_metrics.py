"""Every metric computed by SQL from a summary equals `pinger`'s for the same bursts, in the view as well."""

import math
from datetime import timedelta

import numpy as np
import pytest
from django.db import connection

from monitor.analysis import loss
from monitor.analysis.geography import great_circle_km
from monitor.archive.queries import tables
from monitor.archive.queries.metrics import Metric
from monitor.archive.rollup.recompute import roll_up
from monitor.mesh.models import Measurement, MeasurementPeriod, Site
from monitor.mesh.models import Test as MeshTest
from tests.db.merging import merge_all
from tests.db.mesh_of_three import HOUR, NOW, batch, burst, delivered, make_mesh
from tests.db.pages_mesh import hour
from tests.deliveries import store
from tests.oracles import pinger

pytestmark = [pytest.mark.django_db, pytest.mark.timescale]
NOT_OF_BURSTS = {Metric.THROUGHPUT, Metric.COVERAGE}
SKETCHED = {Metric.RTT_P25, Metric.RTT_MEDIAN, Metric.RTT_P75, Metric.RTT_P90, Metric.RTT_P95, Metric.IPDV, Metric.MOS}
WORST_OF_PARTS = Metric.LOSS_MAX
"""Bursts of an hour, and hours of a day."""


def some_bursts(kind):
    random = np.random.default_rng(3)
    count = 1 if kind == "single burst" else 40
    loss = {"lossless": 0.0, "lossy": 0.3, "dead": 1.0, "single burst": 0.0}[kind]
    results = []
    for number in range(count):
        rtts = [None if random.random() < loss else float(np.float32(random.lognormal(3, 1))) for _ in range(10)]
        results.append(
            burst(
                *rtts,
                at=HOUR + timedelta(seconds=30 * number),
                duplicates=0 if loss == 1.0 else number % 3,
                reordered=0 if loss == 1.0 else int(number % 5 == 0),
                late=rtts.count(None) // 2,
            )
        )
    return results


def expected(results, distance_km):
    rtts_ms = np.array([[math.nan if rtt is None else rtt for rtt in burst.rtts_ms] for burst in results])
    rtt = pinger.rtt_summary(rtts_ms)
    throughput = pinger.throughput(rtts_ms)
    directness = pinger.directness(distance_km, None if rtt is None else rtt.min_ms)
    sent, received = sum(burst.sent for burst in results), sum(burst.received for burst in results)
    return {
        Metric.LOSS: pinger.loss_ratio(rtts_ms),
        Metric.LOSS_MAX: max(1 - burst.received / burst.sent for burst in results),
        Metric.LOSS_FLOOR: loss.loss_bound_ratio(sent, received),
        Metric.RTT_MIN: rtt and rtt.min_ms,
        Metric.RTT_P25: rtt and rtt.p25_ms,
        Metric.RTT_MEDIAN: rtt and rtt.median_ms,
        Metric.RTT_P75: rtt and rtt.p75_ms,
        Metric.RTT_P90: rtt and rtt.p90_ms,
        Metric.RTT_P95: rtt and rtt.p95_ms,
        Metric.RTT_MAX: rtt and rtt.max_ms,
        Metric.RTT_AVG: rtt and rtt.avg_ms,
        Metric.RTT_IQR: pinger.rtt_iqr_ms(rtts_ms),
        Metric.IPDV: pinger.ipdv_ms(rtts_ms),
        Metric.CONDITIONAL_LOSS: pinger.conditional_loss_probability(rtts_ms),
        Metric.MEAN_LOSS_BURST: pinger.mean_loss_burst(rtts_ms),
        Metric.DUPLICATES: pinger.duplicates([burst.duplicates for burst in results]).bursts_ratio,
        Metric.OUT_OF_ORDER: pinger.out_of_order([burst.reordered for burst in results]).bursts_ratio,
        Metric.LATE: pinger.late_ratio([burst.late for burst in results], [burst.sent for burst in results]),
        Metric.UNREACHABILITY: pinger.unreachability(rtts_ms),
        Metric.ZERO_LOSS: pinger.zero_loss_frequency(rtts_ms),
        Metric.UNPREDICTABILITY: pinger.unpredictability(rtts_ms),
        Metric.ESTIMATE: throughput and throughput.throughput_bps,
        Metric.MOS: pinger.mos(rtts_ms),
        Metric.ALPHA: directness and directness.alpha,
    }


@pytest.fixture(params=["lossless", "lossy", "dead", "single burst"])
def measured(request):
    """The metrics by `pinger` of bursts that are stored and summarised in all tiers."""
    mesh = make_mesh()
    Site.objects.filter(pk=mesh.slac.pk).update(latitude_deg=37.42, longitude_deg=-122.2)
    Site.objects.filter(pk=mesh.cern.pk).update(latitude_deg=46.23, longitude_deg=6.05)
    results = some_bursts(request.param)
    receipt = store(
        mesh.slac.pk, batch(*(delivered(mesh.slac_cern, burst, n) for n, burst in enumerate(results, 1))), NOW
    )
    assert not receipt.refused
    roll_up(NOW)
    merge_all(NOW)
    return expected(results, great_circle_km(37.42, -122.2, 46.23, 6.05))


def close_to(value, rel):
    return None if value is None else pytest.approx(value, rel=rel, abs=1e-12)


def test_every_metric_of_bursts_is_compared(measured):
    assert measured.keys() | NOT_OF_BURSTS == set(Metric)


def test_the_metrics_of_an_hour_equal_pingers(measured):
    for metric, value in measured.items():
        [cell] = tables.grid(metric, HOUR, HOUR + timedelta(hours=1))
        assert cell.value == close_to(value, 1e-5 if metric is Metric.MOS else 1e-6), metric


def test_the_metrics_of_a_day_equal_pingers_within_1_percent(measured):
    del measured[WORST_OF_PARTS]
    for metric, value in measured.items():
        [cell] = tables.grid(metric, HOUR - timedelta(days=2), HOUR + timedelta(hours=1))
        assert cell.value == close_to(value, 0.01 if metric in SKETCHED else 1e-6), metric


@pytest.mark.parametrize("tier", ["hour", "day", "month", "year"])
def test_the_view_of_each_tier_has_the_same_metrics(measured, tier):
    del measured[Metric.ALPHA]
    if tier != "hour":
        del measured[WORST_OF_PARTS]
    with connection.cursor() as cursor:
        cursor.execute(f"SELECT {', '.join(metric.value for metric in measured)} FROM metrics_by_{tier}")
        [row] = cursor.fetchall()

    for (metric, value), sql_value in zip(measured.items(), row, strict=True):
        exact = tier == "hour" or metric not in SKETCHED
        assert sql_value == close_to(value, 1e-5 if exact else 0.01), metric


def test_a_measured_burst_with_an_rtt_of_zero_has_no_rate():
    mesh = make_mesh()
    results = [burst(0.0, 0.0, at=HOUR), burst(1.0, 1.0, at=HOUR + timedelta(minutes=1))]
    store(mesh.slac.pk, batch(*(delivered(mesh.slac_cern, burst, n) for n, burst in enumerate(results, 1))), NOW)
    roll_up(NOW)
    merge_all(NOW)

    assert pinger.unpredictability([[0.0, 0.0], [1.0, 1.0]]) is None
    for since in (HOUR, HOUR - timedelta(days=3)):
        [cell] = tables.grid(Metric.UNPREDICTABILITY, since, HOUR + timedelta(hours=1))
        assert cell.value is None


@pytest.mark.parametrize(
    ("sent", "planned", "coverage", "floor"), [(0, 0, None, None), (0, 60, 0.0, None), (300, 60, 0.5, 0.01)]
)
def test_without_a_plan_there_is_no_coverage(sent, planned, coverage, floor):
    """30 bursts of 10 are half of 60, and 3/300 bounds a loss of none."""
    path = make_mesh().slac_cern
    hour(path, sent=sent, received=sent, rtt_ms=9.0 if sent else None, bursts_planned=planned, hour=HOUR)
    if planned:
        pinger_test = MeshTest.objects.create(name="pinger", kind="ping", every_s=60, parameters={})
        measurement = Measurement.objects.create(path=path, test=pinger_test, started_at=HOUR)
        MeasurementPeriod.objects.create(measurement=measurement, every_s=60, packet_bytes=[100], started_at=HOUR)

    with connection.cursor() as cursor:
        cursor.execute("SELECT coverage_ratio, loss_floor_ratio FROM metrics_by_hour")
        [row] = cursor.fetchall()
    sql_values = [
        [cell.value for cell in tables.grid(metric, HOUR, HOUR + timedelta(hours=1))]
        for metric in (Metric.COVERAGE, Metric.LOSS_FLOOR)
    ]

    assert row == (coverage, floor)
    assert sql_values == [[coverage], [floor]]
