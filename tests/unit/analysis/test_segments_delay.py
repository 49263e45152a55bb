"""Stretches of delay: the filter against all rows of stretches, and the RTTs that pages must state rightly."""

from itertools import product
from math import exp, pi, sqrt

import numpy as np
import pytest
from scipy import stats
from scipy.integrate import dblquad

from monitor.analysis.segments.delay_filter import (
    BURSTS,
    CHANGE_S,
    FIRST_SHAPE,
    LONGEST_MS,
    MEMORY,
    OUTLIERS,
    ROUNDING_MS,
    SINCE_S,
    SPREAD_CHANGE_S,
    DelayFilter,
)

EVERY_S = 10.0
FIRST_SQUARES = FIRST_SHAPE * ROUNDING_MS**2
GOES_ON, OTHER_SPREAD, NEW = range(3)


def followed(figures_ms, every_s=EVERY_S):
    delays = DelayFilter(1)
    for number, figure_ms in enumerate(figures_ms):
        delays.take(np.array([0]), number * every_s, every_s, figure_ms)
    return delays


def level(delays):
    return delays.levels(np.array([0]))[0]


def looks(figures_ms, limit_ms, every_s=EVERY_S):
    """After each burst: the probability of a level above the limit, and the level."""
    delays, found = DelayFilter(1), []
    for number, figure_ms in enumerate(figures_ms):
        delays.take(np.array([0]), number * every_s, every_s, figure_ms)
        found.append((float(delays.above(limit_ms)[0]), level(delays)))
    return [above for above, _ in found], [each for _, each in found]


def quiet(rng, count, packets=10, base_ms=44.0):
    """RTTs of the packets of bursts of an idle path."""
    return base_ms + rng.exponential(0.1, (count, packets))


def anywhere(figure_ms):
    return 1.0 / ((figure_ms + 1.0) * np.log(LONGEST_MS + 1.0))


def every_row(figures_ms):
    """The probability of each row of stretches, not normalised, with the first burst of its newest stretch and the
    probability that its level is above 50 ms: by Student's distribution, burst by burst."""
    chances = (
        1.0 - EVERY_S / CHANGE_S - EVERY_S / SPREAD_CHANGE_S,
        EVERY_S / SPREAD_CHANGE_S,
        EVERY_S / CHANGE_S,
    )
    for moves in product((GOES_ON, OTHER_SPREAD, NEW), repeat=len(figures_ms) - 1):
        first, probability = 0, 1.0
        mean, known, shape, squares = figures_ms[0], 1.0, FIRST_SHAPE, FIRST_SQUARES
        for number, (move, figure_ms) in enumerate(zip(moves, figures_ms[1:], strict=True), start=1):
            probability *= chances[move]
            if move == NEW:
                first, probability = number, probability * anywhere(figure_ms)
                mean, known, shape, squares = figure_ms, 1.0, FIRST_SHAPE, FIRST_SQUARES
                continue
            if move == OTHER_SPREAD:
                shape, squares = FIRST_SHAPE, FIRST_SQUARES
            scale = sqrt(squares / shape * (known + 1.0) / known)
            within = (1.0 - OUTLIERS) * stats.t.pdf(figure_ms, 2.0 * shape, mean, scale)
            outside = OUTLIERS * anywhere(figure_ms)
            counts = within / (within + outside)
            probability *= within + outside
            squares += counts / 2.0 * (known / (known + counts) * (figure_ms - mean) ** 2 + ROUNDING_MS**2)
            mean += counts / (known + counts) * (figure_ms - mean)
            known, shape = known + counts, shape + counts / 2.0
        yield probability, first, stats.t.sf(50.0, 2.0 * shape, mean, sqrt(squares / (shape * known)))


@pytest.mark.parametrize(
    "figures_ms",
    [[44.1, 44.3, 44.2, 104.0], [44.0, 104.0, 104.2, 103.9], [50.0, 20.0, 80.0, 51.0], [0.0, 1.0, 0.0, 9.0]],
)
def test_the_filter_has_the_probabilities_of_all_rows_of_stretches(figures_ms):
    rows = list(every_row(figures_ms))
    total = sum(probability for probability, _, _ in rows)
    by_first = [sum(p for p, first, _ in rows if first == number) / total for number in range(len(figures_ms))]

    delays = followed(figures_ms)

    weights, begun = np.exp(delays.log_weights[0]), delays.stretches[SINCE_S, 0]
    assert [weights[begun == EVERY_S * number].sum() for number in range(len(figures_ms))] == pytest.approx(by_first)
    assert float(delays.above(50.0)[0]) == pytest.approx(sum(p * above for p, _, above in rows) / total)


def test_a_burst_has_the_likelihood_of_all_levels_and_spreads():
    first_ms, next_ms = 44.0, 44.7

    def density(level_ms, precision):
        """Of the second burst, the level after the first, and the precision before it."""
        two = precision / (2.0 * pi) * exp(-precision / 2.0 * ((next_ms - level_ms) ** 2 + (level_ms - first_ms) ** 2))
        return two * stats.gamma.pdf(precision, FIRST_SHAPE, scale=1.0 / FIRST_SQUARES)

    integral, _ = dblquad(density, 1e-6, 400.0, 35.0, 55.0, epsabs=1e-6)
    scale = ROUNDING_MS * sqrt(2.0)
    assert integral == pytest.approx(stats.t.pdf(next_ms, 2.0 * FIRST_SHAPE, first_ms, scale), rel=1e-3)


def test_a_spike_alone_opens_no_stretch():
    figures_ms = np.full(60, 44.0)
    figures_ms[40] = 104.0

    above, levels = looks(figures_ms, 50.0)

    assert max(above[40:]) < 0.2
    assert levels[40].median_ms == pytest.approx(44.0, abs=0.1)
    assert levels[-1].bursts == 60


@pytest.mark.parametrize(("every_s", "packets"), [(10.0, 10), (60.0, 20), (300.0, 10)])
def test_a_longer_route_is_told_after_two_bursts_and_its_end_too(every_s, packets):
    figures_ms = np.median(quiet(np.random.default_rng(1), 160, packets), axis=1)
    figures_ms[100:130] += 60.0

    above, levels = looks(figures_ms, 50.0, every_s)

    assert max(above[10:100]) < 0.01
    assert min(above[101:130]) > 0.8
    assert max(above[131:]) < 0.3
    during, after = levels[129], levels[-1]
    assert during.low_ms < 104.07 < during.high_ms
    assert (during.since_s, during.before_ms) == (100 * every_s, pytest.approx(44.07, abs=0.1))
    assert during.earliest_s <= during.since_s <= during.latest_s
    assert (after.since_s, after.before_ms) == (130 * every_s, pytest.approx(104.07, abs=0.1))


def test_the_onset_of_congestion_is_a_longer_rtt_though_bursts_vary():
    rng = np.random.default_rng(2)
    rtts_ms = quiet(rng, 160)
    rtts_ms[100:] += rng.exponential(40.0, (60, 10))

    above, levels = looks(np.median(rtts_ms, axis=1), 50.0)

    assert min(above[110:]) > 0.8
    assert levels[-1].spread_ms > 5.0


def test_a_slow_rise_is_followed_within_ten_cycles():
    seconds = EVERY_S * np.arange(-100, 140)
    rise_ms = np.where(seconds >= 0.0, np.minimum(2.0 * (np.floor(seconds / 30.0) + 1.0), 48.0), 0.0)
    figures_ms = np.median(quiet(np.random.default_rng(3), len(seconds)), axis=1) + rise_ms

    above, levels = looks(figures_ms, 50.0)

    assert min(above[119:]) > 0.8
    assert all(now.median_ms > 44.0 + ago - 3.0 for now, ago in zip(levels[10:], rise_ms, strict=False))
    assert levels[-1].median_ms == pytest.approx(92.07, abs=0.5)


def test_jitter_alone_is_no_longer_rtt():
    rng = np.random.default_rng(4)
    rtts_ms = quiet(rng, 200, 20)
    rtts_ms[100:139] += rng.uniform(-30.0, 30.0, (39, 20))

    above, levels = looks(np.median(rtts_ms, axis=1), 50.0)

    assert max(above) < 0.8
    assert max(above[150:]) < 0.01
    assert levels[-1].median_ms == pytest.approx(44.07, abs=0.2)


def test_a_gap_keeps_the_level():
    delays = followed([44.0, 44.1] * 30)
    delays.take(np.array([0]), 7200.0, 6600.0, 44.05)
    assert level(delays).bursts == 61

    for number in range(3):
        delays.take(np.array([0]), 14000.0 + EVERY_S * number, 6800.0 if number == 0 else EVERY_S, 104.0)
    assert level(delays).since_s == 14000.0
    assert float(delays.above(50.0)[0]) > 0.8


def test_whole_milliseconds_are_a_single_stretch():
    figures_ms = np.round(np.random.default_rng(5).uniform(0.4, 1.4, 300))

    _, levels = looks(figures_ms, 5.0)

    assert {each.since_s for each in levels[20:]} == {0.0}
    assert levels[-1].spread_ms >= ROUNDING_MS


def test_the_level_follows_a_drift_of_hours():
    figures_ms = 44.0 + np.linspace(0.0, 20.0, 1440) + np.random.default_rng(6).normal(0.0, 1.0, 1440)

    delays = followed(figures_ms)

    assert level(delays).median_ms == pytest.approx(64.0, abs=1.5)
    assert delays.stretches[BURSTS].max() >= MEMORY


def test_paths_are_followed_apart_and_can_begin_anew():
    both = DelayFilter(2)
    for number, figure_ms in enumerate([44.0, 44.1, 80.0, 80.1]):
        both.take(np.array([1]), number * EVERY_S, EVERY_S, figure_ms)
    alone = followed([44.0, 44.1, 80.0, 80.1])

    assert both.levels(np.array([0, 1])) == [None, level(alone)]
    assert both.above(50.0).tolist() == [0.0, float(alone.above(50.0)[0])]
    both.begin(np.array([1]))
    both.take(np.array([1]), 100.0, 0.0, 20.0)
    assert both.levels(np.array([1]))[0].before_ms is None
    assert both.levels(np.array([1]))[0].since_s == 100.0
