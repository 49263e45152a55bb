"""Daily completeness of a site's deliveries, compared with counting sequence numbers."""

from collections import defaultdict
from datetime import UTC, date, datetime, time, timedelta

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from monitor.archive.models import DeliveredDay
from monitor.archive.queries.operation import completeness
from monitor.archive.queries.operation.completeness import SiteDay
from monitor.mesh.models import Measurement, MeasurementPeriod, Test
from tests.db.mesh_of_three import HOUR, NOW, batch, burst, delivered, make_mesh
from tests.db.planned_bursts import planned_bursts
from tests.deliveries import store

pytestmark = [pytest.mark.django_db, pytest.mark.timescale]
TODAY = HOUR.date()
TOMORROW = TODAY + timedelta(days=1)
LONG_AGO = date(2020, 1, 1)


@pytest.fixture
def mesh():
    return make_mesh()


def deliver(mesh, sequences, *, days_ago=0, number=1, spool="a"):
    at = HOUR - timedelta(days=days_ago)
    results = [delivered(mesh.slac_cern, burst(1.0, at=at + timedelta(seconds=n)), n) for n in sequences]
    store(mesh.slac.pk, batch(*results, number=number, spool=spool), NOW)


def test_numbers_without_gaps_are_complete(mesh):
    deliver(mesh, range(1, 101))

    (day,) = completeness.by_site_and_day(TODAY, TOMORROW)

    assert day == SiteDay(mesh.slac.pk, TODAY, delivered=100, missing=0)
    assert day.completeness_ratio == 1.0


def test_a_gap_belongs_to_the_day_of_the_result_after_it(mesh):
    deliver(mesh, range(1, 11), days_ago=3, number=1)
    deliver(mesh, [*range(41, 51), 61], days_ago=1, number=2)

    assert completeness.by_site_and_day(LONG_AGO, TOMORROW) == [
        SiteDay(mesh.slac.pk, TODAY - timedelta(days=3), delivered=10, missing=0),
        SiteDay(mesh.slac.pk, TODAY - timedelta(days=1), delivered=11, missing=40),
    ]
    assert completeness.by_site_and_day(TODAY - timedelta(days=1), TOMORROW)[0].completeness_ratio == 11 / 51


def test_results_dropped_before_the_first_delivery_are_missing(mesh):
    deliver(mesh, range(91, 101))

    assert completeness.by_site_and_day(TODAY, TOMORROW)[0].completeness_ratio == 0.1


def test_late_numbers_close_their_gap(mesh):
    deliver(mesh, [1, 2, 5], number=1)
    before = completeness.by_site_and_day(TODAY, TOMORROW)
    deliver(mesh, [3, 4], number=2)

    assert [day.missing for day in before] == [2]
    assert [day.missing for day in completeness.by_site_and_day(TODAY, TOMORROW)] == [0]


def test_refused_results_count_as_received(mesh):
    results = [delivered(mesh.slac_cern, burst(1.0), 1), delivered(99999, burst(1.0), 2)]
    store(mesh.slac.pk, batch(*results), NOW)
    store(mesh.slac.pk, batch(delivered(99999, burst(1.0), 3), number=2), NOW)

    assert completeness.by_site_and_day(TODAY, TOMORROW) == [SiteDay(mesh.slac.pk, TODAY, delivered=3, missing=0)]


@pytest.mark.parametrize("number", [2**40 + 1, 2**53, 2**62, 2**63 - 2])
def test_an_absurd_sequence_number_is_refused_without_a_gap(mesh, number):
    results = [delivered(mesh.slac_cern, burst(1.0, at=HOUR + timedelta(seconds=n)), n) for n in (1, 2)]

    receipt = store(mesh.slac.pk, batch(*results, delivered(mesh.slac_cern, burst(1.0), number)), NOW)
    deliver(mesh, [4])

    assert [refusal.sequence for refusal in receipt.refused] == [number]
    assert "<= 1099511627776" in receipt.refused[0].reason
    assert [day.missing for day in completeness.by_site_and_day(TODAY, TOMORROW)] == [3], "of the other spool"


def test_a_leap_of_the_numbers_is_not_a_gap(mesh):
    far = 4 + completeness.LARGEST_GAP
    numbers = [1, 3, far, far + 2, 2**40]
    results = [
        delivered(mesh.slac_cern, burst(1.0, at=HOUR + timedelta(seconds=place)), number)
        for place, number in enumerate(numbers)
    ]
    store(mesh.slac.pk, batch(*results), NOW)

    (before,) = completeness.by_site_and_day(TODAY, TOMORROW)
    deliver(mesh, [4], spool="5f0c2a", number=2)
    (after,) = completeness.by_site_and_day(TODAY, TOMORROW)

    largest = completeness.LARGEST_GAP
    assert (before.missing, after.missing) == (1 + largest + 1, 1 + largest - 1 + 1)


def test_a_new_spool_counts_from_the_beginning(mesh):
    deliver(mesh, range(1, 11), spool="a")
    deliver(mesh, range(1, 6), spool="b")

    assert completeness.by_site_and_day(TODAY, TOMORROW) == [SiteDay(mesh.slac.pk, TODAY, delivered=15, missing=0)]


def test_only_the_requested_sites_are_returned(mesh):
    deliver(mesh, [1])
    store(mesh.cern.pk, batch(delivered(mesh.cern_slac, burst(1.0), 1)), NOW)

    def sites_of(site_ids):
        return [day.site_id for day in completeness.by_site_and_day(TODAY, TOMORROW, site_ids=site_ids)]

    assert sites_of(None) == sorted([mesh.slac.pk, mesh.cern.pk])
    assert sites_of([mesh.cern.pk]) == [mesh.cern.pk]
    assert sites_of([]) == []


def test_a_day_without_results_has_no_record(mesh):
    assert completeness.by_site_and_day(LONG_AGO, TOMORROW) == []


def test_a_period_that_ends_before_it_begins_is_an_error():
    with pytest.raises(ValueError, match="before it begins"):
        completeness.by_site_and_day(TOMORROW, TODAY)


def test_consecutive_numbers_take_a_row_per_day(mesh):
    for number in range(1, 20):
        deliver(mesh, range(10 * number - 9, 10 * number + 1), number=number)

    assert [(part.lower, part.upper) for part in DeliveredDay.objects.get().sequences] == [(1, 191)]


def counted(days):
    """Delivered and missing by day, number by number: `days` are the numbers that began on each day."""
    day_of = {number: day for day, numbers in days.items() for number in numbers}
    delivered, missing = defaultdict(int), defaultdict(int)
    gap = 0
    for number in range(1, max(day_of, default=0) + 1):
        if number not in day_of:
            gap += 1
            continue
        delivered[day_of[number]] += 1
        missing[day_of[number]] += gap
        gap = 0
    return {day: (delivered[day], missing[day]) for day in delivered}


@settings(max_examples=30, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(
    st.dictionaries(st.integers(1, 40), st.integers(0, 3), min_size=1, max_size=30), st.randoms(use_true_random=False)
)
def test_gaps_equal_a_plain_count_in_any_order_of_arrival(mesh, day_of, random):
    DeliveredDay.objects.all().delete()
    numbers = list(day_of)
    random.shuffle(numbers)

    for number, sequence in enumerate(numbers):
        deliver(mesh, [sequence], days_ago=day_of[sequence], number=number)

    days = defaultdict(set)
    for sequence, days_ago in day_of.items():
        days[TODAY - timedelta(days=days_ago)].add(sequence)
    counts = completeness.by_site_and_day(LONG_AGO, TOMORROW)
    assert {day.day: (day.delivered, day.missing) for day in counts} == counted(days)


@settings(max_examples=30, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(
    st.lists(
        st.tuples(
            st.sampled_from(["slac_cern", "slac_anl", "cern_slac"]),
            st.sampled_from([[], [100], [100, 1000]]),
            st.sampled_from([60, 600, 1800, 7000]),
            st.integers(-5_000, 500),
            st.none() | st.integers(0, 6_000),
        ),
        max_size=6,
    )
)
def test_the_plan_of_a_site_is_the_sum_of_its_paths(mesh, periods):
    MeasurementPeriod.objects.all().delete()
    Measurement.objects.all().delete()
    for number, (path, sizes, every_s, started_min, lasted_min) in enumerate(periods):
        test = Test.objects.get_or_create(name=f"pinger {number}", defaults={"kind": "ping", "every_s": every_s})[0]
        started_at = NOW + timedelta(minutes=started_min)
        MeasurementPeriod.objects.create(
            measurement=Measurement.objects.create(path=getattr(mesh, path), test=test, started_at=started_at),
            packet_bytes=sizes,
            every_s=every_s,
            started_at=started_at,
            ended_at=None if lasted_min is None else started_at + timedelta(minutes=lasted_min),
        )

    coverage = completeness.coverage_by_site_and_day(TODAY - timedelta(days=3), TOMORROW, NOW)

    expected = defaultdict(int)
    for day in (TODAY - timedelta(days=n) for n in range(4)):
        begun = datetime.combine(day, time(), UTC)
        ended = min(begun + timedelta(days=1), HOUR)
        for (path_id, _), bursts in planned_bursts(begun, ended).items():
            site = mesh.cern if path_id == mesh.cern_slac.pk else mesh.slac
            expected[site.pk, day] += bursts
    assert {(row.site_id, row.day): row.bursts_planned for row in coverage} == {
        key: bursts for key, bursts in expected.items() if bursts > 0
    }
