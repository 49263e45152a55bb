"""TCP ramp-up and recovery times, buffers and streams for a rate, and RFC 6349's figures. Arrays broadcast; NaN where
an input is NaN, zero or negative."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike

from monitor.analysis.tcp.models import CUBIC_BETA, CUBIC_C, MSS_BYTES, CongestionControl
from monitor.arrays import Floats

# RFC 6928.
INITIAL_WINDOW_SEGMENTS = 10

# An eighth lost, 1% regained each RTT (Kelly 2003): 13.4 at any rate.
SCALABLE_RECOVERY_RTTS = math.log(0.875) / -math.log(1.01)

HIGHSPEED_LOW_WINDOW = 38.0
HIGHSPEED_HIGH_WINDOW = 83_000.0
HIGHSPEED_HIGH_DECREASE = 0.1


def buffer_bytes(rate_bps: ArrayLike, rtt_ms: ArrayLike, streams: ArrayLike = 1) -> Floats:
    """The socket buffer of each stream: the shared bandwidth-delay product."""
    return _positive(rate_bps) * _positive(rtt_ms) / 8000.0 / _positive(streams)


def window_segments(rate_bps: ArrayLike, rtt_ms: ArrayLike, mss_bytes: ArrayLike = MSS_BYTES) -> Floats:
    return buffer_bytes(rate_bps, rtt_ms) / _positive(mss_bytes)


def streams_needed(rate_bps: ArrayLike, stream_bps: ArrayLike) -> Floats:
    """Streams of `stream_bps` for `rate_bps`, while loss or window limits each, not the capacity all."""
    return np.ceil(_positive(rate_bps) / _positive(stream_bps) * (1.0 - 1e-12))


def slow_start_s(
    rate_bps: ArrayLike,
    rtt_ms: ArrayLike,
    mss_bytes: ArrayLike = MSS_BYTES,
    initial_segments: float = INITIAL_WINDOW_SEGMENTS,
    delayed_acks: bool = False,
) -> Floats:
    """Time until the window fills the path.

    ceil(log2(W/IW)) RTTs, base 1.5 with delayed ACKs (RFC 5681, section 3.1).
    """
    growth = 1.5 if delayed_acks else 2.0
    times = window_segments(rate_bps, rtt_ms, mss_bytes) / initial_segments
    rounds = np.ceil(np.log(np.maximum(times, 1.0)) / math.log(growth) * (1.0 - 1e-12))
    return rounds * _positive(rtt_ms) / 1000.0


def recovery_s(
    control: CongestionControl,
    rate_bps: ArrayLike,
    rtt_ms: ArrayLike,
    mss_bytes: ArrayLike = MSS_BYTES,
    delayed_acks: bool = False,
) -> Floats:
    """Time from a loss at this rate until the window has recovered.

    Reno: W/2 RTTs, doubled with delayed ACKs (RFC 5681). CUBIC: K of RFC 9438, section 4.2, or its Reno-friendly region
    (section 4.3). HighSpeed: b(w)·w RTTs over a(w) at mid-climb (RFC 3649, section 5). Scalable: 13.4 RTTs.
    """
    window = window_segments(rate_bps, rtt_ms, mss_bytes)
    rtt_s = _positive(rtt_ms) / 1000.0
    if control is CongestionControl.RENO:
        return window / 2.0 * rtt_s * (2.0 if delayed_acks else 1.0)
    if control is CongestionControl.SCALABLE:
        return np.where(window > 0.0, SCALABLE_RECOVERY_RTTS * rtt_s, np.nan)
    if control is CongestionControl.HIGHSPEED:
        _, decrease = highspeed_increase_and_decrease(window)
        increase, _ = highspeed_increase_and_decrease(window * (1.0 - decrease / 2.0))
        return decrease * window / increase * rtt_s
    lost = window * (1.0 - CUBIC_BETA)
    friendly_increase = 3.0 * (1.0 - CUBIC_BETA) / (1.0 + CUBIC_BETA)
    return np.minimum(np.cbrt(lost / CUBIC_C), lost / friendly_increase * rtt_s)


def highspeed_increase_and_decrease(window: ArrayLike) -> tuple[Floats, Floats]:
    """HighSpeed's a(w), segments gained each RTT, and b(w), share lost at a loss (RFC 3649, section 5)."""
    segments = _positive(window)
    steepness = (HIGHSPEED_HIGH_DECREASE - 0.5) / math.log(HIGHSPEED_HIGH_WINDOW / HIGHSPEED_LOW_WINDOW)
    decrease = np.minimum(0.5, 0.5 + steepness * np.log(segments / HIGHSPEED_LOW_WINDOW))
    loss = 0.078 / segments**1.2
    increase = segments**2 * loss * 2.0 * decrease / (2.0 - decrease)
    return np.where(segments > HIGHSPEED_LOW_WINDOW, increase, segments * 0.0 + 1.0), decrease


def transfer_time_ratio(actual_s: ArrayLike, ideal_s: ArrayLike) -> Floats:
    """RFC 6349, section 4.1: time of a transfer over its time at the achievable rate; 1 is ideal."""
    return _positive(actual_s) / _positive(ideal_s)


def efficiency_ratio(sent_bytes: ArrayLike, resent_bytes: ArrayLike) -> Floats:
    """RFC 6349, section 4.2: bytes not retransmitted over all bytes sent, 0 to 1."""
    sent = _positive(sent_bytes)
    return (sent - np.asarray(resent_bytes, dtype=np.float64)) / sent


def buffer_delay_ratio(rtt_avg_ms: ArrayLike, rtt_base_ms: ArrayLike) -> Floats:
    """RFC 6349, section 4.3: rise of the RTT during a transfer relative to the idle RTT."""
    base = _positive(rtt_base_ms)
    return (_positive(rtt_avg_ms) - base) / base


def _positive(values: ArrayLike) -> Floats:
    numbers = np.asarray(values, dtype=np.float64)
    return np.where(numbers > 0.0, numbers, np.nan)
