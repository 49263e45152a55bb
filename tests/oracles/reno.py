"""Published models of Reno that no page shows: the constants of Mathis et al. (1997), and Padhye et al. (1998)."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike, NDArray

Floats = NDArray[np.float64]

MSS_BYTES = 1460

MATHIS_EACH_ACK = math.sqrt(3 / 2)
"""Periodic loss, an acknowledgement for each segment (Mathis, table 1)."""
MATHIS_DELAYED_ACKS = math.sqrt(3 / 4)
"""Periodic loss, an acknowledgement for every second segment (Mathis, table 1)."""


def pftk_bps(
    rtt_ms: ArrayLike,
    loss_ratio: ArrayLike,
    rto_ms: ArrayLike,
    mss_bytes: ArrayLike = MSS_BYTES,
    window_segments: ArrayLike = np.inf,
    packets_per_ack: int = 2,
) -> Floats:
    """The full model of Padhye et al. (1998): Reno's send rate, with timeouts and the receiver's window."""
    rtt_s, rto_s, loss = _seconds(rtt_ms), _seconds(rto_ms), _ratio(loss_ratio)
    most = np.asarray(window_segments, dtype=np.float64)
    b = float(packets_per_ack)
    with np.errstate(divide="ignore", invalid="ignore"):
        between = (1.0 - loss) / loss
        free = (2.0 + b) / (3.0 * b) + np.sqrt(8.0 * between / (3.0 * b) + ((2.0 + b) / (3.0 * b)) ** 2)
        window = np.minimum(free, most)
        rounds = np.where(free < most, b / 2.0 * free + 1.0, b / 8.0 * most + between / most + 2.0)
        timeout = _timeout_share(loss, window) / (1.0 - loss)
        packets = between + window + timeout
        packets_per_s = packets / (rtt_s * rounds + timeout * rto_s * _backoff(loss))
        rate_bps = packets_per_s * np.asarray(mss_bytes, dtype=np.float64) * 8.0
    return np.where((rtt_s > 0.0) & _is_loss(loss) & (loss < 1.0), rate_bps, np.nan)


def pftk_short_bps(
    rtt_ms: ArrayLike,
    loss_ratio: ArrayLike,
    rto_ms: ArrayLike,
    mss_bytes: ArrayLike = MSS_BYTES,
    packets_per_ack: int = 2,
) -> Floats:
    """The short form of Padhye et al. (1998; RFC 3819, section 8.5), without a receiver's window.

    MSS·8 / (RTT·sqrt(2bp/3) + RTO·min(1, 3·sqrt(3bp/8))·p·(1 + 32p²)).
    """
    rtt_s, loss = _seconds(rtt_ms), _ratio(loss_ratio)
    with np.errstate(divide="ignore", invalid="ignore"):
        packet_s = rtt_s * np.sqrt(2.0 * packets_per_ack * loss / 3.0)
        packet_s = packet_s + _timeouts_s(_seconds(rto_ms), loss, packets_per_ack)
        rate_bps = np.asarray(mss_bytes, dtype=np.float64) * 8.0 / packet_s
    return np.where((rtt_s > 0.0) & _is_loss(loss), rate_bps, np.nan)


def _seconds(milliseconds: ArrayLike) -> Floats:
    return np.asarray(milliseconds, dtype=np.float64) / 1000.0


def _ratio(loss_ratio: ArrayLike) -> Floats:
    return np.asarray(loss_ratio, dtype=np.float64)


def _is_loss(loss: Floats) -> NDArray[np.bool_]:
    return np.asarray((loss > 0.0) & (loss <= 1.0))


def _timeouts_s(rto_s: Floats, loss: Floats, packets_per_ack: int) -> Floats:
    """The time that timeouts add to each packet, in PFTK's short form."""
    share = np.minimum(1.0, 3.0 * np.sqrt(3.0 * packets_per_ack * loss / 8.0))
    result: Floats = rto_s * share * loss * (1.0 + 32.0 * loss**2)
    return result


def _timeout_share(loss: Floats, window: Floats) -> Floats:
    """Probability that a loss in this window ends in a timeout (Padhye 1998); 3/W for small losses."""
    kept = 1.0 - loss
    one_of_three = -np.expm1(3.0 * np.log1p(-loss))
    after_three = -np.expm1((window - 3.0) * np.log1p(-loss))
    share = one_of_three * (1.0 + kept**3 * after_three) / -np.expm1(window * np.log1p(-loss))
    return np.minimum(1.0, np.where(window > 3.0, share, 1.0))


def _backoff(loss: Floats) -> Floats:
    """How long a series of doubling timeouts is, in first timeouts (Padhye 1998, f(p))."""
    result: Floats = 1.0 + loss + 2.0 * loss**2 + 4.0 * loss**3 + 8.0 * loss**4 + 16.0 * loss**5 + 32.0 * loss**6
    return result
