"""Figures of a path's tests over a period, of the records page, and RFC 6349's metrics of a test."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from monitor.analysis.transfer import Recording, SenderInterval, bit_metres_per_s, diagnose, spread


@settings(deadline=None)
@given(st.lists(st.floats(1e3, 1e11), min_size=2, max_size=50))
def test_the_spread_is_that_of_the_sample(throughputs_bps):
    statistics = spread(throughputs_bps)

    assert (statistics.tests, statistics.min_bps, statistics.max_bps) == (
        len(throughputs_bps), min(throughputs_bps), max(throughputs_bps),
    )  # fmt: skip
    assert statistics.mean_bps == pytest.approx(np.mean(throughputs_bps))
    assert statistics.deviation_bps == pytest.approx(np.std(throughputs_bps, ddof=1), rel=1e-6, abs=1.0)


def test_a_single_test_has_no_deviation_and_none_no_spread():
    assert spread([5e6]).deviation_bps is None
    assert spread([]) is None


def test_bit_metres_are_rate_times_distance():
    assert bit_metres_per_s(1e9, 10_000) == pytest.approx(10_000e12)


def transfer(retransmits=0, rtt_ms=25.0, **fields):
    """100 MB in 8 s, in segments of 1,000 bytes."""
    samples = tuple(
        SenderInterval(
            start_s=n, end_s=n + 1.0, sent_bytes=12_500_000, retransmits=retransmits, cwnd_bytes=10**6, rtt_ms=rtt_ms
        )
        for n in range(8)
    )
    return Recording(samples=samples, mss_bytes=1000, **fields)


def test_the_transfer_time_ratio_is_relative_to_the_capacity():
    assert diagnose(transfer(capacity_bps=500e6)).rfc6349.transfer_time_ratio == pytest.approx(8 / 1.6)
    assert diagnose(transfer()).rfc6349.transfer_time_ratio is None


def test_the_efficiency_of_the_rfcs_example():
    """100,000 sent, 2,000 of them retransmitted: 98.03% (RFC 6349, section 4.2)."""
    diagnosis = diagnose(transfer(retransmits=250))

    assert diagnosis.rfc6349.efficiency_ratio == pytest.approx(100_000 / 102_000)


def test_the_buffer_delay_of_the_rfcs_example():
    """25 ms idle and 32 ms on average: 28% (RFC 6349, section 4.3)."""
    assert diagnose(transfer(rtt_ms=32.0, idle_rtt_ms=25.0)).rfc6349.buffer_delay_ratio == pytest.approx(0.28)
