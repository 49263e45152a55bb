"""Models of a TCP stream's throughput at a given loss (probability that a packet starts a loss event), window and RTT.
Arrays broadcast; NaN where undefined.

Sources: Mathis and others (1997); Padhye and others (1998); RFC 9438 (CUBIC); RFC 3649 (HighSpeed); Kelly, "Scalable
TCP" (2003); RFC 8985 (RACK-TLP).
"""

from __future__ import annotations

from enum import StrEnum

import numpy as np
from numpy.typing import ArrayLike

from monitor.analysis.loss import zero_loss_bound_ratio
from monitor.arrays import Bools, Floats

MSS_BYTES = 1460

# The constant of PingER's tables.
MATHIS_PINGER = 1.0

# Minimum that Linux adds to the RTT before it retransmits (RFC 6298, equation 2.3; the RFC itself says 1 s).
LEAST_RTO_MARGIN_MS = 200.0

CUBIC_C = 0.4
CUBIC_BETA = 0.7


class CongestionControl(StrEnum):
    RENO = "reno"
    CUBIC = "cubic"
    HIGHSPEED = "highspeed"
    SCALABLE = "scalable"


def mathis_bps(
    rtt_ms: ArrayLike, loss_ratio: ArrayLike, mss_bytes: ArrayLike = MSS_BYTES, constant: float = MATHIS_PINGER
) -> Floats:
    """Mathis et al. (1997): rate = C·MSS·8 / (RTT·sqrt(p)), PingER's Reno index with C = 1."""
    rtt_s, loss = _seconds(rtt_ms), _ratio(loss_ratio)
    with np.errstate(divide="ignore", invalid="ignore"):
        rate_bps = constant * np.asarray(mss_bytes, dtype=np.float64) * 8.0 / (rtt_s * np.sqrt(loss))
    return np.where((rtt_s > 0.0) & _is_loss(loss), rate_bps, np.nan)


def mathis_estimate(
    rtt_avg_ms: ArrayLike, sent: ArrayLike, received: ArrayLike, mss_bytes: float = MSS_BYTES
) -> tuple[Floats, Bools]:
    """Mathis rate of pooled counts as (bit/s, is_floor): without loss a floor by the 95% bound 3/sent (at most 1); NaN
    without packets or RTT."""
    sent_packets, received_packets, rtt_ms = np.broadcast_arrays(
        np.asarray(sent, dtype=np.float64),
        np.asarray(received, dtype=np.float64),
        np.asarray(rtt_avg_ms, dtype=np.float64),
    )
    with np.errstate(divide="ignore", invalid="ignore"):
        loss = (sent_packets - received_packets) / sent_packets
    none_lost = received_packets >= sent_packets
    rate_bps = mathis_bps(rtt_ms, np.where(none_lost, zero_loss_bound_ratio(sent_packets), loss), mss_bytes)
    rate_bps = np.where(sent_packets > 0, rate_bps, np.nan)
    return rate_bps, none_lost & ~np.isnan(rate_bps)


def reno_window(loss_ratio: ArrayLike) -> Floats:
    """Average window of Reno in segments: 1.2 / sqrt(p) (RFC 3649, section 2)."""
    return _power_law(1.2, 0.5, loss_ratio)


def highspeed_window(loss_ratio: ArrayLike) -> Floats:
    """Average window of HighSpeed TCP in segments: 0.12 / p^0.835 (RFC 3649, section 5), and Reno's below 38."""
    return np.maximum(_power_law(0.12, 0.835, loss_ratio), reno_window(loss_ratio))


def scalable_window(loss_ratio: ArrayLike) -> Floats:
    """Average window of Scalable TCP in segments: 0.08 / p (Kelly 2003), or Reno's if larger; a seventh lower with
    evenly spaced losses."""
    return np.maximum(_power_law(0.08, 1.0, loss_ratio), reno_window(loss_ratio))


def cubic_window(
    rtt_ms: ArrayLike, loss_ratio: ArrayLike, constant: float = CUBIC_C, beta: float = CUBIC_BETA
) -> Floats:
    """Average window of CUBIC in segments (RFC 9438, section 5, figure 6), or Reno's if larger.

    (C·(3 + beta) / (4·(1 - beta)))^(1/4) · RTT^(3/4) / p^(3/4), the RTT in seconds.
    """
    rtt_s = _seconds(rtt_ms)
    growth = (constant * (3.0 + beta) / (4.0 * (1.0 - beta))) ** 0.25
    with np.errstate(invalid="ignore"):
        window = growth * rtt_s**0.75 * _power_law(1.0, 0.75, loss_ratio)
    return np.where(rtt_s > 0.0, np.maximum(window, reno_window(loss_ratio)), np.nan)


def average_window(control: CongestionControl, rtt_ms: ArrayLike, loss_ratio: ArrayLike) -> Floats:
    """Average window in segments, without timeouts."""
    rtt, loss = np.broadcast_arrays(np.asarray(rtt_ms, dtype=np.float64), _ratio(loss_ratio))
    windows = {
        CongestionControl.RENO: reno_window,
        CongestionControl.HIGHSPEED: highspeed_window,
        CongestionControl.SCALABLE: scalable_window,
    }
    return cubic_window(rtt, loss) if control is CongestionControl.CUBIC else windows[control](loss)


def retransmission_timeout_ms(rtt_ms: ArrayLike) -> Floats:
    """Linux's retransmission timeout at a steady RTT: the RTT plus 200 ms."""
    return np.asarray(rtt_ms, dtype=np.float64) + LEAST_RTO_MARGIN_MS


def loss_limit_bps(
    control: CongestionControl, rtt_ms: ArrayLike, loss_ratio: ArrayLike, mss_bytes: ArrayLike = MSS_BYTES
) -> Floats:
    """Goodput of a stream limited by loss alone, 0 at total loss: 8·MSS·(1 - p) / (RTT/W + RTO·q·p²·f(p)).

    PFTK's timeouts, q = min(1, 3·sqrt(3p/8)), b = 1 as in Linux, for every control (RFC 9438, section 5.5); p² for p,
    as RACK-TLP (RFC 8985) needs the retransmission lost too. Lab transfers at 2% to 20% loss agree
    (docs/method/estimate.md).
    """
    rtt_s, loss = _seconds(rtt_ms), _ratio(loss_ratio)
    with np.errstate(divide="ignore", invalid="ignore"):
        timeouts_s = _timeouts_s(_seconds(retransmission_timeout_ms(rtt_ms)), loss)
        packet_s = rtt_s / average_window(control, rtt_ms, loss) + timeouts_s
        rate_bps = np.asarray(mss_bytes, dtype=np.float64) * 8.0 * (1.0 - loss) / packet_s
    return np.where((rtt_s > 0.0) & _is_loss(loss), rate_bps, np.nan)


def loss_ratio_for(
    control: CongestionControl, rate_bps: ArrayLike, rtt_ms: ArrayLike, mss_bytes: ArrayLike = MSS_BYTES
) -> Floats:
    """The loss at which `loss_limit_bps` is this rate, by bisection to 1 part in 10^10, not below 10^-30."""
    rate, rtt, mss = np.broadcast_arrays(
        *(np.asarray(argument, dtype=np.float64) for argument in (rate_bps, rtt_ms, mss_bytes))
    )
    low, high = np.full(rate.shape, -30.0), np.zeros(rate.shape)
    for _ in range(40):
        middle = (low + high) / 2.0
        enough = loss_limit_bps(control, rtt, 10.0**middle, mss) >= rate
        low, high = np.where(enough, middle, low), np.where(enough, high, middle)
    return np.where((rate > 0.0) & (rtt > 0.0), 10.0**low, np.nan)


def window_limit_bps(window_bytes: ArrayLike, rtt_ms: ArrayLike) -> Floats:
    """Rate of a window per RTT (RFC 6349, section 3.3.1), regardless of capacity."""
    rtt_s, window = _seconds(rtt_ms), np.asarray(window_bytes, dtype=np.float64)
    with np.errstate(divide="ignore", invalid="ignore"):
        rate_bps = window * 8.0 / rtt_s
    return np.where((rtt_s > 0.0) & (window > 0.0), rate_bps, np.nan)


def _seconds(milliseconds: ArrayLike) -> Floats:
    return np.asarray(milliseconds, dtype=np.float64) / 1000.0


def _ratio(loss_ratio: ArrayLike) -> Floats:
    return np.asarray(loss_ratio, dtype=np.float64)


def _is_loss(loss: Floats) -> Bools:
    return np.asarray((loss > 0.0) & (loss <= 1.0))


def _power_law(factor: float, exponent: float, loss_ratio: ArrayLike) -> Floats:
    loss = _ratio(loss_ratio)
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(_is_loss(loss), factor / loss**exponent, np.nan)


def _timeouts_s(rto_s: Floats, loss: Floats) -> Floats:
    """Seconds that PFTK's timeouts (b = 1) add to each packet, where the retransmission is lost too."""
    share = np.minimum(1.0, 3.0 * np.sqrt(3.0 * loss / 8.0))
    in_a_row = sum((2.0 ** (power - 1) * loss**power for power in range(1, 7)), start=np.ones_like(loss))
    result: Floats = rto_s * share * loss**2 * in_a_row
    return result
