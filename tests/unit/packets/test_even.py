"""Even cycles: the spread of their requests, their results by size, and the chance that an episode is seen.

The expected chances are those of an independent simulation with 200,000 draws each (ten packets a minute).
"""

from __future__ import annotations

from itertools import pairwise
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from probes.contract import Load, Target
from probes.packets.engine import even_cycle
from probes.packets.engine import session as session_module
from probes.packets.engine.even import EvenSchedule, even_times
from probes.packets.engine.packet_outcomes import PacketTable, SendPattern
from probes.packets.engine.schedule import Schedule, random_phases_ns
from probes.packets.engine.session import PingSession
from probes.packets.spec import JITTER_RATIO, PingSpec, PingTarget
from probes.ping import kind as ping
from probes.ping.limits import PingLimits
from probes.ping.spec import PingTask
from probes.site.limits.limits import Limits
from probes.tcp_ping import kind as tcp_ping
from probes.tcp_ping.probe import _due_ns
from probes.tcp_ping.spec import TcpPingSpec, TcpPingTarget, TcpPingTask
from tests.unit.packets.test_pacing import Clock, Wire

SECOND = 1_000_000_000
MINUTE = 60
CYCLES = 40_000
EPISODES = [
    (5, 1.0, 0.23, 0.83),
    (10, 1.0, 0.32, 1.0),
    (10, 0.5, 0.28, 0.67),
    (30, 0.5, 0.61, 0.97),
    (30, 0.1, 0.34, 0.41),
]
"""Length in s, loss, and the chances with bursts and with even spacing."""


def addresses(count: int) -> list[tuple[str, int]]:
    return [(f"192.0.2.{number}", 0) for number in range(1, count + 1)]


def even_pattern(count: int = 10, spacing_s: float = 6.0, sizes: tuple[int, ...] = (100,)) -> SendPattern:
    return SendPattern(sizes, count, spacing_s, 2.0, is_even=True)


@given(st.integers(1, 30), st.integers(1, 8), st.integers(1, 3), st.integers(0, 2**32 - 1))
def test_each_packet_lies_near_the_beginning_of_its_part(targets, count, sizes, seed):
    pattern = even_pattern(count, 1.0, (100, 200, 300)[:sizes])

    times = even_times(4, addresses(targets), pattern, np.random.default_rng(seed))

    turns, ranks = np.divmod(times.cells, targets)
    assert sorted(times.cells.tolist()) == list(range(targets * count * sizes))
    assert (np.diff(times.due_ns) >= 0).all()
    for rank in range(targets):
        within_s = times.due_ns[ranks == rank] / SECOND - np.arange(count * sizes)
        assert turns[ranks == rank].tolist() == list(range(count * sizes))
        assert within_s.max() - within_s.min() <= JITTER_RATIO + 1e-6


def test_repeated_cycles_leave_no_pause():
    random = np.random.default_rng(1)
    cycles = [even_times(4, addresses(1), even_pattern(), random).due_ns / SECOND + k * MINUTE for k in range(500)]

    gaps_s = np.diff(np.concatenate(cycles))

    assert gaps_s.min() >= 6 * (1 - JITTER_RATIO) - 1e-6
    assert gaps_s.max() <= 6 * (1 + JITTER_RATIO) + 1e-6
    assert gaps_s.max() < 10
    assert len(set(np.round(gaps_s, 6))) > 4000


def test_several_targets_load_the_period_evenly():
    times = even_times(4, addresses(200), even_pattern(), np.random.default_rng(1))

    per_second = np.histogram(times.due_ns / SECOND, np.arange(6, 61))[0]

    # Drawn at random, 33 a second have a standard deviation below 6.
    assert per_second.sum() == pytest.approx(2000 * 54 / 60, rel=0.05)
    assert 12 < per_second.min() <= per_second.max() < 56


def bursts_of_minutes(random: np.random.Generator) -> np.ndarray:
    """The send times of `CYCLES` PingER bursts, from the schedule itself."""
    schedule = Schedule(0, random_phases_ns(1, SECOND, random), 10, SECOND)
    burst_s = np.array([schedule.due_at_ns(packet) for packet in range(10)]) / SECOND
    return (np.arange(CYCLES)[:, np.newaxis] * MINUTE + burst_s).ravel()


def even_minutes(random: np.random.Generator) -> np.ndarray:
    """The send times of `CYCLES` even cycles, from the schedule itself."""
    sent_s = []
    for cycle in range(CYCLES):
        times = even_times(4, addresses(1), even_pattern(), random)
        schedule = EvenSchedule(cycle * MINUTE * SECOND, times.due_ns, 6 * SECOND)
        sent_s += [schedule.due_at_ns(packet) / SECOND for packet in range(10)]
    return np.array(sent_s)


@pytest.fixture(scope="module")
def sent_s() -> dict[str, np.ndarray]:
    random = np.random.default_rng(20)
    return {"burst": bursts_of_minutes(random), "even": even_minutes(random)}


@pytest.mark.parametrize(("length_s", "loss", "burst", "even"), EPISODES)
def test_the_chance_that_an_episode_costs_a_probe_is_as_simulated(sent_s, length_s, loss, burst, even):
    random = np.random.default_rng(21)
    begins_s = random.uniform(MINUTE, (CYCLES - 1) * MINUTE, 100_000)

    for pattern, expected in (("burst", burst), ("even", even)):
        times_s = sent_s[pattern]
        packets = np.searchsorted(times_s, begins_s + length_s) - np.searchsorted(times_s, begins_s)
        seen = 1 - np.mean((1 - loss) ** packets)
        # Half of the last digit, and the standard error of both simulations.
        assert seen == pytest.approx(expected, abs=0.011), pattern


def test_an_outage_of_10_s_always_costs_an_even_probe(sent_s):
    begins_s = np.random.default_rng(22).uniform(MINUTE, (CYCLES - 1) * MINUTE, 100_000)

    packets = np.searchsorted(sent_s["even"], begins_s + 10) - np.searchsorted(sent_s["even"], begins_s)

    assert packets.min() >= 1


@given(st.integers(1, 6), st.integers(1, 4), st.integers(1, 3), st.integers(0, 2**32 - 1))
def test_results_are_in_the_order_of_targets_and_sizes(targets, count, sizes, seed):
    pattern = even_pattern(count, 1.0, (100, 200, 300)[:sizes])
    times = even_times(4, addresses(targets), pattern, np.random.default_rng(seed))
    table = PacketTable(targets, pattern, times.cells)
    table.next = table.total
    turns, ranks = table.places(np.arange(table.total))
    # Each packet's hop limit says which packet it is: its target, its size, and its number within the size.
    table.hop_limit[:] = 1000 * ranks + 100 * (turns % sizes) + turns // sizes
    table.replies[:] = 1

    results = table.results(np.arange(targets), SECOND, 0)

    assert table.packets_at(turns, ranks).tolist() == list(range(table.total))
    assert [table.turn_of(packet) for packet in range(table.total)] == turns.tolist()
    by_size = results.hop_limit.reshape(targets, sizes, count)
    for target in range(targets):
        for size in range(sizes):
            assert by_size[target, size].tolist() == [1000 * target + 100 * size + k for k in range(count)]


def test_a_late_wake_up_postpones_the_rest_of_an_even_cycle():
    times = even_times(4, addresses(5), even_pattern(), np.random.default_rng(1))
    schedule = EvenSchedule(0, times.due_ns, 6 * SECOND)
    planned_ns = [schedule.due_at_ns(packet) for packet in range(schedule.total)]
    now_ns = planned_ns[7] + 3 * SECOND

    schedule.postpone(7, now_ns)

    assert schedule.due(now_ns) == 8
    assert [schedule.due_at_ns(packet) for packet in range(7, 50)] == [at_ns + 3 * SECOND for at_ns in planned_ns[7:]]


def test_a_session_sends_an_even_cycle_at_its_times():
    clock = Clock()
    wire = Wire(clock)
    wire.room = 10**6
    began_ns = clock.now_ns
    with (
        patch.object(session_module, "time", clock),
        patch("probes.packets.engine.sender.time", clock),
        patch("probes.packets.engine.receiver.time", clock),
    ):
        session = PingSession(wire, addresses(3), even_pattern(count=5, spacing_s=1.0, sizes=(100, 200)))
        planned_ns = [session._schedule.due_at_ns(packet) for packet in range(30)]
        while len(wire.sent_ns) < 30:
            session.step()
            clock.now_ns = max(clock.now_ns, session.wake_at_ns())

    assert session.results().sent.all()
    assert wire.sent_ns[0] >= began_ns
    late_ms = [(sent - planned) / 1e6 for sent, planned in zip(wire.sent_ns, planned_ns, strict=True)]
    # A packet waits for the batch, 50 ms at most, and for a tick of the loop.
    assert -1 < min(late_ms) <= max(late_ms) < 60
    assert all(later >= earlier for earlier, later in pairwise(wire.sent_ns))


def even_task(every_s: int = 60, count: int = 10) -> PingTask:
    spec = PingSpec(
        targets=(PingTarget(address="192.0.2.1", path_id=1),),
        packet_bytes=(100, 1000),
        count=count,
        spacing_s=every_s / (2 * count),
        priming_bytes=None,
        pattern="even",
    )
    return PingTask(test="even", every_s=every_s, spec=spec)


HANDSHAKES = TcpPingSpec(
    targets=(TcpPingTarget(address="192.0.2.1", path_id=1),), port=443, count=10, spacing_s=6.0, pattern="even"
)


@pytest.mark.parametrize(("kind", "spec"), [(ping.KIND, even_task().spec), (tcp_ping.KIND, HANDSHAKES)])
def test_an_even_cycle_begins_soon_after_its_time_however_late_it_is_taken_up(kind, spec):
    for since_due_s, waits_s in ((0.0, 4.0), (1.5, 2.5), (4.0, 0.0), (30.0, 0.0)):
        slept: list[float] = []
        with (
            patch.object(even_cycle.time, "time", lambda at=since_due_s: 1_700_000_040.0 // 60 * 60 + at),
            patch.object(even_cycle.time, "sleep", slept.append),
        ):
            kind.run(_NoProbe(), spec, None, list)
        assert slept == [pytest.approx(waits_s)]


class _NoProbe:
    def run(self, *_: object) -> tuple[()]:
        return ()


def test_an_even_cycle_has_time_for_its_lead_period_and_last_replies():
    task = even_task()

    spec = ping.KIND.spec(task, ping.KIND.targets(task), Limits())

    # 4 s until it begins, 60 s and the jitter of the last request, 2 s timeout and 1 s for late replies.
    assert ping.KIND.length_s(task) == pytest.approx(4 + 60 + 1 + 2 + 1)
    assert ping.KIND.length_s(task) < ping.KIND.longest_s(spec) < 2 * task.every_s
    assert not spec.check_rate_limit
    assert spec.requests == 20


def test_handshakes_of_even_cycles_leave_no_pause_and_may_overlap():
    task = TcpPingTask(test="even", every_s=60, spec=HANDSHAKES)
    targets = [("192.0.2.1", 0), ("192.0.2.2", 0)]
    cycles = [_due_ns(HANDSHAKES, 4, targets) / SECOND + number * MINUTE for number in range(200)]

    assert cycles[0].shape == (2, 10)
    for sent_s in np.concatenate(cycles, axis=1):
        gaps_s = np.diff(sent_s)
        assert 6 * (1 - JITTER_RATIO) - 1e-6 <= gaps_s.min() <= gaps_s.max() <= 6 * (1 + JITTER_RATIO) + 1e-6
    # 4 s until it begins, 60 s, the jitter of the last handshake, and its timeout.
    assert tcp_ping.KIND.length_s(task) == pytest.approx(4 + 60 + 2 + 0.9)
    assert tcp_ping.KIND.overlaps(task)


def test_the_limits_count_an_even_cycle_at_its_mean_rate():
    limits = Limits(ping=PingLimits(max_packets_per_s=0.5))
    target = Target(2, "192.0.2.2", 4, PingTarget(address="192.0.2.2"))
    running = {"even": (even_task(), ping.KIND.targets(even_task()))}

    def verdict(task: PingTask) -> str | None:
        [rule] = ping.KIND.forbids(limits, task, [target], Load(running, lambda address: 0))
        return rule

    assert verdict(even_task(every_s=200)) is None
    assert "max_packets_per_s" in str(verdict(even_task(every_s=60)))
