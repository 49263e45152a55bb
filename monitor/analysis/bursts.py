"""Bursts as arrays: masks of sent and lost packets, and figures of each row. RTTs have the shape (bursts, packets) in
ms, NaN or None where lost."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from monitor.arrays import Bools, Floats, Ints


def as_bursts(rtts_ms: ArrayLike) -> Floats:
    """RTTs as a two-dimensional array; a one-dimensional input is a single burst. Raises ValueError for more
    dimensions."""
    rtts = np.atleast_2d(np.asarray(rtts_ms, dtype=np.float64))
    if rtts.ndim != 2:
        raise ValueError(f"round trips have {rtts.ndim} dimensions; give an array of shape (bursts, packets)")
    return rtts


def sent_and_lost(rtts_ms: ArrayLike, sent: ArrayLike | None) -> tuple[Bools, Bools]:
    """Masks of sent and of lost packets, each of shape (bursts, packets).

    `sent` counts packets from the start of a row; None is all. Raises ValueError where it does not fit.
    """
    unanswered = np.isnan(as_bursts(rtts_ms))
    if sent is None:
        return np.ones_like(unanswered), unanswered
    bursts, packets = unanswered.shape
    counts = np.broadcast_to(np.asarray(sent), (bursts,))
    if (counts < 0).any() or (counts > packets).any():
        raise ValueError(f"sent must be between 0 and the {packets} packets of a row")
    was_sent: Bools = np.arange(packets) < counts[:, np.newaxis]
    if not (was_sent | unanswered).all():
        raise ValueError("a burst has a round trip after the packets that it sent; fill rows up with NaN at their end")
    return was_sent, unanswered & was_sent


def averages(rtts: Floats) -> Floats:
    """The mean of each row's values."""
    answered = ~np.isnan(rtts)
    with np.errstate(invalid="ignore"):
        mean: Floats = np.where(answered, rtts, 0.0).sum(axis=1) / answered.sum(axis=1)
    return mean


def interquartile_ranges(rows: Floats) -> Floats:
    """P75 minus P25 of each row's values, by a single sort; NumPy's `nanquantile` calls Python for each row."""
    bursts, values = rows.shape
    if not values:
        return np.full(bursts, np.nan)
    ordered = np.sort(rows, axis=1)
    last = np.maximum((~np.isnan(rows)).sum(axis=1) - 1, 0)
    return _quantiles(ordered, last, 0.75) - _quantiles(ordered, last, 0.25)


def _quantiles(ordered: Floats, last: Ints, share: float) -> Floats:
    position = share * last
    below = position.astype(np.int64)
    row = np.arange(len(ordered))
    lower = ordered[row, below]
    return lower + (position - below) * (ordered[row, np.minimum(below + 1, last)] - lower)
