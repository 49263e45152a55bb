import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from monitor.analysis import figures
from tests.facts import claimed


@pytest.mark.parametrize(
    ("lost", "sent", "text"),
    [
        (24, 1140, "2.1%"),
        (1, 10_080, "0.0099%"),
        (1, 1_000_000, "0.0001%"),
        (1, 200, "0.5%"),
        (5, 40, "12.5%"),
        (10, 1000, "1%"),
        (0, 10_080, "< 0.03%"),
        (0, 10, "< 30%"),
        (0, 7, "< 43%"),
        (0, 2, "none lost of 2"),
        (10, 10, "100%"),
        (9_999, 10_000, "99.99%"),
        (0, 0, "no data"),
    ],
)
def test_loss_is_a_percentage_or_a_bound(lost, sent, text):
    assert figures.loss(lost, sent) == text


@given(st.integers(1, 10**7).flatmap(lambda sent: st.tuples(st.integers(0, sent), st.just(sent))))
def test_a_partial_loss_is_never_shown_as_0_or_100_percent(counts):
    lost, sent = counts

    text = figures.loss(lost, sent)

    if 0 < lost < sent:
        assert 0.0 < float(text.removesuffix("%")) < 100.0
        assert float(text.removesuffix("%")) == pytest.approx(100 * lost / sent, rel=0.051)


@pytest.mark.parametrize(
    ("ratio", "low", "high", "text", "short"),
    [
        (0.05, 0.038, 0.071, "3 to 8%", "~5%"),
        (0.05, 0.046, 0.054, "5%", "5%"),
        (0.052, 0.0516, 0.0524, "5.2%", "5.2%"),
        (0.2, 0.16, 0.241, "16 to 25%", "~20%"),
        (0.05, 0.001, 0.25, "up to 25%", "~5%"),
        (0.05, 0.0001, 0.25, "up to 25%", "~5%"),
        (0.0021, 0.0011, 0.0041, "0.1 to 0.5%", "~0.2%"),
        (0.02, 0.00008, 0.055, "up to 6%", "~2%"),
        (0.017, 0.0002, 0.05, "up to 5%", "~2%"),
        (0.017, 0.011, 0.027, "1.1 to 2.7%", "~1.5%"),
        (0.086, 0.02, 0.19, "2 to 19%", "~10%"),
        (0.057, 0.02, 0.19, "2 to 19%", "~5%"),
        (0.9, 0.05, 0.999, "5 to 100%", "~90%"),
        (0.018, 0.003, 0.04, "0.3 to 4%", "~2%"),
        (0.00031, 0.000305, 0.000315, "0.031%", "0.031%"),
        (0.995, 0.97, 0.9999, "97 to 100%", "~99%"),
        (0.0, 0.0, 0.0125, "below 1.3%", "0%"),
        (1.0, 0.9, 1.0, "100%", "100%"),
    ],
)
def test_a_loss_has_no_digit_that_its_interval_does_not_prove(ratio, low, high, text, short):
    assert figures.percent_between(ratio, low, high) == text
    assert figures.about_percent(ratio, low, high) == short


@given(st.floats(1e-6, 1.0 - 1e-6), st.floats(0.01, 1.0), st.floats(0.01, 1.0))
def test_a_stated_loss_contains_its_interval(ratio, below, above):
    low, high = ratio * (1.0 - 0.999 * below), ratio + (1.0 - ratio) * above

    said_low, said_high = claimed(figures.percent_between(ratio, low, high))

    assert said_low <= low * (1.0 + 1e-6)
    assert high <= said_high * (1.0 + 1e-6)


def test_an_interval_alone_is_written_as_one_around_a_loss():
    assert figures.percent_interval(0.038, 0.071) == "3 to 8%"
    assert figures.percent_interval(0.000076, 0.058) == "up to 6%"
    assert figures.percent_interval(0.0, 0.0125) == "up to 1.3%"
    assert figures.percent_interval(0.96, 1.0) == "96 to 100%"


@given(st.integers(4, 10**9))
def test_the_bound_of_no_loss_is_never_below_three_over_n(sent):
    bound = float(figures.loss(0, sent).removeprefix("< ").removesuffix("%"))

    assert 300 / sent * (1 - 1e-6) <= bound <= 300 / sent * 1.11


@pytest.mark.parametrize(
    ("value_ms", "text"),
    [
        (162.34, "162.3 ms"),
        (4.567, "4.57 ms"),
        (0.0123, "0.012 ms"),
        (0.0, "0.000 ms"),
        (1234.5, "1,234.5 ms"),
        (None, "no data"),
        (math.nan, "no data"),
    ],
)
def test_milliseconds_have_three_significant_digits(value_ms, text):
    assert figures.milliseconds(value_ms) == text


@pytest.mark.parametrize(
    ("value_bps", "text"),
    [
        (93_412_000.0, "93.4 Mbit/s"),
        (1e9, "1 Gbit/s"),
        (1_168_000.0, "1.17 Mbit/s"),
        (512_000.0, "512 kbit/s"),
        (0.0, "0 bit/s"),
        (None, "no data"),
    ],
)
def test_bit_rates_have_three_digits_and_a_unit(value_bps, text):
    assert figures.bit_rate(value_bps) == text


@pytest.mark.parametrize(
    ("seconds", "text"), [(90, "90 s"), (600, "10 min"), (9000, "2.5 h"), (7200, "2 h"), (259_200, "3 days")]
)
def test_durations_have_the_largest_fitting_unit(seconds, text):
    assert figures.duration(seconds) == text


@pytest.mark.parametrize(
    ("before_ms", "after_ms", "text"),
    [(101.46, 161.5, "101.5 → 161.5 ms"), (64.0, 124.04, "64 → 124 ms"), (0.1234, 1.234, "0.123 → 1.23 ms")],
)
def test_changes_have_the_digits_of_the_figures_beside_them(before_ms, after_ms, text):
    assert figures.change_ms(before_ms, after_ms) == text
