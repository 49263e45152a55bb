"""The exact rank test, compared with an enumeration of all orders and with SciPy, and its rate of false alarms."""

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import mannwhitneyu

from monitor.analysis.alarms import ranks


@pytest.mark.parametrize(("newest", "before"), [(1, 1), (2, 3), (3, 3), (3, 5), (4, 4)])
def test_the_probability_equals_an_enumeration_of_all_orders(newest, before):
    places = range(newest + before)
    wrong = []
    for chosen in itertools.combinations(places, newest):
        others = [place for place in places if place not in chosen]
        wrong.append(sum(a >= b for a in chosen for b in others))

    for pairs in range(newest * before + 1):
        share = sum(p_value <= pairs for p_value in wrong) / len(wrong)
        assert ranks.at_most(pairs, newest, before) == pytest.approx(share)


@given(st.integers(0, 1000), st.integers(3, 60), st.floats(-3, 3))
def test_each_comparison_equals_scipys_exact_test(seed, number, shift):
    random = np.random.default_rng(seed)
    values = random.normal(size=number)
    values[-6:] += shift
    expected = [
        mannwhitneyu(
            values[-count:], values[-count - ranks.MOST_BEFORE : -count], alternative="less", method="exact"
        ).pvalue
        for count in ranks.NEWEST
        if 2 * count <= number
    ]

    chances = ranks.falls(values[np.newaxis, :])

    least = min(1.0, min(expected, default=1.0) * len(ranks.NEWEST))
    assert chances.chance[0] == pytest.approx(least)


def test_paths_of_different_lengths_are_evaluated_as_if_alone():
    random = np.random.default_rng(2)
    rows = np.full((5, ranks.LONGEST), np.nan)
    for row, number in enumerate((0, 5, 6, 20, ranks.LONGEST)):
        rows[row, ranks.LONGEST - number :] = np.sort(random.normal(size=number))[::-1]

    together = ranks.falls(rows)

    for row, number in enumerate((0, 5, 6, 20, ranks.LONGEST)):
        alone = ranks.falls(rows[row : row + 1, ranks.LONGEST - number :])
        assert together.chance[row] == alone.chance[0]
        assert together.before[row] == alone.before[0]
    assert together.chance[:2].tolist() == [1.0, 1.0], "two and three values are too few to compare"


def test_the_significance_of_three_values_is_bounded():
    """All three below the 40 before: one of C(43, 3) = 12,341 orders, six comparisons."""
    values = np.concatenate([np.arange(40.0) + 100, [3.0, 2.0, 1.0]])

    chances = ranks.falls(values[np.newaxis, :])

    assert chances.chance[0] == pytest.approx(6 / 12_341)
    assert (chances.count[0], chances.before[0]) == (3, 40)
    assert (chances.newest_median[0], chances.before_median[0]) == (2.0, 119.5)


def test_equal_values_are_not_a_decrease():
    assert ranks.falls(np.full((1, 50), 9.4e8)).chance[0] == 1.0


def test_the_false_alarm_rate_of_a_single_look_is_as_allowed():
    random = np.random.default_rng(3)
    chances = ranks.falls(random.lognormal(size=(20_000, ranks.LONGEST))).chance

    for allowed in (0.1, 0.01, 0.001):
        expected = 20_000 * allowed
        assert (chances <= allowed).sum() <= expected + 4 * expected**0.5


@given(st.integers(0, 1000), st.integers(6, 60), st.floats(0.05, 2.0), st.floats(0.1, 0.99))
def test_the_cheap_check_excludes_no_decrease_the_test_detects(seed, number, level, below_ratio):
    random = np.random.default_rng(seed)
    values = np.full(ranks.LONGEST, np.nan)
    values[-number:] = random.lognormal(sigma=0.3, size=number)
    values[-5:] *= level

    chances = ranks.falls(values[np.newaxis, :])

    if chances.newest_median[0] < below_ratio * chances.before_median[0]:
        assert ranks.may_have_fallen(values[np.newaxis, :], below_ratio)[0]


def test_the_cheap_check_excludes_small_shifts_and_missing_data():
    assert not ranks.may_have_fallen(np.full((1, 60), 9.4e8), 0.85)[0]
    assert not ranks.may_have_fallen(np.full((1, 60), np.nan), 0.85)[0]
