"""What one TCP stream can get on a path, from its round-trip time and loss.

In: round-trip times in ms, loss as a ratio (0 to 1) or as counts of packets, scalars or arrays that broadcast.
Out: arrays of bit/s, NaN where the answer is not defined. Here is the Mathis model only; which model binds, and how far
each is from what was measured, is not decided here.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from monitor.analysis.pinger import ZERO_LOSS_BOUND

MSS_BYTES = 1460

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]


def mathis_bps(rtt_ms: ArrayLike, loss_ratio: ArrayLike, mss_bytes: float = MSS_BYTES, constant: float = 1.0) -> Floats:
    """Mathis et al. (1997): rate = C·MSS·8 / (RTT·sqrt(p)), the Reno index that PingER's tables show with C = 1.

    NaN where the model has no answer: round-trip time or loss is absent (NaN), zero or below, or loss is above 1.
    """
    rtt_s = np.asarray(rtt_ms, dtype=np.float64) / 1000.0
    loss = np.asarray(loss_ratio, dtype=np.float64)
    with np.errstate(divide="ignore", invalid="ignore"):
        rate_bps = constant * mss_bytes * 8.0 / (rtt_s * np.sqrt(loss))
    defined = (rtt_s > 0.0) & (loss > 0.0) & (loss <= 1.0)
    return np.where(defined, rate_bps, np.nan)


def mathis_estimate(
    rtt_avg_ms: ArrayLike, sent: ArrayLike, received: ArrayLike, mss_bytes: float = MSS_BYTES
) -> tuple[Floats, Bools]:
    """The Mathis rate of pooled counts, and where it is only a floor, as (bit/s, is_floor).

    Loss is (sent - received) / sent. Where nothing was lost it is taken at its upper 95% bound, 3/sent and at most 1,
    so that the true rate is that or more: is_floor is true there. NaN, and not a floor, where nothing was sent or
    there is no average round-trip time, which is so wherever nothing was received.
    """
    sent_packets, received_packets, rtt_ms = np.broadcast_arrays(
        np.asarray(sent, dtype=np.float64),
        np.asarray(received, dtype=np.float64),
        np.asarray(rtt_avg_ms, dtype=np.float64),
    )
    with np.errstate(divide="ignore", invalid="ignore"):
        loss = (sent_packets - received_packets) / sent_packets
        bound = np.minimum(ZERO_LOSS_BOUND / sent_packets, 1.0)
    none_lost = received_packets >= sent_packets
    rate_bps = mathis_bps(rtt_ms, np.where(none_lost, bound, loss), mss_bytes)
    rate_bps = np.where(sent_packets > 0, rate_bps, np.nan)
    return rate_bps, none_lost & ~np.isnan(rate_bps)
