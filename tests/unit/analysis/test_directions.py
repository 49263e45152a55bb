"""The direction of a loss by a reflector's counters, and of a step in delay without a clock.

The counts of simulated runs come from a generator of packets lost independently or in Gilbert bursts in each direction;
planted is what the generator was told.
"""

from __future__ import annotations

from collections import Counter
from math import comb

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from monitor.analysis.directions import (
    ALONE_CHANCE,
    DirectionLosses,
    LostDirection,
    OneWayDelays,
    SteppedDirection,
    delay_step_direction,
    loss_direction,
    lost_direction,
)

RUNS = 500
BURSTS, PACKETS = 60, 10


def counts(sent, forward_lost, reverse_lost, bursts=60):
    return DirectionLosses(
        sent, forward_lost, reverse_lost, bursts, min(forward_lost, bursts), min(reverse_lost, bursts)
    )


def simulated(forward_ratio, reverse_ratio, generator, *, together=1.0, bursts=BURSTS):
    """Counts of a run with these planted losses; `together` is the mean length of a run of losses."""
    arrived = _kept(forward_ratio, generator, together, bursts)
    returned = _kept(reverse_ratio, generator, together, bursts)
    forward = ~arrived
    reverse = arrived & ~returned
    return DirectionLosses(
        arrived.size,
        int(forward.sum()),
        int(reverse.sum()),
        bursts,
        int(forward.any(axis=1).sum()),
        int(reverse.any(axis=1).sum()),
    )


def _kept(ratio, generator, together, bursts):
    shape = (bursts, PACKETS)
    if together == 1.0 or ratio == 0.0:
        return generator.random(shape) >= ratio
    to_good = 1 / together
    to_bad = ratio * to_good / (1 - ratio)
    lost = np.empty(shape, dtype=bool)
    lost[:, 0] = generator.random(bursts) < ratio
    for packet in range(1, PACKETS):
        before = lost[:, packet - 1]
        lost[:, packet] = generator.random(bursts) < np.where(before, 1 - to_good, to_bad)
    return ~lost


@pytest.mark.parametrize("together", [1.0, 3.0])
@pytest.mark.parametrize("ratio", [0.003, 0.01, 0.03, 0.1, 0.2])
def test_a_direction_is_wrong_in_at_most_one_in_a_hundred(ratio, together):
    generator = np.random.default_rng(round(ratio * 1000) + round(together))
    for planted, (forward, reverse) in {
        LostDirection.FORWARD: (ratio, 0.0),
        LostDirection.REVERSE: (0.0, ratio),
        LostDirection.BOTH: (ratio, ratio),
        LostDirection.UNKNOWN: (0.0, 0.0),
    }.items():
        stated = Counter(loss_direction(simulated(forward, reverse, generator, together=together)) for _ in range(RUNS))
        wrong = sum(stated.values()) - stated[planted] - stated[LostDirection.UNKNOWN]
        assert wrong <= 0.01 * RUNS, (planted, stated)


@pytest.mark.parametrize(("ratio", "share"), [(0.02, 0.75), (0.05, 0.99), (0.2, 0.99)])
def test_a_loss_of_two_percent_of_600_names_its_direction(ratio, share):
    generator = np.random.default_rng(7)
    stated = Counter(loss_direction(simulated(ratio, 0.0, generator)) for _ in range(500))
    assert stated[LostDirection.FORWARD] >= share * 500


def test_the_small_usual_loss_of_the_other_direction_is_no_loss_of_both():
    generator = np.random.default_rng(8)
    stated = Counter(loss_direction(simulated(0.05, 0.0005, generator)) for _ in range(1000))
    assert stated[LostDirection.BOTH] <= 10
    assert stated[LostDirection.FORWARD] >= 980


def test_loss_before_is_not_the_direction_of_a_new_loss():
    before = counts(60_000, 0, 1200, 6000)
    assert loss_direction(counts(600, 40, 12), before) is LostDirection.FORWARD
    assert loss_direction(counts(600, 40, 12)) is LostDirection.BOTH


@pytest.mark.parametrize(
    ("lost", "stated"),
    [((13, 0), LostDirection.FORWARD), ((0, 13), LostDirection.REVERSE), ((2, 0), LostDirection.UNKNOWN)],
)
def test_published_sentence(lost, stated):
    """2.1% of 600 forward and none of 588 reverse tell the direction, two packets do not."""
    assert loss_direction(counts(600, *lost)) is stated


def test_an_outage_is_of_the_forward_direction_only_as_far_as_the_counter_went():
    """The reflector got nothing, so that nothing is known of the reverse direction."""
    assert loss_direction(counts(600, 600, 0)) is LostDirection.UNKNOWN
    assert loss_direction(counts(600, 0, 600)) is LostDirection.REVERSE
    assert loss_direction(counts(0, 0, 0, 0)) is LostDirection.UNKNOWN


def test_even_losses_name_a_direction_as_rarely_as_stated():
    """Of n losses with an even chance, brute force over all outcomes: at most `ALONE_CHANCE` for each direction."""
    sent = 100_000
    for total in (5, 12, 30):
        chance = sum(
            comb(total, forward) / 2**total
            for forward in range(total + 1)
            if loss_direction(counts(sent, forward, total - forward, sent)) is LostDirection.FORWARD
        )
        assert chance <= ALONE_CHANCE


@given(st.integers(0, 2000), st.data())
def test_a_direction_without_loss_is_never_named(sent, data):
    lost, bursts = data.draw(st.integers(0, sent)), max(sent // 10, 1)
    lossy = data.draw(st.integers(min(lost, 1), min(lost, bursts)))
    one_way = DirectionLosses(sent, lost, 0, bursts, lossy, 0)
    assert loss_direction(one_way) in (LostDirection.FORWARD, LostDirection.UNKNOWN)
    assert lost_direction(one_way.reverse, one_way.forward) in (LostDirection.REVERSE, LostDirection.UNKNOWN)


@given(st.lists(st.tuples(st.integers(0, 300), st.integers(0, 50), st.integers(0, 50)), min_size=1, max_size=8))
def test_counts_pool_in_any_order(parts):
    rows = [counts(sent + a + b, a, b) for sent, a, b in parts]
    there = back = counts(0, 0, 0, 0)
    for row in rows:
        there = there.plus(row)
    for row in reversed(rows):
        back = back.plus(row)
    assert there == back
    assert there.sent == sum(sent + a + b for sent, a, b in parts)


OFFSETS_MS = (-5_000.0, -30.0, 0.0, 12.5, 86_400_000.0)


def delays(forward_ms, reverse_ms, offset_ms, generator, *, bursts=10, noise_ms=0.2, drift_ms=0.0):
    drift = np.linspace(0, drift_ms, bursts)
    queue = generator.exponential(noise_ms, (2, bursts))
    return OneWayDelays(
        (forward_ms + offset_ms + drift + queue[0]).tolist(), (reverse_ms - offset_ms - drift + queue[1]).tolist()
    )


@pytest.mark.parametrize("offset_ms", OFFSETS_MS)
@pytest.mark.parametrize(
    ("forward_ms", "reverse_ms", "stated"),
    [
        (20.0, 0.0, SteppedDirection.FORWARD),
        (-20.0, 0.0, SteppedDirection.FORWARD),
        (0.0, 7.0, SteppedDirection.REVERSE),
        (10.0, 10.0, SteppedDirection.BOTH),
        (0.0, 0.0, SteppedDirection.UNKNOWN),
    ],
)
def test_a_step_has_its_direction_whatever_the_clocks_say(offset_ms, forward_ms, reverse_ms, stated):
    generator = np.random.default_rng(3)
    before = delays(40.0, 40.0, offset_ms, generator)
    after = delays(40.0 + forward_ms, 40.0 + reverse_ms, offset_ms, generator)
    step = delay_step_direction(before, after)
    assert step.direction is stated
    if stated is not SteppedDirection.UNKNOWN:
        assert abs(step.step_ms - (forward_ms + reverse_ms)) <= 4 * step.error_ms + 0.01


def test_a_step_of_a_clock_is_not_the_networks():
    generator = np.random.default_rng(4)
    for clock_ms in (-500.0, -3.0, 3.0, 20.0):
        step = delay_step_direction(delays(40, 40, 0, generator), delays(40, 40, clock_ms, generator))
        assert step.direction is SteppedDirection.CLOCK


def test_a_direction_of_a_step_is_wrong_in_at_most_one_in_a_hundred():
    """Steps of 0 to 30 ms, clocks that drift by 1 µs/s over twenty minutes or by 50, queues of 0.05 to 5 ms."""
    generator = np.random.default_rng(5)
    wrong = told = 0
    for _ in range(600):
        planted = generator.choice(["forward", "reverse", "both", "unknown"])
        size_ms, noise_ms = generator.uniform(1, 30), generator.uniform(0.05, 5)
        drift_ms = generator.choice([0.6, 30.0]) * generator.choice([-1, 1])
        forward_ms = size_ms if planted in ("forward", "both") else 0.0
        reverse_ms = size_ms if planted in ("reverse", "both") else 0.0
        before = delays(30, 30, 100, generator, noise_ms=noise_ms, drift_ms=drift_ms)
        after = delays(
            30 + forward_ms, 30 + reverse_ms, 100 + drift_ms, generator, noise_ms=noise_ms, drift_ms=drift_ms
        )
        stated = delay_step_direction(before, after).direction
        if stated in ("forward", "reverse", "both"):
            told += 1
            wrong += stated != planted
    assert wrong <= 0.01 * 600
    assert told >= 150


@given(st.floats(-1e6, 1e6), st.floats(-100, 100), st.floats(-100, 100))
def test_an_offset_of_the_clocks_changes_nothing(offset_ms, forward_ms, reverse_ms):
    wave = np.array([0.0, 0.1, 0.3, 0.1, 0.0, 0.2, 0.4, 0.2])
    plain = OneWayDelays((30 + wave).tolist(), (30 + wave[::-1]).tolist())
    stepped = OneWayDelays((30 + forward_ms + wave).tolist(), (30 + reverse_ms + wave[::-1]).tolist())

    def shifted(values):
        return OneWayDelays([d + offset_ms for d in values.forward_ms], [d - offset_ms for d in values.reverse_ms])

    direct, off = delay_step_direction(plain, stepped), delay_step_direction(shifted(plain), shifted(stepped))
    if abs(forward_ms) > 20 and abs(reverse_ms) < 1e-6:
        assert direct.direction is off.direction is SteppedDirection.FORWARD
        assert off.step_ms == pytest.approx(direct.step_ms, abs=1e-6)


def test_few_delays_tell_no_direction():
    generator = np.random.default_rng(6)
    few, many = delays(40, 40, 0, generator, bursts=4), delays(60, 40, 0, generator)
    assert delay_step_direction(few, many).direction is SteppedDirection.UNKNOWN
