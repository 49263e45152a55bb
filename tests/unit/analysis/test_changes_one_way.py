"""Whether a change of a one-way delay is the network's, and of this direction alone."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import mannwhitneyu

from monitor.analysis.changes import one_way
from monitor.analysis.changes.one_way import OtherDirection, is_alone, is_clock, moved_along

CYCLES = 14


def other(moved_ms, change_ms, *, noise_ms=0.3, own_noise_ms=0.01, clock_change_ms=np.inf, seed=1):
    """A direction that moved by so much when this one changed by `change_ms`."""
    random = np.random.default_rng(seed)
    before, after = random.exponential(noise_ms, (2, CYCLES))
    own = random.exponential(own_noise_ms, (2, CYCLES))
    measured_ms = change_ms + float(np.median(own[1]) - np.median(own[0]))
    sides = before - 40.0, after - 40.0 + moved_ms
    return OtherDirection(*sides, sides[0] + own[0], sides[1] + own[1] + change_ms, measured_ms, clock_change_ms)


@pytest.mark.parametrize("change_ms", [3.0, 20.0, -20.0])
@pytest.mark.parametrize(
    ("share", "expected"),
    [
        (0.0, (True, False, False)),
        (-1.0, (False, True, False)),
        (1.0, (False, False, True)),
        (0.6, (False, False, True)),
    ],
    ids=["unchanged", "clock", "both ways", "both ways, unequal"],
)
def test_what_the_other_direction_did_tells_what_changed(change_ms, share, expected):
    direction = other(share * change_ms, change_ms)

    assert (is_alone(direction), is_clock(direction), moved_along(direction)) == expected


def test_a_noisy_direction_needs_bounds_of_the_clocks():
    """The rise is one and a half times the mean wait of a cycle in the other direction."""
    told = {
        bounds_ms: sum(
            is_alone(other(0.0, 15.0, noise_ms=10.0, clock_change_ms=bounds_ms, seed=seed)) for seed in range(200)
        )
        for bounds_ms in (np.inf, 9.0, 6.0)
    }

    assert told[np.inf] == told[9.0] <= 25
    assert told[6.0] >= 70


def test_a_clock_is_taken_for_the_network_no_more_often_than_stated():
    """Where it steps although its bounds exclude that; the margin makes it rarer than the chance."""
    noises = {"noise_ms": 8.0}, {"noise_ms": 0.1, "own_noise_ms": 8.0}
    for noise in noises:
        taken = sum(not is_clock(other(-20.0, 20.0, clock_change_ms=1.0, seed=seed, **noise)) for seed in range(3000))
        assert taken <= 3000 * one_way.CLOCK_CHANCE_WITH_BOUNDS + 20


def test_the_probability_is_that_of_the_rank_test():
    random = np.random.default_rng(3)
    low, high = random.normal(0.0, 1.0, CYCLES), random.normal(0.7, 1.0, CYCLES)

    assert one_way._chance_of_order(low, high, 1.0) == pytest.approx(
        mannwhitneyu(low, high, alternative="less", method="exact").pvalue
    )
    assert one_way._chance_of_order(-low, -high, -1.0) == one_way._chance_of_order(low, high, 1.0)
