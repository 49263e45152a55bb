import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from probes.packets.engine.schedule import LATE_NS, Schedule, random_phases_ns

SECOND = 1_000_000_000


@given(st.integers(1, 60), st.integers(1, 8), st.integers(1, 3 * SECOND), st.integers(0, 2**32 - 1))
def test_each_target_keeps_its_spacing_in_a_phase_of_its_own(targets, turns, spacing_ns, seed):
    phases_ns = random_phases_ns(targets, spacing_ns, np.random.default_rng(seed))

    schedule = Schedule(0, phases_ns, turns, spacing_ns)
    due_ns = [schedule.due_at_ns(packet) for packet in range(schedule.total)]

    assert due_ns == sorted(due_ns)
    assert due_ns[0] >= 0
    assert due_ns[-1] < turns * spacing_ns
    for packet in range(targets, schedule.total):
        assert due_ns[packet] - due_ns[packet - targets] == spacing_ns
    assert all(target * spacing_ns <= targets * (phase + 1) for target, phase in enumerate(phases_ns.tolist()))


@given(st.integers(1, 20), st.integers(1, 5), st.integers(1, SECOND), st.integers(-SECOND, 6 * SECOND))
def test_packets_due_agree_with_each_packets_own_time(targets, turns, spacing_ns, now_ns):
    schedule = Schedule(0, random_phases_ns(targets, spacing_ns, np.random.default_rng(1)), turns, spacing_ns)

    due = schedule.due(now_ns)

    assert due == sum(schedule.due_at_ns(packet) <= now_ns for packet in range(schedule.total))


def test_a_late_wake_up_postpones_the_rest_without_bunching():
    schedule = Schedule(0, random_phases_ns(100, SECOND, np.random.default_rng(1)), 10, SECOND)
    planned_ns = [schedule.due_at_ns(packet) for packet in range(schedule.total)]
    now_ns = planned_ns[50] + 3 * SECOND

    schedule.postpone(50, now_ns)

    assert schedule.due(now_ns) == 51
    assert [schedule.due_at_ns(packet) for packet in range(50, 1000)] == [t + 3 * SECOND for t in planned_ns[50:]]


def test_a_small_delay_is_caught_up():
    schedule = Schedule(0, random_phases_ns(100, SECOND, np.random.default_rng(1)), 10, SECOND)
    planned_ns = schedule.due_at_ns(50)

    schedule.postpone(50, planned_ns + LATE_NS)

    assert schedule.due_at_ns(50) == planned_ns


def test_without_spacing_all_packets_are_due_at_once():
    assert Schedule(5, random_phases_ns(3, 0, np.random.default_rng(1)), 4, 0).due(5) == 12
