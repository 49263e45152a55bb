"""Hourly summaries, held against a brute-force oracle in NumPy, and the same in whatever order results arrive."""

import logging
from collections import defaultdict
from datetime import UTC, timedelta
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra.django import TestCase

from monitor.archive.ingest import store
from monitor.archive.models import Burst, BurstHour, DirtyHour
from monitor.archive.rollups import roll_up
from monitor.archive.tasks import roll_up as roll_up_task
from probes.contract import Outcome
from tests.db.mesh_of_three import HOUR, NOW, batch, burst, delivered, make_mesh

ROUND_TRIPS = ("rtt_min_ms", "rtt_p25_ms", "rtt_median_ms", "rtt_p75_ms", "rtt_p95_ms", "rtt_max_ms", "rtt_avg_ms")
COLUMNS = [field.name for field in BurstHour._meta.concrete_fields]


def hour_of(moment):
    return moment.astimezone(UTC).replace(minute=0, second=0, microsecond=0)


def oracle(results):
    """The summaries of these delivered bursts, one value at a time."""
    groups = defaultdict(list)
    for one in results:
        groups[one.path_id, one.result.packet_bytes, hour_of(one.result.started_at)].append(one)
    return {key: _summary(members) for key, members in groups.items()}


def _summary(members):
    own = [one.result for one in members if one.during_test]
    rest = [one.result for one in members if not one.during_test]
    measured = [result for result in rest if result.outcome == Outcome.MEASURED]
    rtts = np.array([rtt for result in measured for rtt in result.rtts_ms if rtt is not None], dtype=np.float32)
    differences = []
    for result in measured:
        pairs = [pair for pair in pairwise(result.rtts_ms) if None not in pair]
        differences += [float(np.float32(later)) - float(np.float32(earlier)) for earlier, later in pairs]
    sent = sum(result.sent for result in measured)
    lost = sent - len(rtts)
    expected = {
        "bursts": len(measured),
        "bursts_all_lost": sum(1 for result in measured if set(result.rtts_ms) == {None}),
        "bursts_none_lost": sum(1 for result in measured if None not in result.rtts_ms),
        "bursts_during_test": len(own),
        "bursts_not_measured": len(rest) - len(measured),
        "sent": sent,
        "received": len(rtts),
        "duplicates": sum(result.duplicates for result in measured),
        "reordered": sum(result.reordered for result in measured),
        "ipdv_ms": float(np.subtract(*np.percentile(differences, [75, 25]))) if differences else None,
    }
    if len(rtts):
        loss_ratio = lost / sent if lost else min(1.0, 3 / sent)
        average_ms = float(rtts.astype(np.float64).mean())
        quantiles = np.percentile(rtts.astype(np.float64), [0, 25, 50, 75, 95, 100])
        expected |= dict(zip(ROUND_TRIPS, [*quantiles.tolist(), average_ms], strict=True))
        expected["estimate_bps"] = 1460 * 8 / (average_ms / 1000 * loss_ratio**0.5)
        expected["estimate_is_floor"] = lost == 0
    else:
        expected |= dict.fromkeys((*ROUND_TRIPS, "estimate_bps", "estimate_is_floor"))
    return expected


def summaries():
    rows = BurstHour.objects.values_list("path_id", "packet_bytes", "hour", named=False)
    assert rows.count() == len(set(rows))
    return {
        (row["path_id"], row["packet_bytes"], row["hour"]): {
            name: value for name, value in row.items() if name not in ("path_id", "packet_bytes", "hour")
        }
        for row in BurstHour.objects.values(*COLUMNS)
    }


def assert_equals_oracle(results):
    found, expected = summaries(), oracle(results)
    assert found.keys() == expected.keys()
    for key, row in expected.items():
        assert found[key] == {
            name: value if value is None or isinstance(value, (bool, int)) else pytest.approx(value, rel=1e-6, abs=1e-6)
            for name, value in row.items()
        }, key


@pytest.fixture
def mesh(db):
    return make_mesh()


def roll_up_all(limit=5000):
    while roll_up(NOW, limit):
        continue


def test_every_column_of_an_hour_is_what_brute_force_gives(mesh):
    random = np.random.default_rng(20261121)
    results = []
    for number in range(120):
        rtts = [None if random.random() < 0.1 else float(170 + random.gamma(2, 3)) for _ in range(10)]
        made = burst(
            *rtts,
            at=HOUR - timedelta(hours=2) + timedelta(minutes=number, seconds=7),
            packet_bytes=(100, 1000)[number % 2],
            duplicates=int(random.integers(3)),
            reordered=int(random.integers(2)),
        )
        path = mesh.slac_cern if number % 3 else mesh.slac_anl
        results.append(delivered(path, made, number + 1, during_test=number % 17 == 0))
    results.append(delivered(mesh.slac_cern, burst(at=HOUR), 500))
    results.append(delivered(mesh.slac_cern, burst(*[None] * 10, at=HOUR + timedelta(seconds=1)), 501))
    store(mesh.slac.pk, batch(*results), NOW)

    done = roll_up(NOW)

    assert done == 5
    assert not DirtyHour.objects.exists()
    assert_equals_oracle(results)


def test_the_variation_is_of_neighbours_that_both_came_back(mesh):
    results = [delivered(mesh.slac_cern, burst(30.0, None, 10.0, 14.0, 12.0, 20.0))]
    store(mesh.slac.pk, batch(*results), NOW)

    roll_up(NOW)

    # differences 4, -2, 8: quartiles 1 and 6
    assert BurstHour.objects.get().ipdv_ms == pytest.approx(5.0)


def test_an_hour_of_total_loss_has_no_round_trip_and_no_estimate(mesh):
    store(mesh.slac.pk, batch(delivered(mesh.slac_cern, burst(None, None, None))), NOW)

    roll_up(NOW)

    row = BurstHour.objects.get()
    assert (row.bursts, row.bursts_all_lost, row.sent, row.received) == (1, 1, 3, 0)
    assert {getattr(row, name) for name in (*ROUND_TRIPS, "ipdv_ms", "estimate_bps", "estimate_is_floor")} == {None}


def test_an_hour_that_could_not_be_measured_is_no_loss(mesh):
    store(mesh.slac.pk, batch(delivered(mesh.slac_cern, burst())), NOW)

    roll_up(NOW)

    row = BurstHour.objects.get()
    assert (row.bursts, row.bursts_not_measured, row.sent, row.received) == (0, 1, 0, 0)


def test_bursts_during_our_own_tests_are_counted_and_left_out(mesh):
    results = (
        delivered(mesh.slac_cern, burst(500.0, None, at=HOUR), 1, during_test=True),
        delivered(mesh.slac_cern, burst(10.0, 10.0, at=HOUR + timedelta(minutes=1)), 2),
    )
    store(mesh.slac.pk, batch(*results), NOW)

    roll_up(NOW)

    row = BurstHour.objects.get()
    assert (row.bursts, row.bursts_during_test, row.sent, row.received, row.rtt_max_ms) == (1, 1, 2, 2, 10.0)


def test_a_late_burst_opens_its_hour_again_and_no_other(mesh):
    early = delivered(mesh.slac_cern, burst(10.0, at=HOUR - timedelta(minutes=30)), 1)
    now = delivered(mesh.slac_cern, burst(10.0, at=HOUR), 2)
    store(mesh.slac.pk, batch(early, now), NOW)
    roll_up_all()
    late = delivered(mesh.slac_cern, burst(30.0, None, at=HOUR - timedelta(minutes=20)), 3)

    store(mesh.slac.pk, batch(late, number=2), NOW)

    assert roll_up(NOW) == 1
    assert_equals_oracle([early, now, late])


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


def test_the_task_goes_on_until_nothing_is_dirty(mesh, monkeypatch):
    monkeypatch.setattr("monitor.archive.tasks.HOURS_AT_ONCE", 2)
    results = [delivered(mesh.slac_cern, burst(1.0, at=HOUR - timedelta(hours=n)), n + 1) for n in range(5)]
    store(mesh.slac.pk, batch(*results), NOW)

    assert roll_up_task() == 5

    assert not DirtyHour.objects.exists()


def test_a_rollup_that_lags_says_so(mesh, caplog):
    store(mesh.slac.pk, batch(delivered(mesh.slac_cern, burst(1.0))), NOW)

    with caplog.at_level(logging.WARNING):
        roll_up(NOW + timedelta(minutes=10))

    assert "summaries lag 600 s behind" in caplog.text


def test_a_rollup_takes_three_statements_whatever_the_number_of_hours(mesh, django_assert_num_queries):
    results = [delivered(mesh.slac_cern, burst(1.0, at=HOUR - timedelta(hours=n)), n + 1) for n in range(50)]
    store(mesh.slac.pk, batch(*results), NOW)

    with django_assert_num_queries(5):  # three statements between SAVEPOINT and RELEASE
        roll_up(NOW)


rtts_ms = st.one_of(st.none(), st.floats(2**-10, 500.0, width=32))
moments = st.integers(0, 8).map(lambda step: HOUR - timedelta(hours=1) + timedelta(minutes=10 * step))
some_bursts = st.builds(
    lambda rtts, at, size: burst(*rtts, at=at, packet_bytes=size),
    st.lists(rtts_ms, max_size=6),
    moments,
    st.sampled_from([100, 1000]),
)


class AnyOrder(TestCase):
    """Deliveries in any order, doubled, in any parts, with roll-ups in between, end in the same tables."""

    @given(data=st.data())
    @settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
    def test_any_order_of_deliveries_and_rollups_ends_in_the_same_tables(self, data):
        mesh = make_mesh()
        made = data.draw(
            st.lists(
                st.tuples(some_bursts, st.sampled_from([mesh.slac_cern, mesh.slac_anl]), st.booleans()),
                min_size=1,
                max_size=12,
                unique_by=lambda one: (one[1].pk, one[0].packet_bytes, one[0].started_at),
            )
        )
        results = [
            delivered(path, result, sequence, during_test=own) for sequence, (result, path, own) in enumerate(made, 1)
        ]
        store(mesh.slac.pk, batch(*results), NOW)
        roll_up_all()
        clean = self.tables()
        assert_equals_oracle(results)
        Burst.objects.all().delete()
        BurstHour.objects.all().delete()

        numbers = st.integers(0, len(results) - 1)
        parts = data.draw(st.lists(st.lists(numbers, min_size=1, max_size=5), max_size=10))
        for number, part in enumerate([*parts, range(len(results))], 2):
            store(mesh.slac.pk, batch(*(results[index] for index in part), number=number), NOW)
            roll_up(NOW, limit=data.draw(st.integers(1, 3)))
        roll_up_all(limit=1)

        assert self.tables() == clean

    @staticmethod
    def tables():
        return summaries(), set(Burst.objects.values_list("path_id", "packet_bytes", "measured_at", "received"))
