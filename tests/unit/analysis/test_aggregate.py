"""Rates of members over their common time, Jain's index, and whether other packets suffered."""

import statistics

import pytest
from hypothesis import given
from hypothesis import strategies as st

from monitor.analysis.aggregate import (
    AggregateState,
    Harm,
    MemberIntervals,
    PacketFigures,
    common_rates,
    harm_of,
    jain_index,
    start_spread_s,
    state_of,
)

TENTHS = tuple(number / 10 for number in range(1, 101))


def steady(began_s, bps, length_s=10, **fields):
    """A member at a constant rate, in intervals of 0.1 s."""
    ends_s = TENTHS[: length_s * 10]
    return MemberIntervals(began_s, ends_s, (round(bps / 80),) * len(ends_s), **fields)


def test_the_sum_is_of_the_time_in_which_all_sent():
    late = common_rates([steady(0.0, 20e6), steady(2.5, 10e6), steady(0.2, 8e6)])

    assert (late.begin_s, late.length_s) == (2.5, 7.5)
    assert late.rates_bps == pytest.approx((20e6, 10e6, 8e6))
    assert late.sum_bps == pytest.approx(38e6)


def test_data_before_the_common_time_are_in_no_rate():
    """The first sends ten times as fast while it is alone."""
    alone = MemberIntervals(0.0, (5.0, 10.0), (50_000_000, 5_000_000))

    both = common_rates([alone, steady(5.0, 8e6)])

    assert both.rates_bps == pytest.approx((8e6, 8e6))


def test_the_omitted_start_of_a_member_is_left_out():
    rates = common_rates([steady(0.0, 10e6, omitted_s=3.0), steady(1.0, 10e6)])

    assert (rates.begin_s, rates.length_s) == (3.0, 7.0)


def test_members_apart_have_no_common_rate():
    assert common_rates([steady(0.0, 1e6, length_s=2), steady(1.5, 1e6)]) is None
    assert common_rates([]) is None
    assert start_spread_s([steady(0.0, 1e6, length_s=2), steady(1.5, 1e6), steady(0.5, 1e6)]) == 1.5
    assert start_spread_s([]) is None


@given(st.lists(st.floats(1e3, 1e11), min_size=2, max_size=20))
def test_fairness_follows_from_the_coefficient_of_variation(rates):
    """Independent formula: 1 / (1 + CV²), with the population's deviation."""
    variation = statistics.pstdev(rates) / statistics.fmean(rates)

    assert jain_index(rates) == pytest.approx(1 / (1 + variation**2), rel=1e-9)


def test_fairness_has_its_published_extremes():
    """Jain, Chiu and Hawe (1984): 1 where all are equal, 1/n where a single user has all, k/n where k of n share it."""
    assert jain_index([7.0] * 5) == pytest.approx(1.0)
    assert jain_index([9.0, 0.0, 0.0, 0.0]) == pytest.approx(0.25)
    assert jain_index([5.0, 5.0, 0.0, 0.0, 0.0]) == pytest.approx(0.4)
    assert jain_index([0.0, 0.0]) is None
    assert jain_index([5.0]) is None


def test_a_test_is_complete_only_with_all_members_at_once():
    together = common_rates([steady(0.0, 1e6), steady(0.0, 1e6)])

    assert state_of(2, 2, together) == AggregateState.COMPLETE
    assert state_of(3, 2, together) == AggregateState.PARTIAL
    assert state_of(2, 2, None) == AggregateState.APART
    assert state_of(2, 0, None) == AggregateState.FAILED


REST = PacketFigures(600, 600, 20.0, 22.0)


@pytest.mark.parametrize(
    ("loaded", "harm"),
    [
        (PacketFigures(20, 20, 45.0, 60.0), Harm.SLOWER),
        (PacketFigures(20, 20, 20.4, 21.9), Harm.NONE),
        (PacketFigures(20, 12, 20.4, 21.9), Harm.LOSSIER),
        (PacketFigures(20, 12, 45.0, 60.0), Harm.BOTH),
        (PacketFigures(20, 0, None, None), Harm.LOSSIER),
        (PacketFigures(20, 19, 20.4, 21.9), Harm.NONE),
        (PacketFigures(4, 0, None, None), Harm.UNDETERMINED),
    ],
)
def test_harm_to_other_packets_needs_a_difference_beyond_chance(loaded, harm):
    assert harm_of(loaded, REST) == harm


def test_harm_is_undetermined_without_packets_at_rest():
    assert harm_of(PacketFigures(20, 20, 45.0, 60.0), PacketFigures(0, 0, None, None)) == Harm.UNDETERMINED
