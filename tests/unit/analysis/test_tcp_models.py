"""The TCP models, compared with the tables of RFC 9438, second formulas, and windows simulated loss by loss."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.integrate import quad
from scipy.optimize import brentq

from monitor.analysis.tcp import (
    CongestionControl,
    average_window,
    cubic_window,
    highspeed_window,
    loss_limit_bps,
    loss_ratio_for,
    mathis_bps,
    reno_window,
    scalable_window,
    window_limit_bps,
)
from tests.oracles.reno import MATHIS_DELAYED_ACKS, MATHIS_EACH_ACK, pftk_bps, pftk_short_bps

RTTS_MS = st.floats(0.01, 2000)
LOSSES = st.floats(1e-9, 0.9)
CONTROLS = st.sampled_from(CongestionControl)

# RFC 9438, tables 1 and 2: loss, Reno, HighSpeed, then CUBIC with C of 0.04, 0.4 and 4, at 100 ms and at 10 ms
RFC_9438_WINDOWS = [
    (1e-2, 12, 12, (12, 12, 12), (12, 12, 12)),
    (1e-3, 38, 38, (38, 38, 59), (38, 38, 38)),
    (1e-4, 120, 263, (120, 187, 333), (120, 120, 120)),
    (1e-5, 379, 1795, (593, 1054, 1874), (379, 379, 379)),
    (1e-6, 1200, 12280, (3332, 5926, 10538), (1200, 1200, 1874)),
    (1e-7, 3795, 83981, (18740, 33325, 59261), (3795, 5926, 10538)),
    (1e-8, 12000, 574356, (105383, 187400, 333250), (18740, 33325, 59261)),
]

# RFC 9438, table 3 (100 ms, packets of 1,500 bytes): Mbit/s, and the loss with Reno, HighSpeed and CUBIC
RFC_9438_LOSSES = [
    (10, 2.0e-4, 3.9e-4, 2.9e-4),
    (100, 2.0e-6, 2.5e-5, 1.4e-5),
    (1_000, 2.0e-8, 1.5e-6, 6.3e-7),
    (10_000, 2.0e-10, 1.0e-7, 2.9e-8),
]


@pytest.mark.parametrize(("loss", "reno", "highspeed", "cubic_100_ms", "cubic_10_ms"), RFC_9438_WINDOWS)
def test_average_windows_equal_rfc_9438(loss, reno, highspeed, cubic_100_ms, cubic_10_ms):
    constants = (0.04, 0.4, 4.0)

    assert reno_window(loss) == pytest.approx(reno, abs=0.51)
    assert highspeed_window(loss) == pytest.approx(highspeed, abs=0.6)
    assert [cubic_window(100, loss, constant) for constant in constants] == pytest.approx(cubic_100_ms, abs=0.51)
    assert [cubic_window(10, loss, constant) for constant in constants] == pytest.approx(cubic_10_ms, abs=0.51)


@pytest.mark.parametrize(("rate_mbps", "reno", "highspeed", "cubic"), RFC_9438_LOSSES)
def test_the_permitted_loss_of_a_rate_equals_rfc_9438_table_3(rate_mbps, reno, highspeed, cubic):
    controls = (CongestionControl.RENO, CongestionControl.HIGHSPEED, CongestionControl.CUBIC)

    losses = [float(loss_ratio_for(control, rate_mbps * 1e6, 100, mss_bytes=1500)) for control in controls]

    # two digits are printed, and the RFC computes HighSpeed's loss from the rounded 0.078/w^1.2
    assert losses == pytest.approx([reno, highspeed, cubic], rel=0.065)


def test_cubic_at_its_recommended_constant_is_figure_8():
    assert cubic_window(100, 1e-6) == pytest.approx(1.054 * 0.1**0.75 / 1e-6**0.75, rel=5e-4)


def test_10_gbps_with_reno_needs_under_a_loss_in_5e9_packets():
    # RFC 3649, section 1: a window of 83,333 segments of 1,500 bytes at 100 ms, one loss in 5,000,000,000
    assert reno_window(1 / 5e9) == pytest.approx(83_333, rel=0.02)


def simulated_reno_window(loss):
    """Average over many losses, one in exactly 1/p packets; +1 segment per RTT, halved at a loss."""
    window, packets, windows = 10.0, 0.0, []
    for _ in range(60_000):
        windows.append(window)
        packets += window
        if packets >= 1 / loss:
            packets -= 1 / loss
            window /= 2
        else:
            window += 1
    return np.mean(windows[5_000:])


def simulated_scalable_window(loss):
    """+1% per RTT, -1/8 at a loss."""
    window, packets, windows = 20.0, 0.0, []
    for _ in range(60_000):
        windows.append(window)
        packets += window
        if packets >= 1 / loss:
            packets -= 1 / loss
            window *= 0.875
        else:
            window *= 1.01
    return np.mean(windows[5_000:])


def steady_cubic_window(rtt_s, loss):
    """The average under W(t) = C(t - K)³ + Wmax (RFC 9438, section 4.2) where 1/p packets last from 0 to just K."""

    def back_s(most):
        return math.cbrt(most * 0.3 / 0.4)

    def packets_too_many(most):
        area, _ = quad(lambda at_s: 0.4 * (at_s - back_s(most)) ** 3 + most, 0, back_s(most))
        return area / rtt_s - 1 / loss

    return 1 / loss * rtt_s / back_s(brentq(packets_too_many, 1, 1e9))


@pytest.mark.parametrize("loss", [1e-3, 1e-4, 1e-5])
def test_renos_window_equals_that_of_a_simulation(loss):
    assert reno_window(loss) == pytest.approx(simulated_reno_window(loss), rel=0.04)


@pytest.mark.parametrize(("rtt_ms", "loss"), [(100, 1e-5), (200, 1e-5), (100, 1e-6)])
def test_cubics_window_equals_the_integral_of_its_curve(rtt_ms, loss):
    assert cubic_window(rtt_ms, loss) == pytest.approx(steady_cubic_window(rtt_ms / 1000, loss))


@pytest.mark.parametrize("loss", [1e-4, 1e-5])
def test_scalables_window_equals_that_of_a_simulation(loss):
    assert scalable_window(loss) == pytest.approx(7 / 6 * simulated_scalable_window(loss), rel=0.02)


@given(RTTS_MS, LOSSES)
def test_no_control_is_slower_than_reno(rtt_ms, loss):
    reno = average_window(CongestionControl.RENO, rtt_ms, loss)

    assert all(average_window(control, rtt_ms, loss) >= reno for control in CongestionControl)


@pytest.mark.parametrize(("packets_per_ack", "constant"), [(1, MATHIS_EACH_ACK), (2, MATHIS_DELAYED_ACKS)])
def test_pftk_converges_to_mathis_for_rare_losses(packets_per_ack, constant):
    mathis = mathis_bps(100, 1e-9, constant=constant)

    assert pftk_bps(100, 1e-9, 300, packets_per_ack=packets_per_ack) == pytest.approx(mathis, rel=1e-3)
    assert pftk_short_bps(100, 1e-9, 300, packets_per_ack=packets_per_ack) == pytest.approx(mathis, rel=1e-3)


@pytest.mark.parametrize(("constant", "printed"), [(MATHIS_EACH_ACK, 1.22), (MATHIS_DELAYED_ACKS, 0.87)])
def test_the_constants_equal_mathis_table_1(constant, printed):
    assert constant == pytest.approx(printed, abs=0.005)


@given(st.floats(1, 500), st.floats(1e-6, 0.9), st.floats(100, 3000))
def test_pftks_short_form_equals_that_of_rfc_3819(rtt_ms, loss, rto_ms):
    rtt_s, rto_s = rtt_ms / 1000, rto_ms / 1000
    timeouts_s = rto_s * loss * (1 + 32 * loss**2) * min(1, 3 * math.sqrt(0.75 * loss))

    bytes_per_s = 1460 / (rtt_s * math.sqrt(1.33 * loss) + timeouts_s)

    assert pftk_short_bps(rtt_ms, loss, rto_ms) == pytest.approx(8 * bytes_per_s, rel=2e-3)


def slac_pftk_packets_per_s(rtt_s, loss, rto_s, most):
    """The full model with b = 2 as given in SLAC's tutorial."""

    def timeout_share(window):
        success = 1 - loss
        share = (1 - success**3) * (1 + success**3 * (1 - success ** (window - 3))) / (1 - success**window)
        return min(1, share)

    backoff = 1 + loss + 2 * loss**2 + 4 * loss**3 + 8 * loss**4 + 16 * loss**5 + 32 * loss**6
    window = 2 / 3 * (1 + math.sqrt(3 * (1 - loss) / loss + 1))
    rounds = window + 1
    if window >= most:
        window, rounds = most, 0.25 * most + (1 - loss) / (loss * most) + 2
    timeout = timeout_share(window) / (1 - loss)
    return ((1 - loss) / loss + window + timeout) / (rtt_s * rounds + timeout * rto_s * backoff)


@pytest.mark.parametrize("loss", [1e-5, 1e-4, 1e-3, 0.01, 0.05, 0.1])
@pytest.mark.parametrize("most", [8.0, 44.0, 1e9])
def test_the_full_pftk_equals_slacs_formula(loss, most):
    expected_bps = slac_pftk_packets_per_s(0.1, loss, 0.3, most) * 1460 * 8

    assert pftk_bps(100, loss, 300, window_segments=most) == pytest.approx(expected_bps, rel=1e-9)


def test_pftk_with_rare_losses_is_limited_by_the_receive_window():
    assert pftk_bps(100, 1e-9, 300, window_segments=44) == pytest.approx(window_limit_bps(44 * 1460, 100), rel=1e-4)


@given(st.floats(1e-7, 0.1))
def test_both_forms_of_pftk_agree_up_to_ten_percent_loss(loss):
    assert pftk_short_bps(100, loss, 300) == pytest.approx(pftk_bps(100, loss, 300), rel=0.2)


# Transfers of Linux over the lab's path: sender, RTT measured by it, loss counted by the relay, Mbit/s of a stream with
# segments of 1,448 bytes. Those up to 1% of loss are from `python -m tests.reproduce loss`.
MEASURED = [
    ("reno", 10.6, 0.00103, 44.66),
    ("reno", 51.1, 0.00087, 9.78),
    ("reno", 11.2, 0.00942, 13.00),
    ("cubic", 10.9, 0.00899, 12.71),
    ("reno", 52.6, 0.00995, 2.72),
    ("cubic", 103.9, 0.01133, 1.32),
    ("reno", 179.7, 0.01077, 0.79),
    ("reno", 1.48, 0.0199, 62.55),
    ("reno", 1.54, 0.0510, 31.03),
    ("reno", 1.65, 0.0965, 8.527),
    ("reno", 2.97, 0.2014, 0.836),
    ("reno", 5.84, 0.0233, 15.25),
    ("reno", 5.96, 0.0508, 9.839),
    ("reno", 5.99, 0.0971, 4.048),
    ("reno", 7.25, 0.2171, 0.850),
    ("reno", 53.5, 0.0179, 1.974),
    ("reno", 56.7, 0.0555, 0.955),
    ("reno", 55.0, 0.1099, 0.618),
    ("reno", 56.5, 0.1707, 0.420),
    ("cubic", 1.90, 0.0492, 12.17),
    ("cubic", 2.66, 0.1011, 3.359),
    ("cubic", 2.30, 0.1844, 0.663),
    ("cubic", 22.6, 0.0534, 2.339),
    ("cubic", 23.6, 0.1232, 1.080),
    ("cubic", 22.0, 0.2452, 0.404),
]


@pytest.mark.parametrize(("control", "rtt_ms", "loss", "measured_mbps"), MEASURED)
def test_the_loss_limit_equals_that_of_linux_in_the_lab(control, rtt_ms, loss, measured_mbps):
    modelled_bps = loss_limit_bps(CongestionControl(control), rtt_ms, loss, mss_bytes=1448)

    assert measured_mbps * 1e6 / 2 < modelled_bps < measured_mbps * 1e6 * 2


@given(st.floats(1e-8, 1e-4), st.floats(1, 2000))
def test_renos_limit_equals_pftks_where_timeouts_are_rare(loss, rtt_ms):
    expected_bps = pftk_short_bps(rtt_ms, loss, rtt_ms, packets_per_ack=1)

    assert loss_limit_bps(CongestionControl.RENO, rtt_ms, loss) == pytest.approx(expected_bps, rel=0.04)


@given(CONTROLS, RTTS_MS, LOSSES, st.floats(1.01, 10))
def test_more_loss_and_longer_rtts_never_increase_the_rate(control, rtt_ms, loss, factor):
    rate_bps = loss_limit_bps(control, rtt_ms, loss)

    assert loss_limit_bps(control, rtt_ms, min(1.0, loss * factor)) < rate_bps
    assert loss_limit_bps(control, rtt_ms * factor, loss) < rate_bps


@given(CONTROLS, RTTS_MS, LOSSES, st.floats(1, 9000))
def test_the_limit_is_proportional_to_the_segment_size(control, rtt_ms, loss, mss_bytes):
    per_byte = loss_limit_bps(control, rtt_ms, loss, mss_bytes=1)

    assert loss_limit_bps(control, rtt_ms, loss, mss_bytes) == pytest.approx(mss_bytes * per_byte)


@given(st.sampled_from([reno_window, highspeed_window, scalable_window]), RTTS_MS, LOSSES)
def test_windows_counted_in_rtts_do_not_depend_on_the_rtt(window, rtt_ms, loss):
    control = {reno_window: "reno", highspeed_window: "highspeed", scalable_window: "scalable"}[window]

    assert average_window(CongestionControl(control), rtt_ms, loss) == window(loss)


@given(RTTS_MS, LOSSES, st.floats(0.1, 10))
def test_cubic_beyond_reno_depends_on_the_rtt(rtt_ms, loss, factor):
    before, after = cubic_window([rtt_ms, rtt_ms * factor], loss)

    if min(before, after) > reno_window(loss):
        assert after == pytest.approx(before * factor**0.75)


@given(CONTROLS, RTTS_MS)
def test_the_limit_is_infinite_without_loss_and_0_at_total_loss(control, rtt_ms):
    rates_bps = loss_limit_bps(control, rtt_ms, [1e-30, 1.0])

    assert rates_bps[0] > 1e15
    assert rates_bps[1] == 0.0


@given(CONTROLS, st.floats(1e3, 1e12), RTTS_MS)
def test_the_loss_for_a_rate_gives_that_rate(control, rate_bps, rtt_ms):
    loss = loss_ratio_for(control, rate_bps, rtt_ms)

    assert 0 < loss < 1
    assert loss_limit_bps(control, rtt_ms, loss) == pytest.approx(rate_bps, rel=1e-6)


@pytest.mark.parametrize(
    ("rtt_ms", "loss"), [(0, 0.1), (-1, 0.1), (math.nan, 0.1), (10, 0), (10, -0.1), (10, 1.1), (10, math.nan)]
)
def test_models_return_nan_where_they_are_undefined(rtt_ms, loss):
    answers = [loss_limit_bps(control, rtt_ms, loss) for control in CongestionControl]

    assert np.isnan([*answers, pftk_bps(rtt_ms, loss, 300), pftk_short_bps(rtt_ms, loss, 300)]).all()


@pytest.mark.parametrize(("window_bytes", "rtt_ms"), [(0, 10), (-1, 10), (1e6, 0), (1e6, math.nan), (math.nan, 10)])
def test_a_window_limit_needs_a_window_and_an_rtt(window_bytes, rtt_ms):
    assert np.isnan(window_limit_bps(window_bytes, rtt_ms))


@pytest.mark.parametrize("control", CongestionControl)
def test_arrays_give_the_results_of_their_elements(control):
    rtts_ms, losses = np.array([[5.0], [100.0]]), np.array([1e-6, 1e-3, 0.2, 1.0])

    limits, needed = (
        loss_limit_bps(control, rtts_ms, losses),
        loss_ratio_for(control, [[1e6], [1e9]], [1.0, 10.0, 99.0]),
    )

    assert limits.shape == (2, 4)
    assert limits[1, 2] == loss_limit_bps(control, 100.0, 0.2)
    assert needed.shape == (2, 3)
    assert needed[1, 0] == loss_ratio_for(control, 1e9, 1.0)
