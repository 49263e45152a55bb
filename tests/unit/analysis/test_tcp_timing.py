"""Buffers, start and recovery of TCP, compared with RFC 3649's appendix B, windows computed step by step and published
paths."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from monitor.analysis.tcp import (
    CongestionControl,
    buffer_bytes,
    buffer_delay_ratio,
    efficiency_ratio,
    highspeed_increase_and_decrease,
    recovery_s,
    slow_start_s,
    streams_needed,
    transfer_time_ratio,
    window_limit_bps,
    window_segments,
)

# RFC 3649, appendix B: the window at which a(w) becomes 1, 2, 3 …, and b(w) there
RFC_3649_WINDOWS = [38, 118, 221, 347, 495, 663, 851, 1058, 1284, 1529, 1793, 2076, 2378, 2699, 3039, 3399, 3778, 4177]
RFC_3649_DECREASES = [
    *(0.50, 0.44, 0.41, 0.38, 0.37, 0.35, 0.34, 0.33, 0.32, 0.31, 0.30, 0.29, 0.28, 0.28, 0.27, 0.27, 0.26, 0.26)
]


def test_highspeed_grows_and_shrinks_as_in_rfc_3649_appendix_b():
    increase, decrease = highspeed_increase_and_decrease(RFC_3649_WINDOWS)

    assert increase == pytest.approx(np.arange(1, len(RFC_3649_WINDOWS) + 1), abs=0.02)
    assert decrease == pytest.approx(RFC_3649_DECREASES, abs=0.0051)


@pytest.mark.parametrize(
    ("rate_mbps", "rtt_ms", "published_bytes"),
    [(622, 50, 3.88e6), (100, 175, 2.2e6), (2500, 180, 56e6)],
    ids=["LLNL to Dallas", "SLAC to IN2P3", "Sunnyvale to Geneva"],
)
def test_buffers_equal_those_of_published_paths(rate_mbps, rtt_ms, published_bytes):
    assert buffer_bytes(rate_mbps * 1e6, rtt_ms) == pytest.approx(published_bytes, rel=0.01)


def test_2_mb_are_52_percent_of_the_buffer_of_llnl_to_dallas():
    assert window_limit_bps(2e6, 50) / 622e6 == pytest.approx(0.52, abs=0.01)


@given(st.floats(1e3, 1e12), st.floats(0.01, 1000), st.integers(1, 100))
def test_a_window_of_a_rates_buffer_gives_that_rate(rate_bps, rtt_ms, streams):
    window_bytes = buffer_bytes(rate_bps, rtt_ms, streams)

    assert streams * window_limit_bps(window_bytes, rtt_ms) == pytest.approx(rate_bps)


def simulated_rounds(target, window, growth):
    rounds = 0
    while window < target:
        window *= growth
        rounds += 1
    return rounds


@pytest.mark.parametrize(("delayed_acks", "growth"), [(False, 2), (True, 1.5)])
@pytest.mark.parametrize("rate_mbps", [0.1, 10, 1_000, 10_000])
def test_slow_start_takes_as_many_rtts_as_a_simulation(rate_mbps, delayed_acks, growth):
    rounds = simulated_rounds(window_segments(rate_mbps * 1e6, 180), 10, growth)

    assert slow_start_s(rate_mbps * 1e6, 180, delayed_acks=delayed_acks) == pytest.approx(rounds * 0.18)


def test_slow_start_to_a_power_of_two_takes_no_extra_rtt():
    rate_bps = 10 * 2**7 * 1460 * 8 / 0.1

    assert slow_start_s(rate_bps, 100) == pytest.approx(0.7)


def stepped_recovery_rounds(window, increase, decrease):
    now, rounds = window * (1 - decrease), 0
    while now < window:
        now += increase(now)
        rounds += 1
    return rounds


def test_renos_recovery_equals_a_simulation():
    window = float(window_segments(1e9, 180))
    rounds = stepped_recovery_rounds(window, lambda _: 1.0, 0.5)

    assert recovery_s(CongestionControl.RENO, 1e9, 180) == pytest.approx(rounds * 0.18, rel=1e-3)


def test_reno_recovers_in_over_an_hour_from_sunnyvale_to_geneva():
    # 2.38 Gbit/s was reached there (Cottrell 2003: "can take over an hour")
    assert 3600 < recovery_s(CongestionControl.RENO, 2.38e9, 180, delayed_acks=True) < 2 * 3600


def test_scalable_recovers_in_13_4_rtts_at_any_rate():
    rates_bps = [1e6, 1e9, 1e11]
    rounds = stepped_recovery_rounds(1.0, lambda now: 0.01 * now, 0.125)

    assert recovery_s(CongestionControl.SCALABLE, rates_bps, 100) == pytest.approx([1.34] * 3, abs=0.005)
    assert rounds == math.ceil(13.4)


@pytest.mark.parametrize("rate_mbps", [100, 1_000, 10_000])
def test_highspeeds_recovery_equals_a_simulation(rate_mbps):
    window = float(window_segments(rate_mbps * 1e6, 100))
    _, decrease = highspeed_increase_and_decrease(window)
    rounds = stepped_recovery_rounds(window, lambda now: highspeed_increase_and_decrease(now)[0], decrease)

    assert recovery_s(CongestionControl.HIGHSPEED, rate_mbps * 1e6, 100) == pytest.approx(rounds * 0.1, rel=0.05)


def test_cubic_recovers_at_the_plateau_of_its_curve():
    window = float(window_segments(1e9, 100))

    back_s = float(recovery_s(CongestionControl.CUBIC, 1e9, 100))

    # W(0) = 0.7 Wmax and W(K) = Wmax (RFC 9438, figure 1)
    assert 0.4 * (0 - back_s) ** 3 + window == pytest.approx(0.7 * window)


def test_cubic_on_a_short_path_recovers_like_reno():
    window = float(window_segments(100e6, 1))
    rounds = stepped_recovery_rounds(window, lambda _: 3 * 0.3 / 1.7, 0.3)

    assert recovery_s(CongestionControl.CUBIC, 100e6, 1) == pytest.approx(rounds * 0.001, rel=0.2)


@given(st.sampled_from(CongestionControl), st.floats(1e6, 1e11), st.floats(1, 500), st.integers(2, 50))
def test_parallel_streams_recover_faster(control, rate_bps, rtt_ms, streams):
    together_s = recovery_s(control, rate_bps / streams, rtt_ms)

    assert together_s <= recovery_s(control, rate_bps, rtt_ms) * (1 + 1e-9)
    if control is CongestionControl.RENO:
        assert together_s == pytest.approx(recovery_s(control, rate_bps, rtt_ms) / streams)


@given(st.floats(1e3, 1e12), st.floats(1e3, 1e12))
def test_the_number_of_streams_is_the_minimum(rate_bps, stream_bps):
    streams = streams_needed(rate_bps, stream_bps)

    assert streams * stream_bps >= rate_bps * (1 - 1e-9)
    assert (streams - 1) * stream_bps < rate_bps


def test_the_three_metrics_of_rfc_6349_equal_hand_calculation():
    # 100,000 bytes delivered with 2,000 retransmitted; 25 ms idle and 32 ms loaded; a transfer of 8 s that took 12 s
    assert efficiency_ratio(102_000, 2_000) == pytest.approx(0.9803, abs=1e-4)
    assert buffer_delay_ratio(32, 25) == pytest.approx(0.28)
    assert transfer_time_ratio(12, 8) == pytest.approx(1.5)


@pytest.mark.parametrize("value", [0, -1, math.nan])
def test_missing_inputs_give_no_result(value):
    answers = [
        buffer_bytes(value, 10),
        buffer_bytes(1e6, value),
        slow_start_s(value, 10),
        slow_start_s(1e6, value),
        streams_needed(value, 1),
        transfer_time_ratio(value, 1),
        buffer_delay_ratio(1, value),
        *(recovery_s(control, value, 10) for control in (CongestionControl.RENO, CongestionControl.HIGHSPEED)),
        recovery_s(CongestionControl.CUBIC, value, 10),
        recovery_s(CongestionControl.SCALABLE, 1e6, value),
    ]

    assert np.isnan(answers).all()


@pytest.mark.parametrize("control", CongestionControl)
def test_arrays_give_the_results_of_their_elements(control):
    rates_bps, rtts_ms = [1e6, 1e8, 1e10], [[1.0], [100.0]]

    recoveries, starts = recovery_s(control, rates_bps, rtts_ms), slow_start_s(rates_bps, rtts_ms)

    assert recoveries[1].tolist() == [float(recovery_s(control, rate_bps, 100.0)) for rate_bps in rates_bps]
    assert starts[1].tolist() == [float(slow_start_s(rate_bps, 100.0)) for rate_bps in rates_bps]
