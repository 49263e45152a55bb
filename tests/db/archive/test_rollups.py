"""Summaries of all tiers, compared with a brute-force oracle, and equal for any order of arrival."""

import logging
from collections import defaultdict
from datetime import UTC, timedelta
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra.django import TestCase

from monitor.archive.models import (
    Burst,
    BurstDay,
    BurstHour,
    BurstMonth,
    BurstYear,
    DirtyHour,
    DirtySummary,
    ThroughputDay,
    ThroughputHour,
    ThroughputMonth,
    ThroughputYear,
)
from monitor.archive.periods import next_start, start_of
from monitor.archive.rollup.recompute import TIERS, hour_patience, merge, recompute, roll_up, tier_patience
from monitor.archive.tasks import roll_up as roll_up_task
from monitor.mesh.kinds import MESH_KINDS
from monitor.mesh.models import Measurement, MeasurementPeriod
from monitor.mesh.models import Test as MeshTest
from probes.contract import Outcome
from tests.db.merging import merge_all, merge_hours
from tests.db.mesh_of_three import HOUR, NOW, batch, burst, delivered, make_mesh, throughput
from tests.db.planned_bursts import planned_bursts
from tests.deliveries import store

pytestmark = pytest.mark.timescale

ROUND_TRIPS = (
    "rtt_min_ms",
    "rtt_p25_ms",
    "rtt_median_ms",
    "rtt_p75_ms",
    "rtt_p90_ms",
    "rtt_p95_ms",
    "rtt_max_ms",
    "rtt_avg_ms",
)
QUANTILES = {*ROUND_TRIPS, "ipdv_ms"} - {"rtt_min_ms", "rtt_max_ms", "rtt_avg_ms"}
BURSTS = (BurstHour, BurstDay, BurstMonth, BurstYear)
THROUGHPUT = (ThroughputHour, ThroughputDay, ThroughputMonth, ThroughputYear)
COLUMNS = [field.name for field in BurstHour._meta.concrete_fields]


def hour_of(moment):
    return moment.astimezone(UTC).replace(minute=0, second=0, microsecond=0)


def oracle(results):
    """The summaries of these delivered bursts, computed value by value."""
    groups = defaultdict(list)
    for result in results:
        groups[result.path_id, result.result.packet_bytes, hour_of(result.result.started_at)].append(result)
    return {key: _summary(members) for key, members in groups.items()}


def _summary(members):
    own = [member.result for member in members if member.during_test]
    rest = [member.result for member in members if not member.during_test]
    measured = [result for result in rest if result.outcome == Outcome.MEASURED]
    apart = [result for result in measured if result.loaded_rtts_ms]
    loaded = [rtt for result in apart for rtt in result.loaded_rtts_ms]
    loaded += [rtt for result in own if result.loaded_rtts_ms == () for rtt in result.rtts_ms]
    answered = np.array([rtt for rtt in loaded if rtt is not None], dtype=np.float32).astype(np.float64)
    rtts = np.array([rtt for result in measured for rtt in result.rtts_ms if rtt is not None], dtype=np.float32)
    differences = []
    for result in measured:
        pairs = [pair for pair in pairwise(result.rtts_ms) if None not in pair]
        differences += [float(np.float32(later)) - float(np.float32(earlier)) for earlier, later in pairs]
    sent = sum(result.sent for result in measured)
    lost = sent - len(rtts)
    expected = {
        "bursts": len(measured),
        "bursts_all_lost": sum(1 for result in measured if {*result.rtts_ms, *(result.loaded_rtts_ms or ())} == {None}),
        "bursts_none_lost": sum(1 for result in measured if None not in result.rtts_ms),
        "bursts_during_test": len(own),
        "bursts_not_measured": len(rest) - len(measured),
        "sent": sent,
        "received": len(rtts),
        "bursts_duplicated": sum(1 for result in measured if result.duplicates),
        "bursts_reordered": sum(1 for result in measured if result.reordered),
        "bursts_planned": None,
        "late": sum(result.late for result in measured),
        "losses_followed": sum(1 for result in measured for rtt in result.rtts_ms[:-1] if rtt is None),
        "losses_paired": sum(1 for result in measured for pair in pairwise(result.rtts_ms) if pair == (None, None)),
        "loss_max_ratio": max(
            ((result.sent - result.received) / (result.sent + len(result.loaded_rtts_ms or ())) for result in measured),
            default=None,
        ),
        "bursts_excluded": sum(
            len(result.loaded_rtts_ms) / (result.sent + len(result.loaded_rtts_ms)) for result in apart
        )
        or None,
        "loaded_sent": len(loaded) or None,
        "loaded_received": len(answered) if loaded else None,
        "loaded_rtt_median_ms": float(np.percentile(answered, 50)) if len(answered) else None,
        "loaded_rtt_p95_ms": float(np.percentile(answered, 95)) if len(answered) else None,
        "duplicates": sum(result.duplicates for result in measured),
        "reordered": sum(result.reordered for result in measured),
        "ipdv_ms": float(np.subtract(*np.percentile(differences, [75, 25]))) if differences else None,
        "slot_minima_ms": _slot_minima(measured),
    }
    if len(rtts):
        loss_ratio = lost / sent if lost else min(1.0, 3 / sent)
        average_ms = float(rtts.astype(np.float64).mean())
        quantiles = np.percentile(rtts.astype(np.float64), [0, 25, 50, 75, 90, 95, 100])
        expected |= dict(zip(ROUND_TRIPS, [*quantiles.tolist(), average_ms], strict=True))
        expected["estimate_bps"] = 1460 * 8 / (average_ms / 1000 * loss_ratio**0.5)
        expected["estimate_is_floor"] = lost == 0
    else:
        expected |= dict.fromkeys((*ROUND_TRIPS, "estimate_bps", "estimate_is_floor"))
    return expected


def _slot_minima(measured):
    slots = [[] for _ in range(12)]
    for result in measured:
        slots[result.started_at.minute // 5] += [rtt for rtt in result.rtts_ms if rtt is not None]
    return [float(np.float32(min(rtts))) if rtts else None for rtts in slots] if any(slots) else None


DERIVED = {"rtt_iqr_ms", "received_avg_ratio", "received_max_ratio", "rate_avg_per_ms", "rate_max_per_ms"}
"""Compared with `pinger` in test_archive_metrics."""
SKETCHES = {"rtt_sketch", "ipdv_sketch", "loaded_rtt_sketch"}


def summaries():
    rows = BurstHour.objects.values_list("path_id", "packet_bytes", "hour", named=False)
    assert rows.count() == len(set(rows))
    return {
        (row["path_id"], row["packet_bytes"], row["hour"]): {
            name: bytes(value) if isinstance(value, memoryview) else value
            for name, value in row.items()
            if name not in ("path_id", "packet_bytes", "hour")
        }
        for row in BurstHour.objects.values(*COLUMNS)
    }


def _about(value):
    return value if value is None or isinstance(value, (bool, int)) else pytest.approx(value, rel=1e-6, abs=1e-6)


def assert_equals_oracle(results):
    summary_rows, expected = summaries(), oracle(results)
    assert summary_rows.keys() == expected.keys()
    for key, row in expected.items():
        assert summary_rows[key].keys() == row.keys() | DERIVED | SKETCHES
        assert {name: summary_rows[key][name] for name in row} == {
            name: [_about(each) for each in value] if isinstance(value, list) else _about(value)
            for name, value in row.items()
        }, key


def tiers():
    """All summaries of bursts and of throughput, by tier and key."""
    rows_by_key = {}
    for model in (*BURSTS, *THROUGHPUT):
        keys = [field.attname for field in model._meta.pk_fields]
        for row in model.objects.values(*(field.attname for field in model._meta.concrete_fields)):
            values = {k: bytes(v) if isinstance(v, memoryview) else v for k, v in row.items() if k not in keys}
            rows_by_key[keys[-1], *(row[key] for key in keys[:-1]), row[keys[-1]]] = values
    return rows_by_key


@pytest.fixture
def mesh(db):
    return make_mesh()


def roll_up_all(limit=5000):
    while roll_up(NOW, limit):
        continue


def test_every_column_of_an_hour_equals_brute_force(mesh):
    random = np.random.default_rng(20261121)
    results = []
    for number in range(120):
        rtts = [None if random.random() < 0.1 else float(170 + random.gamma(2, 3)) for _ in range(10)]
        sent_burst = burst(
            *rtts,
            at=HOUR - timedelta(hours=2) + timedelta(minutes=number, seconds=7),
            packet_bytes=(100, 1000)[number % 2],
            duplicates=int(random.integers(3)),
            reordered=int(random.integers(2)),
            late=rtts.count(None),
            loaded_rtts_ms=((), None)[number % 2] if number % 17 == 0 else ((300.0, None, 350.0), None)[number % 5 > 0],
        )
        path = mesh.slac_cern if number % 3 else mesh.slac_anl
        results.append(delivered(path, sent_burst, number + 1, during_test=number % 17 == 0))
    results.append(delivered(mesh.slac_cern, burst(at=HOUR), 500))
    results.append(delivered(mesh.slac_cern, burst(*[None] * 10, at=HOUR + timedelta(seconds=1)), 501))
    store(mesh.slac.pk, batch(*results), NOW)

    done = roll_up(NOW)

    assert done == 5
    assert not DirtyHour.objects.exists()
    assert_equals_oracle(results)


def test_ipdv_uses_consecutive_answered_packets(mesh):
    results = [delivered(mesh.slac_cern, burst(30.0, None, 10.0, 14.0, 12.0, 20.0))]
    store(mesh.slac.pk, batch(*results), NOW)

    roll_up(NOW)

    # differences 4, -2, 8: quartiles 1 and 6
    assert BurstHour.objects.get().ipdv_ms == pytest.approx(5.0)


def test_an_hour_of_total_loss_has_no_rtt_and_no_estimate(mesh):
    store(mesh.slac.pk, batch(delivered(mesh.slac_cern, burst(None, None, None))), NOW)

    roll_up(NOW)

    row = BurstHour.objects.get()
    assert (row.bursts, row.bursts_all_lost, row.sent, row.received) == (1, 1, 3, 0)
    assert {getattr(row, name) for name in (*ROUND_TRIPS, "ipdv_ms", "estimate_bps", "estimate_is_floor")} == {None}


def test_an_hour_of_failed_tests_has_no_loss(mesh):
    store(mesh.slac.pk, batch(delivered(mesh.slac_cern, burst())), NOW)

    roll_up(NOW)

    row = BurstHour.objects.get()
    assert (row.bursts, row.bursts_not_measured, row.sent, row.received) == (0, 1, 0, 0)


def test_bursts_during_our_own_tests_are_counted_separately(mesh):
    results = (
        delivered(mesh.slac_cern, burst(500.0, None, at=HOUR), 1, during_test=True),
        delivered(mesh.slac_cern, burst(10.0, 10.0, at=HOUR + timedelta(minutes=1)), 2),
    )
    store(mesh.slac.pk, batch(*results), NOW)

    roll_up(NOW)

    row = BurstHour.objects.get()
    assert (row.bursts, row.bursts_during_test, row.sent, row.received, row.rtt_max_ms) == (1, 1, 2, 2, 10.0)


def test_packets_under_load_are_separate_from_the_rest(mesh):
    minute = timedelta(minutes=1)
    results = (
        delivered(mesh.slac_cern, burst(10.0, 12.0, 11.0, at=HOUR, loaded_rtts_ms=(80.0, None, 60.0)), 1),
        delivered(mesh.slac_cern, burst(70.0, 90.0, at=HOUR + minute, loaded_rtts_ms=()), 2, during_test=True),
        # An agent that does not distinguish packets under load.
        delivered(mesh.slac_cern, burst(500.0, 11.0, at=HOUR + 2 * minute), 3, during_test=True),
        delivered(mesh.slac_cern, burst(10.0, 10.0, at=HOUR + 3 * minute), 4),
    )
    store(mesh.slac.pk, batch(*results), NOW)

    roll_up(NOW)
    merge_all(NOW)

    for model in (BurstHour, BurstDay, BurstYear):
        row = model.objects.get()
        assert (row.bursts, row.bursts_during_test, row.bursts_excluded) == (2, 2, pytest.approx(0.5))
        assert (row.sent, row.received, row.rtt_min_ms, row.rtt_max_ms) == (5, 5, 10.0, 12.0)
        assert (row.loaded_sent, row.loaded_received) == (5, 4)
        assert row.loaded_rtt_median_ms == pytest.approx(75.0, rel=0.005)
        assert row.loaded_rtt_p95_ms == pytest.approx(88.5, rel=0.005)


def test_a_burst_answered_under_load_only_was_not_unreachable(mesh):
    results = (
        delivered(mesh.slac_cern, burst(None, at=HOUR, loaded_rtts_ms=(80.0, 90.0, 85.0)), 1),
        delivered(mesh.slac_cern, burst(None, at=HOUR + timedelta(minutes=1), loaded_rtts_ms=(None, None)), 2),
    )
    store(mesh.slac.pk, batch(*results), NOW)

    roll_up(NOW)

    row = BurstHour.objects.get()
    assert (row.bursts, row.bursts_all_lost, row.sent, row.received) == (2, 1, 2, 0)
    assert row.loss_max_ratio == pytest.approx(1 / 3)


def test_a_late_burst_reopens_only_its_hour(mesh):
    early = delivered(mesh.slac_cern, burst(10.0, at=HOUR - timedelta(minutes=30)), 1)
    now = delivered(mesh.slac_cern, burst(10.0, at=HOUR), 2)
    store(mesh.slac.pk, batch(early, now), NOW)
    roll_up_all()
    late = delivered(mesh.slac_cern, burst(30.0, None, at=HOUR - timedelta(minutes=20)), 3)

    store(mesh.slac.pk, batch(late, number=2), NOW)

    assert roll_up(NOW) == 1
    assert_equals_oracle([early, now, late])


def marks():
    return set(DirtySummary.objects.values_list("tier", "path_id", "starts_at"))


def test_each_summary_marks_exactly_the_next_longer_summary(mesh):
    day, month, year = (start_of(tier, HOUR) for tier in ("day", "month", "year"))
    path_id = mesh.slac_cern.pk
    store(mesh.slac.pk, batch(delivered(mesh.slac_cern, burst(10.0))), NOW)

    roll_up(NOW)
    assert marks() == {("day", path_id, day)}
    for tier, expected in zip(TIERS, [{("month", path_id, month)}, {("year", path_id, year)}, set()], strict=True):
        assert merge(tier, NOW, patience=timedelta(0)) == 1
        assert marks() == expected


def test_late_data_changes_only_the_affected_summaries(mesh):
    times = [HOUR, HOUR - timedelta(days=1), HOUR - timedelta(days=40), HOUR - timedelta(days=400)]
    results = [delivered(mesh.slac_cern, burst(10.0, at=at), number) for number, at in enumerate(times, 1)]
    store(mesh.slac.pk, batch(*results, delivered(mesh.slac_anl, burst(10.0), 9)), NOW)
    roll_up_all()
    merge_all(NOW)
    before = tiers()
    late_at = HOUR - timedelta(days=40, minutes=3)

    store(mesh.slac.pk, batch(delivered(mesh.slac_cern, burst(50.0, at=late_at), 10), number=2), NOW)
    roll_up_all()
    merge_all(NOW)

    after = tiers()
    changed = {key for key in after if after[key] != before.get(key)}
    key = mesh.slac_cern.pk, 100
    assert changed == {(tier, *key, start_of(tier, late_at)) for tier in ("hour", "day", "month", "year")}
    assert after["year", *key, start_of("year", late_at)]["sent"] == 4


def test_a_first_rollup_is_immediate_later_ones_are_delayed(mesh):
    days = TIERS[0]
    store(mesh.slac.pk, batch(delivered(mesh.slac_cern, burst(10.0))), NOW)
    roll_up(NOW)

    assert merge(days, NOW) == 1

    store(mesh.slac.pk, batch(delivered(mesh.slac_cern, burst(11.0, at=HOUR + timedelta(minutes=1)), 2), number=2), NOW)
    roll_up(NOW)

    assert merge(days, NOW + days.patience - timedelta(seconds=1)) == 0
    assert merge(days, NOW + days.patience) == 1


def test_longer_summaries_are_within_1_percent_and_counts_exact(mesh):
    random = np.random.default_rng(7)
    results = []
    for number in range(300):
        rtts = [None if random.random() < 0.1 else float(random.lognormal(3, 1)) for _ in range(10)]
        at = HOUR - timedelta(hours=7 * number + 1, seconds=number)
        results.append(delivered(mesh.slac_cern, burst(*rtts, at=at, duplicates=number % 3), number + 1))
    store(mesh.slac.pk, batch(*results), NOW)
    roll_up_all()
    merge_all(NOW)
    tier_rows = tiers()

    for tier in ("day", "month", "year"):
        groups = defaultdict(list)
        for result in results:
            groups[tier, result.path_id, 100, start_of(tier, result.result.started_at)].append(result)
        assert {key for key in tier_rows if key[0] == tier} == groups.keys()
        for key, members in groups.items():
            expected = _summary(members)
            del expected["loss_max_ratio"], expected["slot_minima_ms"]
            assert {name: tier_rows[key][name] for name in expected} == {
                name: value
                if value is None or isinstance(value, (bool, int))
                else pytest.approx(value, rel=0.01 if name in QUANTILES else 1e-6)
                for name, value in expected.items()
            }, key


def test_quantiles_of_a_day_lie_within_those_of_its_hours(mesh):
    values = np.random.default_rng(1).normal(175.34, 0.03, (2, 4, 100))
    results = [
        delivered(mesh.slac_cern, burst(*rtts, at=HOUR + timedelta(hours=-hour, minutes=number)), 4 * hour + number)
        for hour, of_hour in enumerate(values)
        for number, rtts in enumerate(of_hour.tolist())
    ]
    store(mesh.slac.pk, batch(*results), NOW)
    roll_up_all()
    merge_all(NOW)

    for model in (BurstDay, BurstYear):
        for name in ("rtt_p25_ms", "rtt_median_ms", "rtt_p75_ms", "rtt_p90_ms", "rtt_p95_ms"):
            hours = sorted(BurstHour.objects.values_list(name, flat=True))
            assert hours[0] <= getattr(model.objects.get(), name) <= hours[1]


def test_the_worst_hour_of_a_year_is_not_averaged_away(mesh):
    results = [delivered(mesh.slac_cern, burst(*[5.0] * 10, at=HOUR - timedelta(hours=n)), n + 1) for n in range(50)]
    results.append(delivered(mesh.slac_cern, burst(*[None] * 4, 5.0, 5.0, at=HOUR - timedelta(hours=60)), 99))
    store(mesh.slac.pk, batch(*results), NOW)
    roll_up_all()
    merge_all(NOW)

    assert BurstYear.objects.get().loss_max_ratio == pytest.approx(4 / 6)


def test_longer_summaries_outlive_the_shorter_summaries(mesh):
    store(mesh.slac.pk, batch(delivered(mesh.slac_cern, burst(10.0, None))), NOW)
    roll_up(NOW)
    merge_all(NOW)
    before = tiers()
    BurstHour.objects.all().delete()
    merge_hours(NOW)
    DirtySummary.objects.create(tier="day", path_id=mesh.slac_cern.pk, starts_at=start_of("day", HOUR), marked_at=NOW)

    merge_all(NOW)

    assert tiers() == {key: row for key, row in before.items() if key[0] != "hour"}


def test_recomputing_gives_identical_rows_or_keeps_them(mesh):
    random = np.random.default_rng(11)
    results = [
        delivered(
            (mesh.slac_cern, mesh.slac_anl)[number % 2],
            burst(*(random.gamma(2, 30, 6).tolist()), None, at=HOUR - timedelta(hours=9 * number, seconds=5 * number)),
            number + 1,
        )
        for number in range(120)
    ]
    store(mesh.slac.pk, batch(*results, delivered(mesh.slac_cern, throughput(5e6), 500)), NOW)
    roll_up_all()
    merge_all(NOW)
    before = tiers()
    Burst.objects.filter(measured_at__lt=HOUR - timedelta(days=20)).delete()

    steps = list(recompute(HOUR - timedelta(days=60), NOW, NOW + timedelta(hours=1)))

    assert tiers() == before
    assert sum(step.count for step in steps if step.what == "hours") == 54
    assert sum(step.count for step in steps if step.what == "years") == 2
    assert not DirtyHour.objects.exists()
    assert not DirtySummary.objects.exists()


def test_recomputing_repairs_a_path_and_leaves_the_others(mesh):
    results = [
        delivered(path, burst(10.0, 20.0, at=HOUR - timedelta(hours=n)), 10 * n + number)
        for n in range(3)
        for number, path in enumerate((mesh.slac_cern, mesh.slac_anl), 1)
    ]
    store(mesh.slac.pk, batch(*results), NOW)
    roll_up_all()
    merge_all(NOW)
    before = tiers()
    for model in (BurstHour, BurstDay, BurstMonth, BurstYear):
        model.objects.update(received=0)

    list(recompute(HOUR - timedelta(hours=1), HOUR + timedelta(hours=1), NOW, [mesh.slac_cern.pk]))

    after = tiers()
    repaired = {key for key, row in after.items() if row == before[key]}
    hours = [HOUR, HOUR - timedelta(hours=1)]
    assert {key[2:] for key in repaired if key[0] == "hour"} == {(100, hour) for hour in hours}
    assert {key[1] for key in repaired} == {mesh.slac_cern.pk}


def test_the_plan_of_each_tier_equals_that_of_the_mesh(mesh):
    test = MeshTest.objects.create(name="pinger", kind="ping", every_s=420)
    measurement = Measurement.objects.create(path=mesh.slac_cern, test=test, started_at=HOUR)
    for every_s, began, ended in ((420, 50, 3.25), (1800, 3.25, None)):
        MeasurementPeriod.objects.create(
            measurement=measurement,
            every_s=every_s,
            packet_bytes=[100],
            started_at=HOUR - timedelta(days=began, seconds=7),
            ended_at=None if ended is None else HOUR - timedelta(days=ended, seconds=7),
        )
    results = [delivered(mesh.slac_cern, burst(1.0, at=HOUR - timedelta(days=n)), n + 1) for n in range(60)]
    store(mesh.slac.pk, batch(*results, delivered(mesh.slac_cern, burst(1.0, packet_bytes=1000), 99)), NOW)
    roll_up_all()
    merge_all(NOW)

    for (tier, path_id, packet_bytes, start), row in tiers().items():
        planned = planned_bursts(start, next_start(tier, start)).get((path_id, packet_bytes))
        assert (row["bursts_planned"] or None) == (planned or None), (tier, start)


def test_throughput_is_summarised_in_all_tiers(mesh):
    rates = [90e6, 50e6, 80e6, 70e6]
    results = [
        delivered(mesh.slac_cern, throughput(rate, at=HOUR + timedelta(minutes=n)), n + 1)
        for n, rate in enumerate(rates)
    ]
    failed = delivered(mesh.slac_cern, throughput(at=HOUR + timedelta(minutes=20)), 9)
    before = delivered(mesh.slac_cern, throughput(10e6, at=HOUR - timedelta(hours=2)), 10)
    mesh.slot(mesh.slac_cern, HOUR + timedelta(minutes=5))
    store(mesh.slac.pk, batch(*results, failed, before), NOW)
    roll_up_all()
    merge_all(NOW)

    hour = ThroughputHour.objects.get(hour=HOUR)
    year = ThroughputYear.objects.get()
    assert (hour.tests, hour.tests_measured, hour.slots_planned) == (5, 4, 1)
    assert (hour.throughput_min_bps, hour.throughput_median_bps, hour.throughput_max_bps) == (50e6, 75e6, 90e6)
    assert hour.throughput_avg_bps == pytest.approx(72.5e6)
    assert (year.tests, year.tests_measured, year.slots_planned) == (6, 5, 1)
    assert year.throughput_median_bps == pytest.approx(70e6, rel=0.01)
    assert (year.throughput_min_bps, year.throughput_avg_bps) == (10e6, pytest.approx(60e6))


def test_slots_of_another_kind_of_the_same_table_are_planned(mesh, monkeypatch):
    monkeypatch.setitem(MESH_KINDS, "other-tool", MESH_KINDS["throughput"])
    mesh.slot(mesh.slac_cern, HOUR + timedelta(minutes=5))
    MeshTest.objects.filter(name="tcp").update(kind="other-tool")
    store(mesh.slac.pk, batch(delivered(mesh.slac_cern, throughput(90e6, at=HOUR), 1)), NOW)
    roll_up_all()

    assert ThroughputHour.objects.get().slots_planned == 1


def test_summaries_outlive_their_raw_bursts(mesh):
    store(mesh.slac.pk, batch(delivered(mesh.slac_cern, burst(10.0))), NOW)
    roll_up(NOW)
    before = summaries()
    Burst.objects.all().delete()
    DirtyHour.objects.create(path_id=mesh.slac_cern.pk, hour=HOUR, marked_at=NOW)

    assert roll_up(NOW) == 1

    assert summaries() == before


def test_a_limit_takes_the_newest_hours_first(mesh):
    results = [delivered(mesh.slac_cern, burst(1.0, at=HOUR - timedelta(hours=n)), n + 1) for n in range(5)]
    store(mesh.slac.pk, batch(*results), NOW)

    assert roll_up(NOW, limit=2) == 2

    assert set(BurstHour.objects.values_list("hour", flat=True)) == {HOUR, HOUR - timedelta(hours=1)}
    assert DirtyHour.objects.count() == 3


def test_the_task_continues_until_no_hour_is_dirty(mesh, monkeypatch):
    monkeypatch.setattr("monitor.archive.tasks.HOURS_AT_ONCE", 2)
    results = [delivered(mesh.slac_cern, burst(1.0, at=HOUR - timedelta(hours=n)), n + 1) for n in range(5)]
    store(mesh.slac.pk, batch(*results), NOW)

    assert roll_up_task() == 5

    assert not DirtyHour.objects.exists()


def test_with_many_paths_an_hour_waits_for_more_bursts(mesh):
    store(
        mesh.slac.pk,
        batch(
            delivered(mesh.slac_cern, burst(1.0)),
            delivered(mesh.slac_cern, burst(1.0, at=HOUR - timedelta(hours=1)), 2),
        ),
        NOW,
    )
    patience = hour_patience(100_000)

    assert patience == timedelta(minutes=5)
    assert roll_up(NOW + timedelta(seconds=299), patience=patience) == 0
    assert roll_up(NOW + timedelta(seconds=300), patience=patience) == 2
    assert not DirtyHour.objects.exists()


@pytest.mark.parametrize(("paths", "seconds"), [(20, 0), (3000, 0), (3334, 10.002), (10_000, 30), (1_000_000, 3000)])
def test_the_wait_of_an_hour_grows_with_the_paths(paths, seconds):
    assert hour_patience(paths).total_seconds() == seconds


def test_longer_summaries_wait_longer_with_many_paths():
    day = TIERS[0]
    assert tier_patience(day, 20_000) == tier_patience(day, 20) == day.patience == timedelta(minutes=10)
    assert tier_patience(day, 100_000) == timedelta(minutes=50)


def test_a_delayed_rollup_is_reported(mesh, caplog):
    store(mesh.slac.pk, batch(delivered(mesh.slac_cern, burst(1.0))), NOW)

    with caplog.at_level(logging.WARNING):
        roll_up(NOW + timedelta(minutes=10))

    assert "rollups lag 600 s behind" in caplog.text


def test_a_rollup_has_a_fixed_number_of_statements(mesh, django_assert_num_queries):
    results = [delivered(mesh.slac_cern, burst(1.0, at=HOUR - timedelta(hours=n)), n + 1) for n in range(50)]
    store(mesh.slac.pk, batch(*results), NOW)

    with django_assert_num_queries(10):
        # select, raw bursts, staging table, stage, store, throughput, directions, mark; between SAVEPOINT and RELEASE
        roll_up(NOW)


rtts_ms = st.one_of(st.none(), st.floats(2**-10, 500.0, width=32))
moments = st.tuples(st.integers(0, 8), st.sampled_from([0, 1, 40])).map(
    lambda step: HOUR - timedelta(hours=1, days=step[1]) + timedelta(minutes=10 * step[0])
)
some_bursts = st.builds(
    lambda rtts, at, size: burst(*rtts, at=at, packet_bytes=size),
    st.lists(rtts_ms, max_size=6),
    moments,
    st.sampled_from([100, 1000]),
)


class AnyOrder(TestCase):
    """Deliveries in any order, repeated, in any parts, with roll-ups in between, give the same tables."""

    @pytest.mark.timeout(900)
    @given(data=st.data())
    @settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
    def test_any_order_of_deliveries_and_rollups_gives_the_same(self, data):
        mesh = make_mesh()
        drawn_results = data.draw(
            st.lists(
                st.tuples(some_bursts, st.sampled_from([mesh.slac_cern, mesh.slac_anl]), st.booleans()),
                min_size=1,
                max_size=12,
                unique_by=lambda drawn: (drawn[1].pk, drawn[0].packet_bytes, drawn[0].started_at),
            )
        )
        results = [
            delivered(path, result, sequence, during_test=own)
            for sequence, (result, path, own) in enumerate(drawn_results, 1)
        ]
        store(mesh.slac.pk, batch(*results), NOW)
        roll_up_all()
        merge_all(NOW)
        clean = self.tables()
        assert_equals_oracle(results)
        for model in (Burst, BurstHour, BurstDay, BurstMonth, BurstYear):
            model.objects.all().delete()

        numbers = st.integers(0, len(results) - 1)
        parts = data.draw(st.lists(st.lists(numbers, min_size=1, max_size=5), max_size=10))
        for number, part in enumerate([*parts, range(len(results))], 2):
            store(mesh.slac.pk, batch(*(results[index] for index in part), number=number), NOW)
            roll_up(NOW, limit=data.draw(st.integers(1, 3)))
            merge(data.draw(st.sampled_from(TIERS)), NOW, data.draw(st.integers(1, 3)), timedelta(0))
        roll_up_all(limit=1)
        merge_all(NOW)

        assert self.tables() == clean

    @staticmethod
    def tables():
        return tiers(), set(Burst.objects.values_list("path_id", "packet_bytes", "measured_at", "received"))
