"""The loss of a path without an incident while it lasts, and whether its later packets prove that it is over.

In: begin, packets sent and received of its newest bursts, oldest first, and of those of the reverse path. Out: the
packets since the loss began; None once it is over, so that it is not said again without new lost packets; and the
losses that are over.

A loss is that of the bursts since its likeliest rise: the clean time before it does not make it less. It is over after
a burst with a loss from which on so few lost packets have a probability of 1 - CONFIDENCE at that loss. One that came
back soon after such an end comes and goes: it is over only after twice the time that it was away. A loss that is
higher for certain is none that came back. The round trips of both directions cross the same links: where the packets of
both prove an end together, so that each has at least half of a proof, it is over.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import log

import numpy as np
from numpy.typing import ArrayLike, NDArray

from monitor.analysis import binomial
from monitor.analysis.changes.ended_loss import CONFIDENCE, USUAL_SHARE, nats_against
from monitor.analysis.changes.present import LostPackets, by_begin, likeliest

Floats = NDArray[np.float64]

RISE_NATS = 5.0
"""A rise is so much likelier than a constant loss: the many places where it may be take a few nats."""
LEAST_LOST = 3
"""Fewer lost packets are no sign of a loss."""
SOON = 4.0
AGAIN_LOST = 2
"""A loss came back soon: within so many times the packets that prove its end, with so many lost."""
LONGER = 2.0
"""It is over after so many times the packets for which it was away."""
OF_PAIR = 0.5
"""Of the proof of an end, that the packets of a path have if those of both directions prove it together."""
NO_PACKETS = LostPackets(0.0, 0.0)


@dataclass(frozen=True, slots=True)
class LastingLoss(LostPackets):
    """The packets since the first burst of a loss, at `since_s`; `clean_since_s` is the first burst after the newest
    with a lost packet, None where that is the newest of all, and `clean_sent` the packets since."""

    since_s: float = 0.0
    clean_since_s: float | None = None
    clean_sent: float = 0.0

    @property
    def is_half_over(self) -> bool:
        """Whether the packets since the last lost one have OF_PAIR of a proof that the loss is over."""
        nats = nats_against(np.zeros(1), np.array([self.clean_sent]), self.ratio)
        return float(nats[0]) >= -OF_PAIR * log(1.0 - CONFIDENCE)


@dataclass(frozen=True, slots=True)
class EndedLoss(LostPackets):
    """A loss that is over: the packets from its first burst, at `since_s`, up to the first after it, at `over_since_s`,
    and the packets `after` from there on."""

    since_s: float = 0.0
    over_since_s: float = 0.0
    after: LostPackets = NO_PACKETS


@dataclass(frozen=True, slots=True)
class RecentLosses:
    """The loss that lasts, None without any, and those that are over, the newest first."""

    lasting: LastingLoss | None
    ended: tuple[EndedLoss, ...] = ()


Columns = tuple[ArrayLike, ArrayLike, ArrayLike]


def recent_losses_of_pair(own: Columns, reverse: Columns) -> RecentLosses:
    """As `recent_losses` of a path, over also where its packets and those of the reverse path prove it together."""
    losses = recent_losses(*own)
    loss = losses.lasting
    if loss is None or not loss.is_half_over or not len(np.atleast_1d(reverse[0])):
        return losses
    both = recent_losses(*(np.concatenate(columns) for columns in zip(own, reverse, strict=True)))
    if both.lasting is not None or loss.clean_since_s is None:
        return losses
    after = LostPackets(loss.clean_sent, 0.0)
    ended = EndedLoss(
        loss.sent - loss.clean_sent, loss.lost, since_s=loss.since_s, over_since_s=loss.clean_since_s, after=after
    )
    return RecentLosses(None, (ended, *losses.ended))


def recent_losses(at_s: ArrayLike, sent: ArrayLike, received: ArrayLike) -> RecentLosses:
    """The losses of these bursts, the lasting one since its rise; that is None where it is over, or too few packets are
    lost. Times are in seconds."""
    begins, packets, answered = by_begin(at_s, sent, received)
    lost, back = packets - answered, _CameBack()
    ended: list[EndedLoss] = []
    while (end := _first_end(packets, lost, back)) is not None:
        first, proof = end
        away = _packets_until_back(packets[first:], lost[first:], proof)
        if away is not None and away > back.least / LONGER:
            back = _CameBack(LONGER * away, first, _bounds(packets[:first], lost[:first])[1])
        else:
            ended.insert(0, _ended(begins, packets, lost, first))
            begins, packets, lost, back = begins[first:], packets[first:], lost[first:], _CameBack()
    rise = _rise(packets, lost)
    if lost[rise:].sum() < LEAST_LOST:
        return RecentLosses(None, tuple(ended))
    clean = int(np.flatnonzero(lost)[-1]) + 1
    lasting = LastingLoss(
        float(packets[rise:].sum()),
        float(lost[rise:].sum()),
        since_s=float(begins[rise]),
        clean_since_s=float(begins[clean]) if clean < len(begins) else None,
        clean_sent=float(packets[clean:].sum()),
    )
    return RecentLosses(lasting, tuple(ended))


def _ended(begins: Floats, packets: Floats, lost: Floats, first: int) -> EndedLoss:
    """The loss that is over since the burst `first`."""
    rise = _rise(packets[:first], lost[:first])
    return EndedLoss(
        float(packets[rise:first].sum()),
        float(lost[rise:first].sum()),
        since_s=float(begins[rise]),
        over_since_s=float(begins[first]),
        after=LostPackets(float(packets[first:].sum()), float(lost[first:].sum())),
    )


@dataclass(frozen=True, slots=True)
class _CameBack:
    """A loss that came back after an end before the burst `first` is over after more packets than `least`. One that
    rose later, to more than its bound `most` for certain, is another."""

    least: float = 0.0
    first: int = 0
    most: float = 1.0


def _first_end(packets: Floats, lost: Floats, back: _CameBack) -> tuple[int, float] | None:
    """The burst after the first proven end, and the packets that prove it."""
    for last in np.flatnonzero((lost[:-1] > 0) & (lost[1:] == 0)).tolist():
        rise = _rise(packets[: last + 1], lost[: last + 1])
        of_loss, lost_then = packets[rise : last + 1], lost[rise : last + 1]
        # The last lost packet, which ends the time before, does not count in its loss.
        ratio = (float(lost_then.sum()) - 1.0) / max(float(of_loss.sum()) - 1.0, 1.0)
        if ratio <= 0.0:
            continue
        since, few = packets[last + 1 :].cumsum(), lost[last + 1 :].cumsum()
        in_events = binomial.clustering(len(of_loss), np.count_nonzero(lost_then), of_loss.sum(), lost_then.sum())
        enough = -log(1.0 - CONFIDENCE) * max(binomial.dispersion([(of_loss, lost_then)]), float(in_events))
        is_another = back.least > 0.0 and rise >= back.first and _bounds(of_loss, lost_then)[0] > back.most
        is_proven = (
            (since > (0.0 if is_another else back.least))
            & (few <= USUAL_SHARE * ratio * since)
            & (nats_against(few, since, ratio) >= enough)
        )
        if is_proven.any():
            return last + 1, float(since[is_proven.argmax()])
    return None


def _bounds(packets: Floats, lost: Floats) -> tuple[float, float]:
    """The 99.5% bounds of the loss since its rise."""
    rise = _rise(packets, lost)
    together = binomial.dispersion([(packets[rise:], lost[rise:])])
    counts = float(lost[rise:].sum()) / together, float(packets[rise:].sum()) / together
    return float(binomial.lower_bound(*counts, 0.995)), float(binomial.upper_bound(*counts, 0.995))


def _packets_until_back(packets: Floats, lost: Floats, proof: float) -> float | None:
    """The packets from a proven end until the loss came back soon after the proof; None where it did not."""
    before = packets.cumsum() - packets
    soon = np.flatnonzero((lost > 0) & (before >= proof) & (before <= SOON * proof))
    return float(before[soon[0]]) if lost[soon].sum() >= AGAIN_LOST else None


def _rise(packets: Floats, lost: Floats) -> int:
    """The first burst after the likeliest rise; 0 where it is not likely enough."""
    first, likelier = likeliest(lost, packets, only_rises=True)
    return first if likelier >= RISE_NATS else 0
