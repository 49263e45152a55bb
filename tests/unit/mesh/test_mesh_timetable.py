"""Placement of throughput tests: at most one at a time on a host, one per period, and as early as possible when new."""

from dataclasses import replace
from itertools import combinations, pairwise, permutations

from hypothesis import given
from hypothesis import strategies as st

from monitor.mesh.schedule.timetable import ExistingSlot, Job, Timetable, arrange, place

NOW_S = 1_800_000_000


def full_mesh(hosts, every_s, length_s, *, is_new=False):
    pairs = permutations(range(1, hosts + 1), 2)
    return [
        Job(number, source, destination, every_s, length_s, is_new=is_new)
        for number, (source, destination) in enumerate(pairs, 1)
    ]


def overlaps(placements):
    """Pairs of placements that share a host and overlap in time, by comparing all pairs."""
    return [
        (a, b)
        for a, b in combinations([placement for placement in placements if placement.fits], 2)
        if set(a.job.hosts) & set(b.job.hosts) and a.start_s < b.end_s and b.start_s < a.end_s
    ]


@st.composite
def jobs(draw):
    hosts = draw(st.integers(2, 6))
    pairs = list(permutations(range(hosts), 2))
    chosen = draw(st.lists(st.sampled_from(pairs), max_size=25))
    return [
        Job(
            number,
            *pair,
            every_s=draw(st.sampled_from([60, 300, 450, 3600, 7200])),
            length_s=draw(st.integers(6, 60)),
            planned=frozenset(draw(st.sets(st.integers(0, 2)))),
            is_new=draw(st.booleans()),
        )
        for number, pair in enumerate(chosen)
    ]


@given(jobs(), st.integers(NOW_S, NOW_S + 7200), st.integers(0, 3600))
def test_a_host_never_has_two_tests_at_a_time(jobs, from_s, horizon_s):
    timetable = Timetable()
    timetable.take([1, 2], from_s + 10, from_s + 100)

    placements = place(jobs, timetable, from_s, from_s + horizon_s)

    assert overlaps(placements) == []
    for placement in placements:
        if placement.fits:
            assert placement.start_s >= from_s
            assert (
                not {1, 2} & set(placement.job.hosts)
                or placement.end_s <= from_s + 10
                or placement.start_s >= from_s + 100
            )
            assert (
                placement.job.is_new
                or placement.start_s // placement.job.every_s == (placement.end_s - 1) // placement.job.every_s
            )


@given(jobs(), st.integers(NOW_S, NOW_S + 7200))
def test_a_period_has_a_slot_or_is_reported_as_having_no_room(jobs, from_s):
    placements = place(jobs, Timetable(), from_s, from_s + 3600)

    periods = [(placement.job.measurement_id, placement.start_s // placement.job.every_s) for placement in placements]
    assert len(periods) == len(set(periods))
    for job in jobs:
        for period in range(from_s // job.every_s + 1, (from_s + 3600) // job.every_s):
            assert (job.measurement_id, period) in periods


@given(jobs(), st.integers(NOW_S, NOW_S + 7200))
def test_a_planned_slot_is_not_planned_again(jobs, from_s):
    first = place(jobs, Timetable(), from_s, from_s + 3600)
    timetable = Timetable()
    planned = {job.measurement_id: set(job.planned) for job in jobs}
    for placement in first:
        planned[placement.job.measurement_id].add(placement.start_s // placement.job.every_s)
        if placement.fits:
            timetable.take(placement.job.hosts, placement.start_s, placement.end_s)
    again = [
        Job(job.measurement_id, *job.hosts, job.every_s, job.length_s, frozenset(planned[job.measurement_id]))
        for job in jobs
    ]

    second = place(again, timetable, from_s, from_s + 3600)

    assert [placement for placement in second if placement.fits] == []


def test_five_sites_are_spread_evenly_over_the_hour():
    placements = place(full_mesh(5, 3600, 15), Timetable(), NOW_S, NOW_S + 3600)

    starts = sorted(placement.start_s for placement in placements)
    assert len(starts) == 20
    assert all(178 <= b - a <= 180 for a, b in pairwise(starts))


def test_a_new_mesh_has_its_first_tests_within_minutes():
    placements = place(full_mesh(5, 3600, 15, is_new=True), Timetable(), NOW_S, NOW_S + 3600)

    first = {placement.job.measurement_id: placement.end_s for placement in reversed(placements)}
    assert min(placement.start_s for placement in placements) == NOW_S
    # 20 tests of 15 s, at most two at a time among five hosts.
    assert max(first.values()) <= NOW_S + 20 * 15


def test_the_next_slot_has_the_same_place_in_the_next_period():
    jobs = full_mesh(4, 600, 15)

    placements = place(jobs, Timetable(), NOW_S, NOW_S + 3600)

    for job in jobs:
        starts = sorted(placement.start_s for placement in placements if placement.job == job)
        assert {b - a for a, b in pairwise(starts)} == {600}


def test_a_test_moves_to_the_next_free_time_of_its_period():
    timetable = Timetable()
    timetable.take([2], NOW_S - 5, NOW_S + 40)

    placements = place([Job(1, 1, 2, 60, 15)], timetable, NOW_S, NOW_S + 60)

    assert [placement.start_s - NOW_S for placement in placements] == [40]


def test_a_full_period_is_reported():
    timetable = Timetable()
    timetable.take([2], NOW_S, NOW_S + 50)

    placements = place([Job(1, 1, 2, 60, 15)], timetable, NOW_S, NOW_S + 60)

    assert [(placement.start_s, placement.fits) for placement in placements] == [(NOW_S, False)]


def test_all_pairs_of_100_hosts_fit_at_two_thirds_of_the_time():
    # Shannon (1949): a multigraph of degree d can be coloured with 3d/2 colours. 198 tests of 12 s fill 66% of an hour.
    placements = place(full_mesh(100, 3600, 12), Timetable(), NOW_S, NOW_S + 3600)

    assert len(placements) == 9900
    assert all(placement.fits for placement in placements)


def test_first_tests_of_many_hosts_run_in_parallel():
    placements = place(full_mesh(20, 7200, 15, is_new=True), Timetable(), NOW_S, NOW_S + 60)

    # 380 tests of 15 s, at best ten at a time among twenty hosts.
    assert max(placement.end_s for placement in placements) - NOW_S <= 1.1 * (380 * 15 / 10)


def test_hosts_that_share_an_uplink_take_turns():
    pair = [Job(1, 1, 3, 600, 50, uplink_ids=(9,)), Job(2, 2, 4, 600, 50, uplink_ids=(9,))]

    together = place(pair, Timetable(), NOW_S, NOW_S + 600)

    (first, second) = sorted(placement.start_s for placement in together)
    assert second >= first + 50
    apart = Timetable()
    apart.take([-9], NOW_S, NOW_S + 600)
    assert [placement.fits for placement in place(pair, apart, NOW_S, NOW_S + 600)] == [False, False]


@given(st.integers(0, 600), st.integers(0, 600))
def test_a_slot_is_delayed_by_at_most_its_slip(taken_s, slip_s):
    timetable = Timetable()
    timetable.take([2], NOW_S, NOW_S + taken_s)

    [placement] = place([Job(1, 1, 2, 1200, 15, slip_s=slip_s)], timetable, NOW_S, NOW_S + 1200)

    # By hand: without other tests it starts with its period, and with them as soon as its host is free.
    assert (placement.fits, placement.start_s - NOW_S) == ((True, taken_s) if taken_s <= slip_s else (False, 0))


@st.composite
def jobs_with_existing_slots(draw):
    """A few jobs of three priorities, with the existing slots of some of them."""
    pairs = draw(st.lists(st.sampled_from(list(permutations(range(3), 2))), min_size=2, max_size=6))
    all_jobs = [
        Job(number, *pair, every_s=600, length_s=draw(st.integers(20, 120)), priority=draw(st.integers(0, 2)))
        for number, pair in enumerate(pairs)
    ]
    taken, standing = Timetable(), []
    for job in reversed(all_jobs):
        for placement in place([job], taken, NOW_S, NOW_S + 1200):
            if placement.fits:
                standing.append(
                    ExistingSlot(
                        len(standing), job.measurement_id, job.takes, placement.start_s, placement.end_s, job.priority
                    )
                )
    kept_slots = draw(st.integers(0, 2 ** len(standing) - 1))
    from_s = NOW_S + draw(st.integers(0, 500))
    standing = [
        placement for placement in standing if kept_slots >> placement.slot_id & 1 and placement.start_s >= from_s
    ]
    return [replace(job, planned=_periods(job, standing)) for job in all_jobs], standing, from_s


def _periods(job, standing):
    return frozenset(
        placement.start_s // job.every_s for placement in standing if placement.measurement_id == job.measurement_id
    )


@given(jobs_with_existing_slots())
def test_slots_move_only_for_higher_priority_and_are_never_lost(given_jobs):
    jobs, standing, from_s = given_jobs
    priority = {job.measurement_id: job.priority for job in jobs}
    every_s = {job.measurement_id: job.every_s for job in jobs}

    arrangement = arrange(jobs, Timetable(), from_s, NOW_S + 1200, standing)

    stays = [placement for placement in standing if placement not in arrangement.moved]
    placed = [
        (placement.job.takes, placement.start_s, placement.end_s)
        for placement in arrangement.placements
        if placement.fits
    ]
    everything = placed + [(stay.takes, stay.start_s, stay.end_s) for stay in stays]
    assert not [(a, b) for a, b in combinations(everything, 2) if set(a[0]) & set(b[0]) and a[1] < b[2] and b[1] < a[2]]
    for moved in arrangement.moved:
        for_whom = [
            placement.job
            for placement in arrangement.placements
            if placement.fits
            and set(placement.job.takes) & set(moved.takes)
            and placement.start_s < moved.end_s
            and moved.start_s < placement.end_s
        ]
        assert any(job.priority > priority[moved.measurement_id] for job in for_whom)
        period = moved.start_s // every_s[moved.measurement_id]
        again = [
            placement
            for placement in arrangement.placements
            if placement.job.measurement_id == moved.measurement_id
            and placement.start_s // placement.job.every_s == period
        ]
        assert len(again) == 1, "it has another time, or is reported as having none"
