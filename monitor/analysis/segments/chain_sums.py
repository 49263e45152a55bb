"""The four sums of a burst in Gilbert's chain, shape (4, ...): AFTER_RECEIVED, ITS_LOST, AFTER_LOST, OF_IT_LOST. Sums
of bursts add; before the first packet counts as received."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

Floats = NDArray[np.float64]

AFTER_RECEIVED, LOST_AFTER_RECEIVED, AFTER_LOST, LOST_AFTER_LOST = range(4)


def sums_in_order(lost: ArrayLike, was_lost: ArrayLike = False) -> Floats:
    """Sums of bursts by whether each packet is lost, shape (..., packets), in sending order. `was_lost` is the last
    packet of the burst before."""
    packets = np.asarray(lost, dtype=np.bool_)
    first = np.broadcast_to(np.asarray(was_lost, dtype=np.bool_), packets.shape[:-1])[..., np.newaxis]
    after_lost = np.concatenate([first, packets[..., :-1]], axis=-1)
    parts = (~after_lost, packets & ~after_lost, after_lost, packets & after_lost)
    return np.stack([part.sum(axis=-1) for part in parts]).astype(np.float64)


def sums_of_whole(sent: ArrayLike, received: ArrayLike, was_lost: ArrayLike = False) -> Floats:
    """Sums of bursts with all or no packets received; `sent` is at least 1."""
    packets = np.asarray(sent, dtype=np.float64)
    is_dead = np.asarray(received, dtype=np.float64) == 0.0
    first = np.asarray(was_lost, dtype=np.float64)
    after_lost = np.where(is_dead, packets - 1.0 + first, first)
    lost_after_received = np.where(is_dead, 1.0 - first, 0.0)
    return np.stack([packets - after_lost, lost_after_received, after_lost, np.where(is_dead, after_lost, 0.0)])


def sums_without_order(sent: ArrayLike, received: ArrayLike) -> Floats:
    """Sums of packets in unknown order: each counts as sent after a received one."""
    packets = np.asarray(sent, dtype=np.float64)
    nothing = np.zeros_like(packets)
    return np.stack([packets, packets - np.asarray(received, dtype=np.float64), nothing, nothing])


def gone_on(sums: Floats, first_lost: ArrayLike, was_lost: ArrayLike) -> Floats:
    """Sums of bursts that continue the chain of the packet before, from sums that began anew."""
    moves = np.asarray(was_lost, dtype=np.float64)
    lost = moves * np.asarray(first_lost, dtype=np.float64)
    return sums + np.stack([-moves, -lost, moves, lost])


def from_first_reply(sums: Floats, unanswered: ArrayLike, was_lost: ArrayLike) -> Floats:
    """Sums from the first reply on, from `gone_on` sums, losses before that reply, and whether the packet before was
    lost."""
    lost = np.asarray(unanswered, dtype=np.float64)
    first = (lost > 0.0) * (1.0 - np.asarray(was_lost, dtype=np.float64))
    return sums - np.stack([first, first, lost - first, lost - first])
