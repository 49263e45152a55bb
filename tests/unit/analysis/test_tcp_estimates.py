"""The limit of a transfer, its confidence, and that following the advice gives the promised rate."""

import dataclasses
import math

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from monitor.analysis.tcp import (
    CongestionControl,
    FigureError,
    LimitName,
    Loss,
    Rtt,
    Sign,
    TransferSettings,
    estimate,
    loss_limit_bps,
    window_limit_bps,
    wording,
)
from monitor.analysis.tcp.figures import ThroughputEstimate
from tests.facts import lacks

ALL_KNOWN = TransferSettings(window_bytes=1e6, capacity_bps=1e8)


def limit(result, name):
    return next(limit for limit in result.limits if limit.name is name)


@st.composite
def figures(draw):
    """RTT, loss and transfer as in practice, each of the optional values known or not."""
    rtt_ms = draw(st.floats(0.1, 1000))
    spread = draw(st.floats(1, 1.5))
    sent = draw(st.integers(1, 10**6))
    loss = draw(
        st.one_of(
            st.floats(1e-9, 1).map(Loss),
            st.just(Loss(0.0)),
            st.integers(0, sent).map(lambda lost: Loss.counted(lost, sent)),
        )
    )
    transfer = TransferSettings(
        mss_bytes=draw(st.sampled_from([536, 1460, 8960])),
        window_bytes=draw(st.none() | st.floats(2000, 1e9)),
        capacity_bps=draw(st.none() | st.floats(1e4, 1e12)),
        control=draw(st.sampled_from(CongestionControl)),
        streams=draw(st.integers(1, 20)),
    )
    return Rtt(rtt_ms, rtt_ms / spread, rtt_ms * spread), loss, transfer


@given(figures())
def test_the_estimate_is_the_minimum_of_the_known_limits(given_figures):
    rtt, loss, transfer = given_figures

    result = estimate(rtt, loss, transfer)

    caps = [limit.throughput_bps for limit in result.limits if limit.sign is not Sign.AT_LEAST]
    if result.throughput_bps is not None:
        assert result.throughput_bps == min(caps)
    if result.binding is not None:
        assert limit(result, result.binding).throughput_bps == result.throughput_bps


@given(figures())
def test_interval_ends_are_on_their_sides_and_values_finite(given_figures):
    result = estimate(*given_figures)

    ends = [end for end in (result.low_bps, result.throughput_bps, result.high_bps) if end is not None]
    assert ends == sorted(ends)
    assert all(math.isfinite(end) for end in ends)
    assert (result.sign is None) == all(limit.sign is Sign.AT_LEAST for limit in result.limits)
    assert (result.sign is Sign.BETWEEN) == (result.throughput_bps is None and result.sign is not None)


@given(figures())
def test_the_sign_is_about_only_if_no_unknown_limit_can_bind(given_figures):
    result = estimate(*given_figures)

    if result.sign is Sign.ABOUT:
        assert not result.not_known or result.throughput_bps == 0.0
        assert all(limit.sign is Sign.ABOUT for limit in result.limits if limit.name is result.binding)


@given(figures(), st.floats(1.05, 5))
def test_following_the_advice_gives_the_promised_rate(given_figures, times):
    rtt, loss, transfer = given_figures
    advice = estimate(rtt, loss, transfer, times).advice
    assume(advice is not None)
    # No path has a capacity below 1 bit/s.
    assume(advice.capacity_bps is None or advice.capacity_bps >= 1)
    following = dataclasses.replace(
        transfer,
        window_bytes=advice.window_bytes or transfer.window_bytes,
        capacity_bps=advice.capacity_bps or transfer.capacity_bps,
    )
    assume(advice.loss_ratio is None or advice.loss_ratio > 1e-15)
    loss_then = loss if advice.loss_ratio is None else Loss(advice.loss_ratio)

    result = estimate(rtt, loss_then, following)

    least = min(limit.throughput_bps for limit in result.limits)
    assert least >= advice.target_bps * (1 - 1e-6)


@given(figures(), st.floats(1.05, 5))
def test_advised_streams_replace_a_larger_window_or_less_loss(given_figures, times):
    rtt, loss, transfer = given_figures
    advice = estimate(rtt, loss, transfer, times).advice
    assume(advice is not None and advice.streams is not None)

    def per_stream_limits_bps(streams):
        result = estimate(rtt, loss, dataclasses.replace(transfer, streams=streams))
        return [limit.throughput_bps for limit in result.limits if limit.name is not LimitName.CAPACITY]

    assert min(per_stream_limits_bps(advice.streams)) >= advice.target_bps * (1 - 1e-6)
    assert min(per_stream_limits_bps(advice.streams - 1)) < advice.target_bps * (1 + 1e-6)


def test_advice_requires_no_more_than_is_needed():
    result = estimate(Rtt(100), Loss(1e-4), ALL_KNOWN, times=2)

    less_loss = estimate(Rtt(100), Loss(result.advice.loss_ratio * 1.01), ALL_KNOWN)

    assert result.binding is LimitName.LOSS
    assert less_loss.throughput_bps < result.advice.target_bps
    assert (result.advice.window_bytes, result.advice.capacity_bps) == (None, None)


@pytest.mark.parametrize(
    ("transfer", "binding", "throughput_bps"),
    [
        (TransferSettings(window_bytes=65_536, capacity_bps=1e9), LimitName.WINDOW, 65_536 * 8 / 0.1),
        (TransferSettings(window_bytes=1e9, capacity_bps=2e6), LimitName.CAPACITY, 2e6),
        (
            TransferSettings(window_bytes=1e9, capacity_bps=1e9),
            LimitName.LOSS,
            loss_limit_bps(CongestionControl.CUBIC, 100, 1e-4),
        ),
        (
            TransferSettings(window_bytes=1e9, capacity_bps=1e9, streams=3, control=CongestionControl.RENO),
            LimitName.LOSS,
            3 * loss_limit_bps(CongestionControl.RENO, 100, 1e-4),
        ),
        (TransferSettings(window_bytes=65_536, capacity_bps=1e9, streams=2), LimitName.WINDOW, 2 * 65_536 * 8 / 0.1),
    ],
)
def test_the_binding_limit_is_named(transfer, binding, throughput_bps):
    result = estimate(Rtt(100), Loss(1e-4), transfer)

    assert (result.sign, result.binding) == (Sign.ABOUT, binding)
    assert result.throughput_bps == pytest.approx(throughput_bps)


@pytest.mark.parametrize("sent", [300, 30_000_000])
def test_loss_alone_gives_no_lower_bound(sent):
    result = estimate(Rtt(100), Loss.counted(0, sent), TransferSettings())

    assert (result.sign, result.throughput_bps, result.low_bps, result.high_bps) == (None, None, None, None)
    assert (result.binding, result.advice) == (None, None)
    assert result.not_known == (LimitName.WINDOW, LimitName.CAPACITY)


@given(figures())
def test_there_is_no_lower_bound_while_a_limit_is_unknown(given_figures):
    result = estimate(*given_figures)

    if result.not_known:
        assert result.sign in (None, Sign.AT_MOST) or result.throughput_bps == 0.0
    assert result.sign is not Sign.AT_LEAST


@given(figures())
def test_no_value_has_an_interval_of_zero_width(given_figures):
    rtt, loss, transfer = given_figures
    assume(loss.sent is not None or loss.ratio == 0.0)

    result = estimate(rtt, loss, transfer)

    if result.low_bps is not None and result.high_bps is not None and result.throughput_bps != 0.0:
        assert result.low_bps < result.high_bps


# China Clipper, SC2000, ORNL and SLAC as in TestPublishedPaths below, and the link of Sunnyvale to Geneva: rates of the
# transfers in Mbit/s.
@pytest.mark.parametrize(
    ("rtt_ms", "window_bytes", "capacity_mbps", "published_mbps"),
    [(175, 2048 * 1024, 100, 75), (50, 2e6, 622, 240), (102, 2e6, 100, 71), (180, 120e6, 2500, 2380)],
)
def test_published_transfers_lie_in_the_interval(rtt_ms, window_bytes, capacity_mbps, published_mbps):
    transfer = TransferSettings(window_bytes=window_bytes, capacity_bps=capacity_mbps * 1e6)

    result = estimate(Rtt(rtt_ms), Loss(0.0), transfer)

    assert result.low_bps < published_mbps * 1e6 < result.high_bps


def test_bbr_gets_the_capacity_less_the_loss():
    bbr = dataclasses.replace(ALL_KNOWN, is_bbr=True, capacity_bps=5e7)

    result = estimate(Rtt(100), Loss.counted(30, 1000), bbr)

    assert (result.binding, result.throughput_bps) == (LimitName.CAPACITY, pytest.approx(0.97 * 5e7))
    assert result.low_bps < 0.8 * result.throughput_bps


def test_bbr_under_heavy_loss_may_be_as_slow_as_cubic():
    bbr = dataclasses.replace(ALL_KNOWN, is_bbr=True)

    result = estimate(Rtt(100), Loss.counted(68, 1000), bbr)

    assert result.low_bps == loss_limit_bps(CongestionControl.CUBIC, 100, 0.068)
    assert result.high_bps > 0.9 * result.throughput_bps


@pytest.mark.parametrize("capacity_bps", [None, 3e7])
def test_bbr_above_its_tolerance_is_limited_by_the_loss(capacity_bps):
    """20% on a path of 30 Mbit/s: four fifths of it at most, and the loss is to be mended first."""
    bbr = dataclasses.replace(ALL_KNOWN, is_bbr=True, capacity_bps=capacity_bps)

    result = estimate(Rtt(64), Loss.counted(20, 100), bbr)

    held_bps = min(limit.throughput_bps for limit in result.limits if limit.name is not LimitName.LOSS)
    assert (result.binding, result.throughput_bps) == (LimitName.LOSS, pytest.approx(0.8 * held_bps))
    assert result.advice.target_bps == pytest.approx(2 * result.throughput_bps)
    assert result.advice.loss_ratio == pytest.approx(0.05)


def test_without_loss_it_is_between_the_floor_and_other_limits():
    result = estimate(Rtt(100), Loss.counted(0, 300), ALL_KNOWN)

    assert (result.sign, result.throughput_bps, result.binding) == (Sign.BETWEEN, None, None)
    assert (result.low_bps, result.high_bps) == (
        loss_limit_bps(CongestionControl.CUBIC, 100, 0.01),
        pytest.approx(8e7 * 1.05),
    )


def test_the_stated_number_of_packets_decides_on_loss():
    packets = estimate(Rtt(100), Loss.counted(0, 300), ALL_KNOWN).packets_to_tell

    enough = estimate(Rtt(100), Loss.counted(0, packets), ALL_KNOWN)
    fewer = estimate(Rtt(100), Loss.counted(0, packets - 1), ALL_KNOWN)

    assert (enough.sign, enough.binding, enough.packets_to_tell) == (Sign.ABOUT, LimitName.WINDOW, None)
    assert fewer.sign is Sign.BETWEEN


def test_without_loss_or_capacity_the_window_is_a_ceiling():
    result = estimate(Rtt(100), Loss.counted(0, 300), TransferSettings(window_bytes=1e6))

    assert (result.sign, result.throughput_bps, result.low_bps) == (Sign.AT_MOST, pytest.approx(8e7), None)
    assert result.not_known == (LimitName.CAPACITY,)
    assert result.binding is None


def test_with_total_loss_there_is_only_a_ceiling():
    result = estimate(Rtt(100), Loss.counted(10, 10), ALL_KNOWN)

    least_loss = 0.05 ** (1 / 10)
    assert (result.sign, result.binding, result.low_bps, result.advice) == (Sign.AT_MOST, LimitName.LOSS, None, None)
    assert result.throughput_bps == pytest.approx(loss_limit_bps(CongestionControl.CUBIC, 100, least_loss))


def test_a_window_below_the_total_loss_ceiling_may_not_bind():
    result = estimate(Rtt(1000), Loss.counted(1, 1), TransferSettings(window_bytes=100, capacity_bps=1e6))

    assert (result.sign, result.binding) == (Sign.AT_MOST, None)
    assert result.throughput_bps == window_limit_bps(100, 1000)


def test_a_known_total_loss_gives_a_rate_of_zero():
    result = estimate(Rtt(100), Loss(1.0), TransferSettings())

    assert (result.sign, result.throughput_bps, result.binding) == (Sign.ABOUT, 0.0, LimitName.LOSS)
    assert result.advice is None


def test_a_known_loss_of_zero_does_not_limit():
    result = estimate(Rtt(100), Loss(0.0), ALL_KNOWN)

    assert (result.sign, result.throughput_bps, result.binding) == (Sign.ABOUT, pytest.approx(8e7), LimitName.WINDOW)
    assert result.reno_index_bps is None


def test_without_loss_and_other_limits_there_is_no_estimate():
    result = estimate(Rtt(100), Loss(0.0), TransferSettings())

    assert (result.sign, result.throughput_bps, result.low_bps, result.high_bps) == (None, None, None, None)
    assert result.not_known == (LimitName.WINDOW, LimitName.CAPACITY)


@pytest.mark.parametrize(
    ("loss", "index_bps", "sign"),
    [
        (Loss(0.01), 1_168_000, Sign.ABOUT),
        (Loss.counted(3, 300), 1_168_000, Sign.ABOUT),
        (Loss.counted(0, 300), 1_168_000, Sign.AT_LEAST),
        (Loss.counted(7, 7), 116_800 / math.sqrt(0.05 ** (1 / 7)), Sign.AT_MOST),
    ],
)
def test_the_reno_index_is_always_included(loss, index_bps, sign):
    result = estimate(Rtt(100), loss, TransferSettings(control=CongestionControl.SCALABLE, streams=4))

    assert result.reno_index_bps == pytest.approx(index_bps)
    assert result.reno_index_sign is sign


def test_the_interval_covers_the_true_rate_in_80_percent():
    rng = np.random.default_rng(11)
    transfer = TransferSettings(window_bytes=1e12, capacity_bps=1e15)
    covered = []
    for _ in range(400):
        true_loss = 10 ** rng.uniform(-4, -2)
        sent = int(15 / true_loss)
        result = estimate(Rtt(50), Loss.counted(max(1, rng.binomial(sent, true_loss)), sent), transfer)
        covered.append(result.low_bps <= loss_limit_bps(CongestionControl.CUBIC, 50, true_loss) <= result.high_bps)

    # Clopper and Pearson guarantee at least 80%; 400 trials vary by 2%
    assert 0.78 < np.mean(covered) < 0.92


@pytest.mark.parametrize("control", [CongestionControl.RENO, CongestionControl.CUBIC])
def test_rtt_and_loss_widen_the_interval_as_independent_errors(control):
    rng = np.random.default_rng(5)
    lost, sent, spread = 20, 200_000, 0.3
    rtts_ms = 80 * np.exp(spread * rng.standard_normal(200_000))
    losses = rng.gamma(lost + 0.5, 1 / sent, 200_000)
    drawn_low, drawn_high = np.quantile(loss_limit_bps(control, rtts_ms, losses), (0.1, 0.9))
    rtt = Rtt(80, *(80 * math.exp(side * 1.2816 * spread) for side in (-1, 1)))

    result = estimate(rtt, Loss.counted(lost, sent), TransferSettings(control=control))

    assert result.low_bps == pytest.approx(drawn_low, rel=0.06)
    assert result.high_bps == pytest.approx(drawn_high, rel=0.06)


@given(st.integers(1, 50), st.integers(2, 100))
@settings(max_examples=30)
def test_more_packets_narrow_the_interval(lost, factor):
    few = estimate(Rtt(50), Loss.counted(lost, 1000 * lost), TransferSettings())
    many = estimate(Rtt(50), Loss.counted(lost * factor, 1000 * lost * factor), TransferSettings())

    assert few.low_bps < many.low_bps < many.throughput_bps < many.high_bps < few.high_bps
    assert few.throughput_bps == pytest.approx(many.throughput_bps)


class TestPublishedPaths:
    """The measured rates must be possible, and the limit must be that named by the authors."""

    def test_slac_to_in2p3_was_limited_by_its_window_of_2048_kb(self):
        result = estimate(Rtt(175), Loss(0.0), TransferSettings(window_bytes=2048 * 1024, capacity_bps=100e6))

        assert result.binding is LimitName.WINDOW
        assert 80e6 < result.throughput_bps < 100e6

    def test_llnl_to_dallas_was_limited_by_its_window(self):
        result = estimate(Rtt(50), Loss(0.0), TransferSettings(window_bytes=2e6, capacity_bps=622e6), times=622 / 320)

        assert result.binding is LimitName.WINDOW
        assert result.advice.window_bytes == pytest.approx(3.88e6, rel=0.01)

    def test_ornl_to_nersc_was_limited_by_its_receiver(self):
        result = estimate(Rtt(102), Loss(0.0), TransferSettings(window_bytes=2e6, capacity_bps=100e6))

        assert result.binding is LimitName.CAPACITY
        assert result.throughput_bps > 71e6

    def test_sunnyvale_to_geneva_was_limited_by_its_link(self):
        result = estimate(Rtt(180), Loss(0.0), TransferSettings(mss_bytes=8960, window_bytes=120e6, capacity_bps=2.5e9))

        assert result.binding is LimitName.CAPACITY
        assert result.throughput_bps > 2.38e9


@pytest.mark.parametrize("value", [0.0, -1.0, math.nan, math.inf, 1e-300])
@pytest.mark.parametrize(
    ("name", "make"),
    [
        ("rtt_ms", lambda value: Rtt(value)),
        ("rtt_p10_ms", lambda value: Rtt(10, value, 20)),
        ("rtt_p90_ms", lambda value: Rtt(10, 5, value)),
        ("mss_bytes", lambda value: TransferSettings(mss_bytes=value)),
        ("window_bytes", lambda value: TransferSettings(window_bytes=value)),
        ("capacity_bps", lambda value: TransferSettings(capacity_bps=value)),
        ("streams", lambda value: TransferSettings(streams=value)),
        ("sent", lambda value: Loss(0.1, value)),
    ],
)
def test_an_invalid_value_is_named_with_valid_values(name, make, value):
    with pytest.raises(FigureError, match=f"^{name} is .*; give ") as raised:
        make(value)

    assert raised.value.name == name


@pytest.mark.parametrize(
    ("make", "start", "facts"),
    [
        (lambda: Loss(5.0), "loss_ratio is 5.0;", ["give lost/sent", " 0 to 1,", "not a percentage"]),
        (lambda: Loss(-0.1), "loss_ratio is -0.1;", ["give lost/sent", " 0 to 1,", "not a percentage"]),
        (lambda: Loss(math.nan), "loss_ratio is nan;", ["give lost/sent", " 0 to 1,", "not a percentage"]),
        (lambda: Loss(1e-20), "loss_ratio is 1e-20;", ["give 0 for none", "at least 1e-15\n"]),
        (lambda: Loss.counted(11, 10), "lost is 11;", ["give", "number of lost packets", " 0 to 10\n"]),
        (lambda: Loss.counted(-1, 10), "lost is -1;", ["give", "number of lost packets", " 0 to 10\n"]),
        (lambda: Loss.counted(0, 0), "sent is 0;", ["give", "packets", " 1 or more"]),
        (
            lambda: Loss.of_sent(0.001, 100),
            "loss_ratio is 0.001;",
            ["no whole number", " 100 packets", "give lost/sent"],
        ),
        (
            lambda: Loss.of_sent(0.999, 100),
            "loss_ratio is 0.999;",
            ["no whole number", " 100 packets", "give lost/sent"],
        ),
        (lambda: Rtt(10, 11, 12), "rtt_p10_ms is 11;", ["give at most", "median", " 10 ms"]),
        (lambda: Rtt(10, 9, 9.5), "rtt_p90_ms is 9.5;", ["give at least", "median", " 10 ms"]),
        (
            lambda: estimate(Rtt(1), Loss(0.1), TransferSettings(), times=1.0),
            "times is 1.0;",
            ["give", "speed-up", "above 1 ", "up to a million"],
        ),
    ],
)
def test_errors_state_the_problem_and_the_fix(make, start, facts):
    with pytest.raises(ValueError, match="give") as raised:
        make()

    assert lacks(f"{raised.value}\n", start, *facts) == []
    assert str(raised.value).startswith(start)


def test_a_rounded_ratio_is_the_nearest_integer_of_packets():
    assert Loss.of_sent(0.0123, 3000) == Loss.counted(37, 3000)
    assert (Loss.of_sent(0, 5).lost, Loss.of_sent(1, 5).lost) == (0, 5)


@pytest.mark.parametrize(
    ("high_bps", "said"),
    [
        (18e6, "at most 18 Mbit/s, limited by loss (80%: 184 kbit/s to 18 Mbit/s)"),
        (942e6, "cannot tell: 184 kbit/s to 942 Mbit/s (80%)"),
    ],
)
def test_no_rate_is_named_within_a_wide_interval(high_bps, said):
    limits = {"binding": LimitName.LOSS, "limits": (), "not_known": (), "packets_to_tell": None, "advice": None}
    index = {"reno_index_bps": 1e5, "reno_index_sign": None}

    answer = ThroughputEstimate(high_bps, Sign.AT_MOST, 184e3, high_bps, **limits, **index)

    assert wording.headline(answer) == said
