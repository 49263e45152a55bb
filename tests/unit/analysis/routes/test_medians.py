"""Intervals of medians and proportions, against published figures and by coverage."""

from __future__ import annotations

import numpy as np
import pytest

from monitor.analysis.routes.medians import effective_count, median_interval, proportion_difference, wilson


def test_wilson_interval_as_published():
    """Newcombe, Two-sided confidence intervals for the single proportion (1998), table I, method 3."""
    assert wilson(81, 263, 1.95996) == pytest.approx((0.2553, 0.3662), abs=5e-5)
    assert wilson(0, 20, 1.95996) == pytest.approx((0.0, 0.1611), abs=5e-5)
    assert wilson(0, 0) == (0.0, 1.0)


def test_difference_of_proportions_as_published():
    """Newcombe, Interval estimation for the difference between independent proportions (1998), table II, (a): 56/70 and
    48/80, method 10."""
    low, high = proportion_difference((48, 80), (56, 70), 1.95996)

    assert (low, high) == pytest.approx((0.0524, 0.3339), abs=5e-5)


def test_the_interval_holds_the_median():
    random = np.random.default_rng(5)
    intervals = [median_interval(random.exponential(1.0, 25)) for _ in range(400)]

    assert np.mean([interval.low <= np.log(2.0) <= interval.high for interval in intervals]) >= 0.94


def test_no_values_have_no_median():
    assert median_interval(np.array([np.nan, np.nan])) is None


def test_a_queue_has_fewer_independent_samples():
    random = np.random.default_rng(6)
    queue = np.convolve(random.normal(size=220), np.ones(10), "valid")[:200]

    assert effective_count(random.normal(size=200)) > 140
    assert effective_count(queue) < 40
