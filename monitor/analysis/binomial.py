"""Exact one-sided binomial bounds of the true loss, NaN where nothing was sent. Clopper and Pearson, "The use of
confidence or fiducial limits illustrated in the case of the binomial" (Biometrika 26, 1934). Divide counts of dependent
packets by `clustering` or `dispersion`."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import scipy  # loads scipy.special at its first use: half a second, which most processes do not need
from numpy.typing import ArrayLike

from monitor.arrays import Floats

# Fewer degrees of freedom give no dispersion.
LEAST_FREEDOM = 4


def lower_bound(lost: ArrayLike, sent: ArrayLike, confidence: float = 0.95) -> Floats:
    """Lower bound of the loss ratio with `confidence`; 0 where nothing was lost."""
    lost_packets, sent_packets = _counts(lost, sent)
    some = np.maximum(lost_packets, 1.0)
    bound = scipy.special.betaincinv(some, np.maximum(sent_packets - some, 0.0) + 1.0, 1.0 - confidence)
    return _where_sent(np.where(lost_packets > 0, bound, 0.0), sent_packets)


def upper_bound(lost: ArrayLike, sent: ArrayLike, confidence: ArrayLike = 0.95) -> Floats:
    """Upper bound of the loss ratio with `confidence`; 1 where everything was lost."""
    lost_packets, sent_packets = _counts(lost, sent)
    arrived = np.maximum(sent_packets - lost_packets, 1.0)
    bound = scipy.special.betaincinv(lost_packets + 1.0, arrived, confidence)
    return _where_sent(np.where(lost_packets < sent_packets, bound, 1.0), sent_packets)


def at_least(lost: ArrayLike, sent: ArrayLike, ratio: ArrayLike) -> Floats:
    """Probability of at least this many lost packets at a true loss of `ratio`. Counts need not be integers."""
    lost_packets, sent_packets = _counts(lost, sent)
    some = np.maximum(lost_packets, np.finfo(np.float64).tiny)
    return np.where(lost_packets > 0, scipy.special.betainc(some, sent_packets - lost_packets + 1.0, ratio), 1.0)


def clustering(bursts: ArrayLike, lossy: ArrayLike, sent: ArrayLike, lost: ArrayLike) -> Floats:
    """Packets lost per loss event, at least 1: divide counts by it to make them independent.

    Bursts expected to lose a packet under independent loss, over the number that did. Requires a loss.
    """
    of, had, packets, missing = (np.asarray(counts, dtype=np.float64) for counts in (bursts, lossy, sent, lost))
    expected = of * (1.0 - (1.0 - missing / packets) ** (packets / of))
    return np.maximum(expected / had, 1.0)


def dispersion(parts: Iterable[tuple[Floats, Floats]]) -> float:
    """Variance of the packets lost by a burst over independent losses, at least 1: divide counts by it.

    `parts` have packets sent and lost by burst. Mean square successive difference (von Neumann 1941) of bursts or pairs
    of neighbours; 1 below LEAST_FREEDOM.
    """
    arrays = list(parts)
    return max(1.0, *(_dispersion(arrays, neighbours) for neighbours in (1, 2)))


def _dispersion(parts: Iterable[tuple[Floats, Floats]], neighbours: int) -> float:
    squares, freedom = 0.0, 0
    for sent, lost in parts:
        first = len(sent) % neighbours
        packets, missing = (counts[first:].reshape(-1, neighbours).sum(axis=1) for counts in (sent, lost))
        if 0.0 < missing.sum() < packets.sum():
            ratio = missing.sum() / packets.sum()
            residuals = (missing - ratio * packets) / np.sqrt(np.maximum(packets, 1.0))
            squares += float((np.diff(residuals) ** 2).sum() / 2.0 / (ratio * (1.0 - ratio)))
            freedom += len(packets) - 1
    return squares / freedom if freedom >= LEAST_FREEDOM else 1.0


def _counts(lost: ArrayLike, sent: ArrayLike) -> tuple[Floats, Floats]:
    lost_packets, sent_packets = np.broadcast_arrays(
        np.asarray(lost, dtype=np.float64), np.asarray(sent, dtype=np.float64)
    )
    if np.any(lost_packets < 0) or np.any(lost_packets > sent_packets):
        raise ValueError("lost must lie between 0 and sent")
    return lost_packets, sent_packets


def _where_sent(bound: Floats, sent_packets: Floats) -> Floats:
    return np.where(sent_packets > 0, bound, np.nan)
