"""Slow start, detected in generated intervals with a known start, and in published figures of long paths."""

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from monitor.analysis.tcp import slow_start_s
from monitor.analysis.transfer import diagnose
from monitor.analysis.transfer.start import wanted_seconds
from tests.diagnosis.generated import INTERVAL_S, Moment, recorded


def starting(growth, rtt_ms, full_bytes, first_bytes=14_480):
    """A window that grows by this factor per RTT until it is full, and the resulting rate; when it is full."""
    rtt_s = rtt_ms / 1000

    def moment(now_s):
        window = min(full_bytes, first_bytes * growth ** ((now_s + INTERVAL_S) / rtt_s))
        return Moment(rate_bps=window * 8 / rtt_s, cwnd_bytes=window, rtt_ms=rtt_ms)

    return moment, math.log(full_bytes / first_bytes) / math.log(growth) * rtt_s


@settings(deadline=None)
@given(st.floats(1.45, 2.0), st.floats(20, 300), st.floats(2e5, 5e7))
def test_slow_start_ends_where_growth_ends(growth, rtt_ms, full_bytes):
    moment, true_s = starting(growth, rtt_ms, full_bytes)

    diagnosis = diagnose(recorded(moment, 20))

    assert diagnosis.start_s == pytest.approx(true_s, abs=2 * rtt_ms / 1000 + 2 * INTERVAL_S)


def test_slow_start_agrees_with_theory_for_1_gbit_s_at_180_ms():
    moment, _ = starting(1.5, 180, 22.5e6)

    diagnosis = diagnose(recorded(moment, 60, mss_bytes=1448))

    assert diagnosis.start_s == pytest.approx(slow_start_s(1e9, 180, mss_bytes=1448, delayed_acks=True), rel=0.1)
    assert not diagnosis.too_short


def test_a_slow_start_of_6_s_needs_the_published_60_s():
    assert wanted_seconds(6) == pytest.approx(60)


@pytest.mark.parametrize(("duration_s", "too_short"), [(20, True), (60, False)])
def test_a_published_slow_start_is_too_long_for_a_short_test(duration_s, too_short):
    growth = (22.5e6 / 14_480) ** (0.18 / 5.5)
    moment, true_s = starting(growth, 180, 22.5e6)

    diagnosis = diagnose(recorded(moment, duration_s))

    assert true_s == pytest.approx(5.5)
    assert 5 <= diagnosis.start_s <= 6
    assert diagnosis.too_short is too_short
    assert 50 <= diagnosis.wanted_s <= 60


def test_the_steady_rate_excludes_slow_start():
    moment, _ = starting(1.5, 180, 22.5e6)

    diagnosis = diagnose(recorded(moment, 10))

    assert diagnosis.steady_throughput_bps == pytest.approx(1e9, rel=0.02)
    assert diagnosis.start_s + diagnosis.steady_s == pytest.approx(10)


def test_the_first_loss_ends_slow_start():
    def moment(now_s):
        lost = round(now_s * 10) == 8
        return Moment(1e6 * 3**now_s, 1e4 * 2 ** (now_s / 0.1), rtt_ms=100.0, retransmits=5 if lost else 0)

    assert diagnose(recorded(moment, 3)).start_s == pytest.approx(0.9)


def test_the_rate_alone_shows_slow_start_without_window_figures():
    moment, true_s = starting(1.6, 200, 5e6)
    whole = recorded(moment, 20)
    samples = tuple(
        type(sample)(start_s=sample.start_s, end_s=sample.end_s, sent_bytes=sample.sent_bytes, rtt_ms=sample.rtt_ms)
        for sample in whole.samples
    )

    diagnosis = diagnose(type(whole)(samples=samples))

    assert diagnosis.start_s == pytest.approx(true_s, abs=0.6)
