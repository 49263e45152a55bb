"""The emulation of a path (delay, rate, queue, policer, loss, jitter, reordering), driven by a simulated clock."""

from __future__ import annotations

import itertools
import math
import random
import statistics

import pytest
from hypothesis import given
from hypothesis import strategies as st

from probes.lab.emulated_path import EmulatedPath
from probes.lab.settings import PathSettings

START_S = 1000.0


def emulated(seed: int = 1, **settings: float | None) -> EmulatedPath:
    values = {"delay_ms": 0.0, **settings}
    return EmulatedPath("a", "b", PathSettings(**values), random.Random(seed))  # type: ignore[arg-type]


def test_a_path_without_impairments_only_delays() -> None:
    path = emulated(delay_ms=87.5)

    assert path.admit(START_S, 1500) == (pytest.approx(START_S + 0.0875),)
    assert (path.counts.received, path.counts.dropped_loss, path.counts.dropped_queue) == (1, 0, 0)


def test_the_rate_spaces_packets_that_arrive_together() -> None:
    # 1,250 bytes at 10 Mbit/s take 1 ms.
    path = emulated(delay_ms=10, rate_mbps=10, queue_ms=100)

    exits = [path.admit(START_S, 1250)[0] - START_S for _ in range(3)]

    assert exits == pytest.approx([0.011, 0.012, 0.013])


def test_a_full_queue_drops_the_next_packet() -> None:
    # One packet is on the wire; the queue of 5,000 bytes holds four of 1,000 bytes and the rest of the first: the sixth
    # does not fit.
    path = emulated(rate_mbps=8, queue_bytes=5000)

    accepted = [bool(path.admit(START_S, 1000)) for _ in range(7)]

    assert accepted == [True] * 5 + [False] * 2
    assert path.counts.dropped_queue == 2
    assert path.counts.dropped_loss == 0
    # After 1 ms one packet has left, so one more fits.
    assert [bool(path.admit(START_S + 0.001, 1000)) for _ in range(2)] == [True, False]


def test_an_idle_link_takes_a_packet_larger_than_its_queue() -> None:
    path = emulated(rate_mbps=0.1, queue_ms=1)

    assert path.admit(START_S, 1500) == (pytest.approx(START_S + 0.12),)


def test_a_policer_passes_a_burst_of_its_depth_then_its_rate() -> None:
    # 8 Mbit/s fill a packet of 1,000 bytes in 1 ms, the bucket holds five.
    path = emulated(policer_mbps=8, policer_bytes=5000)

    at_once = [bool(path.admit(START_S, 1000)) for _ in range(8)]
    every_half_ms = [bool(path.admit(START_S + n * 0.00051, 1000)) for n in range(1, 9)]

    assert at_once == [True] * 5 + [False] * 3
    assert every_half_ms == [False, True] * 4
    assert path.counts.dropped_policer == 7
    assert path.counts.dropped_queue == path.counts.dropped_loss == 0


def test_a_shallow_policer_drops_by_size_alone() -> None:
    path = emulated(policer_mbps=1000, policer_bytes=600)

    passed = [bool(path.admit(START_S + n * 0.001, size)) for n, size in enumerate((128, 600, 601, 1028) * 25)]

    assert passed == [True, True, False, False] * 25


def test_a_packet_with_a_cell_too_many_is_lost_and_costs_tokens() -> None:
    # Packets of 10 cells; the bucket holds 25 and is not refilled meanwhile: 5 cells of the third packet pass, the
    # packet is lost.
    path = emulated(policer_mbps=0.001, policer_bytes=25 * 48, policer_cell_bytes=48)

    passed = [bool(path.admit(START_S, 480)) for _ in range(3)]
    one_cell = path.admit(START_S, 40)

    assert passed == [True, True, False]
    assert one_cell == ()
    assert path.counts.dropped_policer == 2


@pytest.mark.parametrize(("share", "lost"), [(0.99, 0), (1.03, 30)])
def test_3_percent_above_the_contract_loses_a_cell_per_packet(share: float, lost: int) -> None:
    # 32 cells of 48 bytes make a packet of 1,536. At 3% above the contract, 30 of 1,024 cells are too many, and each
    # costs a packet, except for the two that the bucket holds and for a packet that loses two.
    path = emulated(rate_mbps=10 * share, queue_ms=1000, policer_mbps=10, policer_bytes=2 * 48, policer_cell_bytes=48)

    passed = sum(bool(path.admit(START_S, 1536)) for _ in range(32))

    assert 32 - passed == pytest.approx(lost, abs=3)
    assert path.counts.dropped_policer == 32 - passed


def test_loss_is_independent_and_has_the_configured_ratio() -> None:
    path = emulated(loss_ratio=0.1)

    lost = [path.admit(START_S + number, 100) == () for number in range(20_000)]

    # Four standard deviations of a binomial count; the same for pairs of consecutive losses.
    assert abs(sum(lost) - 2000) < 4 * math.sqrt(20_000 * 0.1 * 0.9)
    pairs = sum(a and b for a, b in itertools.pairwise(lost))
    assert abs(pairs - 200) < 4 * math.sqrt(200)
    assert path.counts.dropped_loss == sum(lost)


def test_jitter_is_within_its_bounds_with_mean_zero() -> None:
    path = emulated(delay_ms=50, jitter_ms=5)

    offsets = [path.admit(START_S + number, 100)[0] - START_S - number - 0.050 for number in range(5000)]

    assert max(map(abs, offsets)) <= 0.005 + 1e-9
    assert abs(statistics.mean(offsets)) < 0.0002
    assert statistics.stdev(offsets) > 0.0015


def test_dense_traffic_is_not_pushed_to_the_maximum_jitter() -> None:
    path = emulated(delay_ms=50, jitter_ms=5)

    offsets = [path.admit(START_S + n / 1000, 100)[0] - START_S - n / 1000 - 0.050 for n in range(20_000)]

    assert abs(statistics.mean(offsets)) < 0.0005


def test_jitter_moves_without_jumps() -> None:
    path = emulated(delay_ms=50, jitter_ms=5)
    step_s = 0.0001

    exits = [path.admit(START_S + n * step_s, 100)[0] for n in range(10_000)]

    # From one end of ± 5 ms to the other in no less than 20 ms: departures are 0.5 to 1.5 intervals apart.
    steps = [later - earlier for earlier, later in itertools.pairwise(exits)]
    assert min(steps) >= 0.5 * step_s - 1e-9
    assert max(steps) <= 1.5 * step_s + 1e-9


def test_packets_keep_their_order_when_the_delay_decreases() -> None:
    path = emulated(delay_ms=100)
    before = path.admit(START_S, 100)[0]

    path.change(PathSettings(delay_ms=1))

    assert path.admit(START_S + 0.01, 100)[0] == before
    assert path.admit(START_S + 1, 100) == (pytest.approx(START_S + 1.001),)


def test_a_reordered_packet_does_not_delay_the_others() -> None:
    path = emulated(delay_ms=10, reorder_ratio=1.0, reorder_hold_ms=5)
    reordered = path.admit(START_S, 100)[0]
    path.change(PathSettings(delay_ms=10))

    next_one = path.admit(START_S + 0.001, 100)[0]

    assert reordered == pytest.approx(START_S + 0.015)
    assert next_one == pytest.approx(START_S + 0.011)


def test_packets_that_leave_after_later_packets_are_reordered() -> None:
    path = emulated()

    # RFC 4737, section 3.3: 4 and 5 come after 6, they are reordered; 6 and 7 are not.
    for number in (1, 2, 3, 6, 4, 5, 7):
        path.count_forwarded(number, 100)

    assert path.counts.reordered == 2
    assert (path.counts.forwarded, path.counts.forwarded_bytes) == (7, 700)


def test_a_duplicate_leaves_with_its_original() -> None:
    path = emulated(delay_ms=1, duplicate_ratio=1.0)

    exits = path.admit(START_S, 100)

    assert exits == (exits[0], exits[0])
    assert path.counts.duplicated == 1


SETTINGS = st.builds(
    PathSettings,
    delay_ms=st.floats(0, 200),
    jitter_ms=st.floats(0, 50),
    loss_ratio=st.sampled_from([0.0, 0.1, 1.0]),
    rate_mbps=st.one_of(st.none(), st.floats(0.1, 100)),
    queue_ms=st.floats(0, 200),
    policer_mbps=st.one_of(st.none(), st.floats(0.1, 100)),
    policer_cell_bytes=st.sampled_from([0, 48]),
    duplicate_ratio=st.sampled_from([0.0, 0.5]),
)
ARRIVALS = st.lists(st.tuples(st.floats(0, 0.05), st.integers(20, 1500)), max_size=80)


@given(settings=SETTINGS, reorder_ratio=st.sampled_from([0.0, 0.3]), arrivals=ARRIVALS, seed=st.integers(0, 99))
def test_every_packet_is_accounted_for(
    settings: PathSettings, reorder_ratio: float, arrivals: list[tuple[float, int]], seed: int
) -> None:
    path = EmulatedPath("a", "b", settings, random.Random(seed))
    now_s, leaving = START_S, 0

    for gap_s, size_bytes in arrivals:
        now_s += gap_s
        exits = path.admit(now_s, size_bytes)
        leaving += len(exits)
        assert all(exit_s >= now_s for exit_s in exits)

    counts = path.counts
    assert counts.received == len(arrivals)
    dropped = counts.dropped_loss + counts.dropped_queue + counts.dropped_policer
    assert counts.received + counts.duplicated == leaving + dropped


@given(first=SETTINGS, then=SETTINGS, arrivals=ARRIVALS, seed=st.integers(0, 99))
def test_packets_keep_order_unless_reordering_is_configured(
    first: PathSettings, then: PathSettings, arrivals: list[tuple[float, int]], seed: int
) -> None:
    path = EmulatedPath("a", "b", first, random.Random(seed))
    now_s, exits = START_S, []

    for number, (gap_s, size_bytes) in enumerate(arrivals):
        now_s += gap_s
        if number == len(arrivals) // 2:
            path.change(then)
        exits += path.admit(now_s, size_bytes)

    assert exits == sorted(exits)


@given(settings=SETTINGS, arrivals=ARRIVALS)
def test_a_packet_waits_at_most_queue_plus_delay_plus_jitter(
    settings: PathSettings, arrivals: list[tuple[float, int]]
) -> None:
    path = EmulatedPath("a", "b", settings, random.Random(3))
    now_s = START_S

    for gap_s, size_bytes in arrivals:
        now_s += gap_s
        serial_s = 0.0 if settings.rate_mbps is None else size_bytes * 8 / (settings.rate_mbps * 1e6)
        queue_s = 0.0 if settings.rate_mbps is None else settings.queue_ms / 1e3
        longest_s = max(queue_s, serial_s) + (settings.delay_ms + settings.jitter_ms) / 1e3
        for exit_s in path.admit(now_s, size_bytes):
            assert exit_s - now_s <= longest_s + 1e-6


@given(rate_mbps=st.floats(1, 100), queue_ms=st.floats(5, 200), sizes=st.lists(st.integers(64, 1500), min_size=50))
def test_throughput_does_not_exceed_the_rate(rate_mbps: float, queue_ms: float, sizes: list[int]) -> None:
    path = emulated(rate_mbps=rate_mbps, queue_ms=queue_ms)

    passed = [(exits[0], size) for size in sizes if (exits := path.admit(START_S, size))]

    for index, (exit_s, _) in enumerate(passed):
        sent_bits = 8 * sum(size for _, size in passed[: index + 1])
        assert sent_bits <= (exit_s - START_S) * rate_mbps * 1e6 * (1 + 1e-6) + 1e-3
