"""The named queries: their results for data computed by hand, each with a single statement."""

from dataclasses import astuple
from datetime import UTC, datetime, timedelta
from random import Random

import numpy as np
import pytest

from monitor.archive.models import Burst, BurstHour
from monitor.archive.queries.operation.deliveries import agent_contacts, newest_refused
from monitor.archive.queries.paths import (
    loss_windows,
    measured_packet_sizes,
    newest_measurement_at,
    path_series,
    path_summaries,
)
from monitor.archive.queries.throughput.series import throughput_series, throughput_summaries
from monitor.archive.rollup.recompute import roll_up
from tests.db.copied_rows import copy_rows
from tests.db.mesh_of_three import HOUR, NOW, batch, burst, delivered, make_mesh, throughput
from tests.deliveries import store

pytestmark = [pytest.mark.django_db, pytest.mark.timescale]
BEFORE = HOUR - timedelta(hours=1)
MINUTE = timedelta(minutes=1)
EARLY = datetime(2000, 1, 1, tzinfo=UTC)


@pytest.fixture
def mesh():
    return make_mesh()


@pytest.fixture
def deliver(mesh):
    """Store these (path, result, fields…) from the agent of slac, and roll up."""
    sequences = iter(range(1, 1_000_000))

    def do(*results):
        sent_results = [
            delivered(path, result, next(sequences), **(fields[0] if fields else {}))
            for path, result, *fields in results
        ]
        receipt = store(mesh.slac.pk, batch(*sent_results, number=sent_results[0].sequence), NOW)
        assert not receipt.refused
        roll_up(NOW)

    return do


def test_a_period_pools_its_hours(mesh, deliver):
    deliver(
        (mesh.slac_cern, burst(10.0, 10.0, 10.0, None, at=BEFORE, duplicates=1)),
        (mesh.slac_cern, burst(20.0, 21.0, at=HOUR, reordered=2)),
        (mesh.slac_cern, burst(None, None, at=HOUR + MINUTE)),
        (mesh.slac_cern, burst(at=HOUR + 2 * MINUTE)),
        (mesh.slac_cern, burst(900.0, at=HOUR + 3 * MINUTE), {"during_test": True}),
    )

    [summary] = path_summaries(BEFORE, NOW)

    assert (summary.path_id, summary.packet_bytes) == (mesh.slac_cern.pk, 100)
    assert (summary.bursts, summary.bursts_all_lost, summary.bursts_none_lost) == (3, 1, 1)
    assert (summary.bursts_during_test, summary.bursts_not_measured) == (1, 1)
    assert (summary.sent, summary.received, summary.lost, summary.loss_ratio) == (8, 5, 3, 0.375)
    assert (summary.duplicates, summary.reordered) == (1, 2)
    assert (summary.rtt_min_ms, summary.rtt_max_ms) == (10.0, 21.0)
    assert summary.rtt_median_ms == 10.0  # 3 packets of the hour with 10.0 against 2 of the hour with 20.5
    assert summary.rtt_p95_ms == pytest.approx(20.95)
    assert summary.rtt_avg_ms == pytest.approx(14.2)
    assert summary.ipdv_ms == pytest.approx(0.0)  # no two differences in either hour
    assert summary.estimate_bps == pytest.approx(1460 * 8 / (0.0142 * 0.375**0.5))
    assert summary.estimate_is_floor is False


def test_a_periods_median_weighs_hours_by_received_packets(mesh, deliver):
    deliver(
        (mesh.slac_cern, burst(30.0, at=HOUR)),
        (mesh.slac_cern, burst(*[10.0] * 2, at=BEFORE)),
        (mesh.slac_cern, burst(*[20.0] * 4, at=BEFORE - timedelta(hours=1))),
    )

    [summary] = path_summaries(BEFORE - timedelta(hours=1), NOW)

    assert summary.rtt_median_ms == 20.0


def test_a_period_without_loss_has_a_floor(mesh, deliver):
    deliver((mesh.slac_cern, burst(*[100.0] * 300)))

    [summary] = path_summaries(HOUR, NOW)

    assert summary.loss_ratio == 0.0
    assert summary.estimate_bps == pytest.approx(1_168_000)
    assert summary.estimate_is_floor is True


def test_a_path_without_measured_bursts_has_no_figures(mesh, deliver):
    deliver((mesh.slac_cern, burst()))

    [summary] = path_summaries(HOUR, NOW)

    assert (summary.sent, summary.loss_ratio, summary.bursts_not_measured) == (0, None, 1)
    assert {summary.rtt_median_ms, summary.rtt_avg_ms, summary.ipdv_ms, summary.estimate_bps} == {None}
    assert summary.estimate_is_floor is None


@pytest.mark.parametrize(
    ("since", "until", "hours"),
    [
        (HOUR, HOUR + timedelta(hours=1), 1),
        (HOUR - timedelta(seconds=1), HOUR + timedelta(hours=1), 2),
        (HOUR + timedelta(minutes=59), HOUR + timedelta(hours=2), 1),
        (BEFORE, HOUR, 1),
        (HOUR + timedelta(hours=1), HOUR + timedelta(hours=2), 0),
    ],
)
def test_a_period_includes_the_hours_that_it_overlaps(mesh, deliver, since, until, hours):
    deliver((mesh.slac_cern, burst(1.0, at=HOUR)), (mesh.slac_cern, burst(1.0, at=BEFORE)))

    assert sum(summary.bursts for summary in path_summaries(since, until)) == hours


def test_summaries_can_be_filtered_by_size_and_path(mesh, deliver):
    deliver(
        (mesh.slac_cern, burst(1.0)),
        (mesh.slac_cern, burst(2.0, packet_bytes=1000)),
        (mesh.slac_anl, burst(3.0)),
    )

    def filtered(**options):
        return [
            (path_summary.path_id, path_summary.packet_bytes) for path_summary in path_summaries(HOUR, NOW, **options)
        ]

    assert filtered() == [(mesh.slac_cern.pk, 100), (mesh.slac_cern.pk, 1000), (mesh.slac_anl.pk, 100)]
    assert filtered(packet_bytes=1000) == [(mesh.slac_cern.pk, 1000)]
    assert filtered(path_ids=[mesh.slac_anl.pk]) == [(mesh.slac_anl.pk, 100)]
    assert filtered(path_ids=[]) == []
    assert measured_packet_sizes() == [100, 1000]


def test_a_minute_has_the_figures_of_all_its_packets(mesh, deliver):
    random = Random(20260314)
    rtts_ms = [
        [None if random.random() < 0.3 else random.uniform(0.1, 300.0) for _ in range(random.randint(1, 12))]
        for _ in range(40)
    ]
    deliver(*((mesh.slac_cern, burst(*rtts, at=HOUR + n * timedelta(seconds=13))) for n, rtts in enumerate(rtts_ms)))

    points = path_series(mesh.slac_cern.pk, 100, HOUR, NOW).points

    by_minute = [[rtts for n, rtts in enumerate(rtts_ms) if n * 13 // 60 == minute] for minute in range(9)]
    assert len(points) == len(by_minute)
    for point, bursts in zip(points, by_minute, strict=True):
        received = np.array([rtt for rtts in bursts for rtt in rtts if rtt is not None], dtype=np.float32)
        quantiles = np.quantile(received.astype(float), [0, 0.25, 0.5, 0.75, 0.95, 1])
        quantiles_ms = [getattr(point, f"rtt_{name}_ms") for name in ("min", "p25", "median", "p75", "p95", "max")]
        assert quantiles_ms == pytest.approx(quantiles.tolist(), rel=1e-12)
        assert (point.sent, point.received) == (sum(map(len, bursts)), len(received))
        assert point.loss_max_ratio == pytest.approx(max(rtts.count(None) / len(rtts) for rtts in bursts))


def test_a_day_is_read_from_raw_bursts_in_minutes_with_gaps(mesh, deliver):
    deliver(
        (mesh.slac_cern, burst(10.0, 20.0, at=HOUR + timedelta(seconds=1))),
        (mesh.slac_cern, burst(30.0, None, at=HOUR + timedelta(seconds=59))),
        (mesh.slac_cern, burst(at=HOUR + 2 * MINUTE)),
        (mesh.slac_cern, burst(None, None, at=HOUR + 3 * MINUTE)),
        (mesh.slac_cern, burst(1.0, at=HOUR + 4 * MINUTE), {"during_test": True}),
        (mesh.slac_cern, burst(1.0, packet_bytes=1000)),
        (mesh.slac_anl, burst(1.0)),
    )

    series = path_series(mesh.slac_cern.pk, 100, HOUR, HOUR + timedelta(days=1))

    first, unmeasured, lost = series.points
    assert (series.path_id, series.packet_bytes, series.step_s) == (mesh.slac_cern.pk, 100, 60)
    assert (first.at, first.sent, first.received, first.bursts_not_measured) == (HOUR, 4, 3, 0)
    assert astuple(first)[4:10] == pytest.approx((10.0, 15.0, 20.0, 25.0, 29.0, 30.0))
    assert first.estimate_bps == pytest.approx(1460 * 8 / (0.020 * 0.5))
    assert first.estimate_is_floor is False
    assert astuple(unmeasured) == (HOUR + 2 * MINUTE, 0, 0, 1, *[None] * 9)
    assert astuple(lost) == (HOUR + 3 * MINUTE, 2, 0, 0, *[None] * 8, 1.0)
    assert first.loss_max_ratio == 0.5


def test_a_day_of_bursts_each_minute_stays_below_2000_points(mesh, deliver):
    since = NOW - timedelta(days=1)
    copy_rows(
        Burst(
            path_id=mesh.slac_cern.pk,
            packet_bytes=100,
            measured_at=since + n * timedelta(seconds=20),
            outcome="measured",
            sent=1,
            received=1,
            duplicates=0,
            reordered=0,
            during_test=False,
            rtts_ms=[1.0],
        )
        for n in range(3 * 1440)
    )

    assert len(path_series(mesh.slac_cern.pk, 100, since, NOW).points) == 1440


def test_more_than_a_day_is_read_from_hours(mesh, deliver):
    deliver(
        (mesh.slac_cern, burst(10.0, 20.0, at=BEFORE)),
        (mesh.slac_cern, burst(10.0, 20.0, at=HOUR), {"during_test": True}),
    )
    row = BurstHour.objects.get(hour=BEFORE)
    Burst.objects.all().delete()

    series = path_series(mesh.slac_cern.pk, 100, NOW - timedelta(days=1, seconds=1), NOW)

    [point] = series.points
    assert series.step_s == 3600
    assert (point.at, point.sent, point.received, point.rtt_median_ms) == (BEFORE, 2, 2, 15.0)
    assert (point.estimate_bps, point.estimate_is_floor) == (row.estimate_bps, True)


def test_throughput_tests_have_their_outcomes(mesh, deliver):
    deliver(
        (mesh.slac_cern, throughput(90e6, at=BEFORE, streams=4, retransmits=3, rtt_mean_ms=170.5)),
        (mesh.slac_cern, throughput(50e6, at=HOUR)),
        (mesh.slac_cern, throughput(80e6, at=HOUR + MINUTE)),
        (mesh.slac_cern, throughput(at=HOUR + 2 * MINUTE)),
        (mesh.slac_anl, throughput(at=HOUR)),
    )

    series = throughput_series(mesh.slac_cern.pk, BEFORE, HOUR + 3 * MINUTE)
    cern, anl = throughput_summaries(HOUR, NOW)

    assert [point.throughput_bps for point in series] == [90e6, 50e6, 80e6, None]
    first = series[0]
    assert (first.at, first.test, first.protocol, first.outcome) == (BEFORE, "tcp", "tcp", "measured")
    assert (first.streams, first.duration_s, first.retransmits, first.rtt_mean_ms) == (4, 10.0, 3, 170.5)
    assert first.detail is None
    assert (series[3].outcome, series[3].detail) == ("tool_failure", "connection refused")
    refused = ("tool_failure", None, "connection refused", 0)
    assert astuple(cern) == (mesh.slac_cern.pk, 3, 2, 65e6, 50e6, 80e6, 80e6, HOUR + 2 * MINUTE, *refused)
    assert astuple(anl) == (mesh.slac_anl.pk, 1, 0, None, None, None, None, HOUR, *refused)
    assert throughput_summaries(BEFORE, NOW, path_ids=[mesh.slac_anl.pk]) == [anl]
    assert throughput_series(mesh.slac_cern.pk, BEFORE, BEFORE) == []


def test_a_loss_window_pools_sizes_and_excludes_own_tests(mesh, deliver):
    deliver(
        (mesh.slac_cern, burst(1.0, None, at=HOUR)),
        (mesh.slac_cern, burst(1.0, None, None, at=HOUR, packet_bytes=1000)),
        (mesh.slac_cern, burst(None, None, at=HOUR + MINUTE), {"during_test": True}),
        (mesh.slac_cern, burst(at=HOUR + MINUTE, packet_bytes=1000)),
        (mesh.slac_cern, burst(None, at=HOUR + 10 * MINUTE)),
        (mesh.slac_cern, burst(None, at=BEFORE)),
        (mesh.slac_anl, burst(1.0)),
    )

    windows = loss_windows(HOUR, HOUR + 10 * MINUTE)

    assert [astuple(window) for window in windows] == [(mesh.slac_cern.pk, 2, 5, 2, 2), (mesh.slac_anl.pk, 1, 1, 1, 0)]
    assert loss_windows(HOUR, NOW, path_ids=[mesh.slac_anl.pk]) == windows[1:]


def test_raw_bursts_are_never_read_for_more_than_a_day(mesh):
    with pytest.raises(ValueError, match="more than a day"):
        loss_windows(NOW - timedelta(days=1, microseconds=1), NOW)


@pytest.mark.parametrize(
    ("since", "until", "message"),
    [(datetime(2026, 1, 1), NOW, "time zone"), (NOW, HOUR, "before it begins")],  # noqa: DTZ001
)
def test_an_invalid_period_is_an_error(db, since, until, message):
    with pytest.raises(ValueError, match=message):
        path_summaries(since, until)


def test_contacts_are_the_newest_batch_of_each_site(mesh):
    store(mesh.slac.pk, batch(number=1, queued=5), HOUR)
    store(mesh.slac.pk, batch(number=2, queued=1, dropped=2, agent_version="0.2.0"), NOW)
    store(mesh.cern.pk, batch(number=9), HOUR)

    contacts = agent_contacts()

    assert sorted(astuple(contact) for contact in contacts) == sorted(
        [(mesh.slac.pk, NOW, "0.2.0", 1, 2), (mesh.cern.pk, HOUR, "0.1.0", 0, 0)]
    )


def test_refused_results_are_reported_newest_first(mesh):
    store(mesh.slac.pk, batch(delivered(99999, burst(1.0), 1), delivered(99998, burst(1.0), 2)), HOUR)
    store(mesh.cern.pk, batch(delivered(mesh.slac_cern, burst(1.0), 3)), NOW)

    newest = newest_refused(limit=2)

    assert [astuple(report) for report in newest] == [
        (mesh.cern.pk, 3, NOW, f"path {mesh.slac_cern.pk} does not start at this site"),
        (mesh.slac.pk, 2, HOUR, "path 99998 is unknown"),
    ]


def test_the_newest_result_may_be_of_any_kind(mesh, deliver):
    assert newest_measurement_at() is None

    deliver((mesh.slac_cern, burst(1.0, at=BEFORE)), (mesh.slac_cern, burst(at=HOUR)))
    assert newest_measurement_at() == HOUR

    deliver((mesh.slac_cern, throughput(at=HOUR + MINUTE)))
    assert newest_measurement_at() == HOUR + MINUTE


@pytest.mark.parametrize(
    "ask",
    [
        lambda: path_summaries(EARLY, NOW),
        lambda: path_series(1, 100, HOUR, NOW),
        lambda: path_series(1, 100, EARLY, NOW),
        lambda: throughput_series(1, EARLY, NOW),
        lambda: throughput_summaries(EARLY, NOW),
        lambda: loss_windows(HOUR, NOW),
        agent_contacts,
        newest_measurement_at,
        newest_refused,
        measured_packet_sizes,
    ],
)
def test_each_query_is_a_single_statement(mesh, deliver, django_assert_num_queries, ask):
    deliver((mesh.slac_cern, burst(1.0)), (mesh.slac_anl, burst(1.0)), (mesh.slac_cern, throughput(1e6)))

    with django_assert_num_queries(1):
        ask()
