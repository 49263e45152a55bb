"""How far the true loss may be from the loss that was counted: exact binomial bounds.

In: counts of packets lost and sent, scalars or arrays that broadcast. Out: arrays of ratios (0 to 1), NaN where
nothing was sent. Clopper and Pearson, "The use of confidence or fiducial limits illustrated in the case of the
binomial" (Biometrika 26, 1934), each bound one-sided. Pings are taken as independent; losses in one burst of congestion
are not, so pool over windows that are longer than such bursts.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import betaincinv

Floats = NDArray[np.float64]


def lower_bound(lost: ArrayLike, sent: ArrayLike, confidence: float = 0.95) -> Floats:
    """The loss ratio that the true one is above with `confidence`; 0 where nothing was lost."""
    lost_packets, sent_packets = _counts(lost, sent)
    some = np.maximum(lost_packets, 1.0)
    bound = betaincinv(some, np.maximum(sent_packets - some, 0.0) + 1.0, 1.0 - confidence)
    return _where_sent(np.where(lost_packets > 0, bound, 0.0), sent_packets)


def upper_bound(lost: ArrayLike, sent: ArrayLike, confidence: ArrayLike = 0.95) -> Floats:
    """The loss ratio that the true one is below with `confidence`; 1 where everything was lost."""
    lost_packets, sent_packets = _counts(lost, sent)
    arrived = np.maximum(sent_packets - lost_packets, 1.0)
    bound = betaincinv(lost_packets + 1.0, arrived, confidence)
    return _where_sent(np.where(lost_packets < sent_packets, bound, 1.0), sent_packets)


def _counts(lost: ArrayLike, sent: ArrayLike) -> tuple[Floats, Floats]:
    lost_packets, sent_packets = np.broadcast_arrays(
        np.asarray(lost, dtype=np.float64), np.asarray(sent, dtype=np.float64)
    )
    if np.any(lost_packets < 0) or np.any(lost_packets > sent_packets):
        raise ValueError("lost must lie between 0 and sent")
    return lost_packets, sent_packets


def _where_sent(bound: Floats, sent_packets: Floats) -> Floats:
    return np.where(sent_packets > 0, bound, np.nan)
