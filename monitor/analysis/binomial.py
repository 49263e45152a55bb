"""How far the true loss may be from the loss that was counted: exact binomial bounds.

In: counts of packets lost and sent, scalars or arrays that broadcast. Out: arrays of ratios (0 to 1), NaN where
nothing was sent. Clopper and Pearson, "The use of confidence or fiducial limits illustrated in the case of the
binomial" (Biometrika 26, 1934), each bound one-sided. Packets are taken as independent; where they are lost together,
divide the counts by `clustering`.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import betainc, betaincinv

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


def at_least(lost: ArrayLike, sent: ArrayLike, ratio: ArrayLike) -> Floats:
    """How probable so many lost packets, or more, are where the true loss is `ratio`; 1 where nothing was lost.

    Counts need not be whole.
    """
    lost_packets, sent_packets = _counts(lost, sent)
    some = np.maximum(lost_packets, np.finfo(np.float64).tiny)
    return np.where(lost_packets > 0, betainc(some, sent_packets - lost_packets + 1.0, ratio), 1.0)


def clustering(bursts: ArrayLike, lossy: ArrayLike, sent: ArrayLike, lost: ArrayLike) -> Floats:
    """How many packets are lost for one reason, at least 1: what to divide counts by that are to be independent.

    As many bursts as would have lost something, had each packet been lost for itself, over those that did. Where a
    burst loses all or nothing, that is nearly its length. Something must have been lost.
    """
    of, had, packets, missing = (np.asarray(one, dtype=np.float64) for one in (bursts, lossy, sent, lost))
    expected = of * (1.0 - (1.0 - missing / packets) ** (packets / of))
    return np.maximum(expected / had, 1.0)


def _counts(lost: ArrayLike, sent: ArrayLike) -> tuple[Floats, Floats]:
    lost_packets, sent_packets = np.broadcast_arrays(
        np.asarray(lost, dtype=np.float64), np.asarray(sent, dtype=np.float64)
    )
    if np.any(lost_packets < 0) or np.any(lost_packets > sent_packets):
        raise ValueError("lost must lie between 0 and sent")
    return lost_packets, sent_packets


def _where_sent(bound: Floats, sent_packets: Floats) -> Floats:
    return np.where(sent_packets > 0, bound, np.nan)
