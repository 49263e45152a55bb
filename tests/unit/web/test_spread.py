"""Bounds of bands spread over values: none where they hardly differ, and a band for a value far beyond the others."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from monitor.overview.measures import spread_bounds


@pytest.mark.parametrize("lower_is_worse", [False, True])
def test_values_that_hardly_differ_have_no_bounds(lower_is_worse):
    assert spread_bounds([940e6, 935e6, 942e6, 900e6], lower_is_worse=lower_is_worse) == ()
    assert spread_bounds([], lower_is_worse=lower_is_worse) == ()
    assert spread_bounds([0.0, 0.0], lower_is_worse=lower_is_worse) == ()


def test_a_single_slow_path_of_many_has_a_band_of_its_own():
    """Half way from 10 to 250 ms in ratio: the root of 2,500."""
    assert spread_bounds([10.0] * 999 + [250.0], lower_is_worse=False) == (50.0,)


def test_a_single_low_rate_of_many_has_a_band_of_its_own():
    assert spread_bounds([1e9] * 999 + [1e7], lower_is_worse=True) == (1e8,)


def test_bounds_are_the_quartiles_and_the_worst_twentieth():
    """Of 1 to 100 ms: the 25th, 50th, 75th and 95th percentile, to two digits; the worst is not twice the last."""
    assert spread_bounds(range(1, 101), lower_is_worse=False) == (25.0, 50.0, 75.0, 95.0)


@given(st.lists(st.floats(1e-3, 1e10), max_size=60), st.booleans())
def test_bounds_rise_and_are_within_the_values(values, lower_is_worse):
    bounds = spread_bounds(values, lower_is_worse=lower_is_worse)

    assert len(bounds) <= 5
    assert all(after > before * 1.1 for before, after in pairwise(bounds))
    assert all(0.94 * min(values) <= bound <= 1.06 * max(values) for bound in bounds)
