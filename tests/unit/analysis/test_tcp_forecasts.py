"""Forecasts of a path's next test: their score on published and on simulated series, and changes of the path.

Expected corrections are Mathis' (1997): throughput of Reno is proportional to 1/RTT and 1/sqrt(loss), and that of a
window to 1/RTT.
"""

import math
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from monitor.analysis.tcp import (
    CongestionControl,
    PastTest,
    PathDifference,
    PathPings,
    TransferKind,
    corrected_bps,
    forecast,
    mathis_bps,
    replayed,
)
from monitor.analysis.tcp.wording import forecast_headline, forecast_notes
from tests.facts import lacks
from tests.forecasts import BEGAN_AT, capacity_bound, heavy_tails, pooled, published, score_series, simulated

NOW = datetime(2026, 11, 21, 12, tzinfo=UTC)
CLEAN = PathPings(rtt_ms=20.0, lost=0, sent=300, ttl=60)
LOSSY = PathPings(rtt_ms=20.0, lost=60, sent=300, ttl=60)
RENO = TransferKind(control=CongestionControl.RENO)
BBR = TransferKind(is_bbr=True, capacity_bps=45e6)


def past_tests(*rates_mbps, state=CLEAN):
    count = len(rates_mbps)
    return [
        PastTest(NOW - timedelta(hours=count - number), rate_mbps * 1e6, state)
        for number, rate_mbps in enumerate(rates_mbps)
    ]


def width(forecasted):
    return math.log(forecasted.high_bps / forecasted.low_bps)


def test_simulated_series_reach_the_stated_score():
    scores = list(simulated())
    together = pooled(scores)

    assert together.within_two_ratio >= 0.95
    assert 0.77 <= together.covered_ratio <= 0.83
    assert together.rmsre <= together.rmsre_of_ten
    assert all(0.72 <= score.covered_ratio <= 0.88 for score in scores)


@pytest.mark.parametrize("noise", [0.0003, 0.01])
def test_the_interval_of_a_full_link_fits_its_noise(noise):
    series = [capacity_bound(np.random.default_rng([5, number]), noise) for number in range(3)]

    assert 0.75 <= score_series("full link", series).covered_ratio <= 0.88


def test_ends_alike_in_three_digits_are_told_apart_in_words():
    scattered = forecast(past_tests(*[94.1, 94.12, 94.08] * 10), CLEAN, RENO)
    equal = forecast(past_tests(*[94.1] * 30), CLEAN, RENO)

    assert "(80%: within 0.021%)" in forecast_headline(scattered)
    assert "(80%: within 0.01%)" in forecast_headline(equal)


def test_newer_tests_on_a_path_that_was_not_as_now_are_said_to_be_left_out():
    before, during = past_tests(28.9, 28.5, 28.7)[:2], past_tests(1.05, state=LOSSY)

    made = forecast([*before, *during], CLEAN, RENO)

    assert (made.tests, made.newer_left_out) == (2, 1)
    assert "1 test since left out: the pings before had another loss or route." in forecast_notes(made, NOW)
    assert forecast(before, CLEAN, RENO).newer_left_out == 0


def test_published_series_reach_the_stated_score():
    scores = list(published())
    together = pooled(scores)

    assert len(scores) == 3
    assert together.within_two_ratio >= 0.95
    assert 0.77 <= together.covered_ratio <= 0.83
    assert together.rmsre <= together.rmsre_of_ten


def test_few_tests_have_an_interval_with_the_stated_coverage():
    random, covered = np.random.default_rng(3), []
    for _ in range(200):
        rates = 20e6 * np.exp(0.25 * random.standard_normal(7))
        tests = [PastTest(BEGAN_AT + timedelta(hours=hour), float(rate)) for hour, rate in enumerate(rates)]
        covered += [low <= test.throughput_bps <= high for (_, low, high), test in zip(
            replayed(tests, RENO), tests[1:], strict=True
        )]  # fmt: skip

    assert 0.74 < np.mean(covered) < 0.88


def test_later_tests_change_no_earlier_forecast():
    rates = heavy_tails(np.random.default_rng(1))[:60]
    shuffled = np.concatenate((rates[:30], np.random.default_rng(2).permutation(rates[30:])))

    before, after = (replayed(past_tests(*series), RENO)[:29] for series in (rates, shuffled))

    assert before == after


def test_an_outlier_does_not_move_the_forecast():
    forecasted = forecast(past_tests(*[50, 51, 49] * 5, 3, 50), CLEAN, RENO)

    assert forecasted.throughput_bps == pytest.approx(50e6, rel=0.02)


@pytest.mark.parametrize(
    ("rates", "said"),
    [
        ((44.9, 45.1, 2.75), ("2.75 Mbit/s", "1/16 of the median of the 2 before (45 Mbit/s)")),
        ((44.9, 2.75), ("2.75 Mbit/s", "1/16 of the test before (44.9 Mbit/s)")),
        ((2.75, 44.9), ("44.9 Mbit/s", "16 times the test before (2.75 Mbit/s)")),
        ((*[45.0, 44.8, 45.2] * 10, 2.75), ("2.75 Mbit/s", "1/16 of the median of the ", "before (45 Mbit/s)")),
    ],
    ids=["third", "second", "faster", "thirtieth"],
)
def test_a_newest_test_unlike_the_others_leaves_the_forecast_open(rates, said):
    """It is an outlier, or the first of another level: either may hold."""
    made = forecast(past_tests(*rates), CLEAN, RENO)

    assert made.low_bps <= rates[-1] * 1e6 * (1 + 1e-9)
    assert made.high_bps >= rates[-1] * 1e6 * (1 - 1e-9)
    assert lacks(forecast_headline(made), "cannot tell", *said) == []


def test_of_few_tests_the_interval_includes_the_newest():
    """Their errors are too few to tell how often a test leaves it."""
    tests = past_tests(*[50.0, 50.0, 50.0, 50.0, 50.0, 50.0, 18.0])

    made = forecast(tests, CLEAN, RENO)

    assert made.low_bps <= 18e6 * (1 + 1e-9)
    assert "about 50 Mbit/s" in forecast_headline(forecast(past_tests(50.0, 50.0, 40.0), CLEAN, RENO))


def test_three_tests_at_a_new_level_set_the_forecast():
    forecasted = forecast(past_tests(*[50, 51, 49] * 5, 20, 21, 20.5), CLEAN, RENO)

    assert forecasted.throughput_bps == pytest.approx(20.5e6)
    assert forecasted.tests == 3


def test_equal_tests_still_have_an_interval():
    forecasted = forecast(past_tests(*[94.1] * 30), CLEAN, RENO)

    assert forecasted.low_bps < forecasted.throughput_bps < forecasted.high_bps
    assert forecasted.high_bps / forecasted.low_bps < 1.001


def test_tests_since_the_loss_outweigh_those_before():
    tests = [*past_tests(*[45] * 9), PastTest(NOW, 0.225e6, LOSSY)]

    forecasted = forecast(tests, LOSSY, BBR)

    assert (forecasted.throughput_bps, forecasted.tests, forecasted.changes) == (pytest.approx(0.225e6), 1, ())
    assert forecasted.oldest_at == forecasted.newest_at == NOW
    assert forecasted.low_bps < 0.225e6 < forecasted.high_bps


def test_tests_before_a_loss_are_corrected_and_widen_it():
    tests = past_tests(*[45, 44, 46] * 5)

    before, since = forecast(tests, CLEAN, BBR), forecast(tests, LOSSY, BBR)

    assert since.changes == (PathDifference.LOSS,)
    assert since.uncorrected_bps == pytest.approx(45e6)
    assert since.throughput_bps < 0.5 * before.throughput_bps
    assert width(since) > 4 * width(before)
    assert since.low_bps < since.throughput_bps < 45e6 < since.high_bps * 1.1


def test_only_tests_in_the_paths_current_state_count():
    lossy = past_tests(2, 2.1, 1.9, state=LOSSY)
    clean = past_tests(*[45, 44, 46])

    forecasted = forecast([*clean, *lossy], CLEAN, RENO)

    assert (forecasted.throughput_bps, forecasted.tests, forecasted.changes) == (pytest.approx(45e6), 3, ())


def test_a_new_route_doubles_the_interval():
    tests = past_tests(*[45, 30, 60, 40, 52] * 4)

    before, since = (forecast(tests, replace(CLEAN, ttl=ttl), RENO) for ttl in (60, 57))

    assert since.changes == (PathDifference.ROUTE,)
    assert since.throughput_bps == before.throughput_bps
    assert width(since) == pytest.approx(2 * width(before))


def test_a_forecast_is_scored_against_each_next_test():
    forecasted = forecast(past_tests(10, 10, 30, 10, 10), CLEAN, RENO)

    # From 10: 10, 30 (a factor of 3), 10 and 10.
    assert (forecasted.score.forecasts, forecasted.score.within_two, forecasted.score.covered) == (4, 3, 3)
    assert forecasted.score.rmsre == pytest.approx(math.sqrt(2**2 / 4))


def test_the_first_test_has_no_score_and_no_forecast():
    assert forecast(past_tests(10), CLEAN, RENO).score is None
    assert forecast([], CLEAN, RENO) is None
    assert replayed([], RENO) == []


@given(
    st.lists(
        st.tuples(
            st.floats(1e3, 1e11), st.none() | st.floats(0.1, 1000), st.integers(0, 300), st.none() | st.integers(1, 255)
        ),
        min_size=1,
        max_size=30,
    ),
    st.booleans(),
    st.none() | st.floats(1e4, 1e9),
)
def test_the_interval_ends_are_on_both_sides(figures, is_bbr, window_bytes):
    tests = [
        PastTest(NOW + timedelta(hours=hour), rate_bps, PathPings(rtt_ms, lost, 300, ttl))
        for hour, (rate_bps, rtt_ms, lost, ttl) in enumerate(figures)
    ]

    forecasted = forecast(tests, tests[0].state, TransferKind(is_bbr=is_bbr, window_bytes=window_bytes))

    assert 0 < forecasted.low_bps < forecasted.throughput_bps < forecasted.high_bps < math.inf


@settings(max_examples=100, deadline=None)
@given(
    st.lists(st.tuples(st.floats(1e5, 1e9), st.none() | st.floats(0.1, 1e3)), min_size=2, max_size=40),
    st.none() | st.floats(0.1, 1e3),
)
def test_the_rtt_before_tests_changes_no_forecast(figures, now_ms):
    """On measured sets it made them worse."""
    tests = [
        PastTest(NOW + timedelta(hours=hour), bps, PathPings(ms, 0, 300, 60)) for hour, (bps, ms) in enumerate(figures)
    ]
    alike = [replace(test, state=CLEAN) for test in tests]
    now = PathPings(now_ms, 0, 300, 60)

    made, expected = forecast(tests, now, RENO), forecast(alike, CLEAN, RENO)

    assert (made.throughput_bps, made.low_bps, made.high_bps) == (
        expected.throughput_bps, expected.low_bps, expected.high_bps
    )  # fmt: skip
    assert made.score == expected.score


def test_four_times_the_loss_halves_a_loss_limited_rate():
    then, now = PathPings(50.0, 30, 30_000), PathPings(50.0, 120, 30_000)
    tested_bps = float(mathis_bps(50.0, 0.001, constant=1.22))

    expected_bps = float(mathis_bps(50.0, 0.004, constant=1.22))

    assert corrected_bps(tested_bps, then, now, RENO) == pytest.approx(expected_bps, rel=0.1)
    assert corrected_bps(expected_bps, now, then, RENO) == pytest.approx(tested_bps, rel=0.1)


def test_twice_the_rtt_halves_a_window_limited_rate():
    kind = TransferKind(window_bytes=1e6)

    now = corrected_bps(79e6, PathPings(100.0, 0, 300), PathPings(200.0, 0, 300), kind)

    assert now == pytest.approx(39.5e6)


def test_a_loss_limit_above_the_tests_rate_changes_nothing():
    # The model allows Reno 40 Mbit/s at 0.1% and 10 ms; the tests were limited to 1 Mbit/s by another cause.
    then, now = PathPings(10.0, 0, 30_000), PathPings(10.0, 30, 30_000)

    assert corrected_bps(1e6, then, now, RENO) == 1e6


def test_bbr_gets_the_capacity_less_a_small_loss():
    now = PathPings(20.0, 15, 300)

    assert corrected_bps(45e6, CLEAN, now, BBR) == pytest.approx(45e6 * 0.95)


def test_no_correction_exceeds_the_capacity():
    kind = TransferKind(control=CongestionControl.RENO, capacity_bps=50e6)
    then, now = PathPings(50.0, 300, 30_000), PathPings(50.0, 0, 30_000)

    assert corrected_bps(2e6, then, now, kind) <= 50e6


def test_total_loss_leaves_almost_nothing():
    now = PathPings(None, 300, 300)

    assert corrected_bps(45e6, CLEAN, now, RENO) < 0.1e6
    assert corrected_bps(45e6, CLEAN, now, BBR) < 5e6


def test_a_series_without_noise_is_scored_exactly():
    score = score_series("constant", [np.full(20, 5.0)])

    assert (score.forecasts, score.within_two_ratio, score.rmsre_of_ten) == (10, 1.0, 0.0)
    assert score.rmsre < 1e-9
