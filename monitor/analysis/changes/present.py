"""The loss of now, from the newest bursts of a path.

In: begin, packets sent and received of the newest bursts, oldest first. Out: the loss of now: of the newest part of the
stretch in which the loss has not changed, long enough to tell the loss near enough. The boundary of a stretch is the
likeliest between two binomial levels, as in `onset`; it counts only if the two levels are likelier by so many nats than
a single level.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy  # loads scipy.special at its first use: half a second, which most processes do not need
from numpy.typing import ArrayLike, NDArray

from monitor.analysis import binomial

Floats = NDArray[np.float64]

CHANGE_NATS = 7.0
"""Twice this is the 0.02% point of chi-squared with one degree of freedom. The stretch is looked at every ten seconds
and its begin never moves back, so that chance has many looks."""
ONSET_NATS = 2.0
"""For a boundary where a rise is known to be, so that only its place is in doubt."""
PRECISE_LOST = 24.0
"""So many independently lost packets tell a loss within a factor of 1.5: exp(1.96 / sqrt(24)) = 1.49, by the 95%
interval of a Poisson count."""
PEAK_CONFIDENCE = 0.999
"""Of a loss that is taken for the worst: the worst of many evaluations is too high by chance."""


@dataclass(frozen=True, slots=True)
class LostPackets:
    """Packets sent and lost in bursts, and how many were lost per loss event (`binomial.clustering`)."""

    sent: float
    lost: float
    together: float = 1.0

    @property
    def ratio(self) -> float:
        return self.lost / self.sent

    @property
    def is_precise(self) -> bool:
        """Whether the ratio is near the true loss: nothing lost, everything, or PRECISE_LOST independent packets."""
        return self.lost in (0.0, self.sent) or self.lost >= PRECISE_LOST * self.together

    @property
    def lower_ratio(self) -> float:
        """The lower bound of the true loss with PEAK_CONFIDENCE."""
        return float(binomial.lower_bound(self.lost / self.together, self.sent / self.together, PEAK_CONFIDENCE))


@dataclass(frozen=True, slots=True)
class PresentLoss:
    """`now` is the loss of the bursts since `since_s`, in seconds since the epoch; `stretch` of all since the last
    change. `changed_s` is the time of that change if it is within these bursts, and `has_changed` whether it came
    after the detection."""

    now: LostPackets
    stretch: LostPackets
    since_s: float
    changed_s: float | None
    has_changed: bool


def present_loss(
    at_s: ArrayLike, sent: ArrayLike, received: ArrayLike, recent_s: float, detected_s: float, *, rises: bool
) -> PresentLoss | None:
    """The loss of now in these bursts, which begin at the last change known before; None without packets.

    It is of the time since `recent_s`, and longer where that is not precise. The loss was detected at `detected_s`;
    with `rises` its rise is looked for before that. Bursts that begin together are not parted. Times are in seconds.
    """
    begins, packets, answered = _by_begin(at_s, sent, received)
    if not packets.sum():
        return None
    detected = int(np.searchsorted(begins, detected_s))
    first = present_stretch(packets, answered, detected if rises else 0)
    part = first + newest_part(begins[first:], packets[first:], answered[first:], recent_s)
    if not packets[part:].sum():
        part = first
    has_changed = first > 0 and first >= detected
    return PresentLoss(
        _counts(packets[part:], answered[part:]),
        _counts(packets[first:], answered[first:]),
        float(begins[part]),
        float(begins[first]) if first else None,
        has_changed,
    )


def present_stretch(sent: ArrayLike, received: ArrayLike, detected: int = 0) -> int:
    """The first burst after the last change of the loss; 0 without any.

    `detected` is the number of bursts that had begun when a rise was detected: it began with one of them, or before
    the window.
    """
    packets = np.asarray(sent, dtype=np.float64)
    lost = packets - np.asarray(received, dtype=np.float64)
    first = _boundary(lost[:detected], packets[:detected], ONSET_NATS, only_rises=True)
    while True:
        later = _boundary(lost[first:], packets[first:], CHANGE_NATS)
        if not later:
            return first
        first += later


def newest_part(at_s: ArrayLike, sent: ArrayLike, received: ArrayLike, recent_s: float) -> int:
    """The first burst of the newest part of a stretch that begins at `recent_s` or before, and early enough to be
    precise. Where nothing was lost since then, the first burst after the last loss."""
    begins = np.asarray(at_s, dtype=np.float64)
    lost = np.asarray(sent, dtype=np.float64) - np.asarray(received, dtype=np.float64)
    first, lossy = int(np.searchsorted(begins, recent_s)), np.flatnonzero(lost)
    if not len(lossy):
        return 0
    if first < len(lost) and not lost[first:].any():
        return int(lossy[-1]) + 1
    enough = PRECISE_LOST * _counts(sent, received).together
    since = np.flatnonzero(lost[::-1].cumsum()[::-1] >= enough)
    return min(first, int(since[-1])) if len(since) else 0


def _by_begin(at_s: ArrayLike, sent: ArrayLike, received: ArrayLike) -> tuple[Floats, Floats, Floats]:
    """The times at which bursts begin, with the packets of all bursts that begin then."""
    begins, of = np.unique(np.asarray(at_s, dtype=np.float64), return_inverse=True)
    packets, answered = np.zeros(len(begins)), np.zeros(len(begins))
    np.add.at(packets, of, np.asarray(sent, dtype=np.float64))
    np.add.at(answered, of, np.asarray(received, dtype=np.float64))
    return begins, packets, answered


def _counts(sent: ArrayLike, received: ArrayLike) -> LostPackets:
    packets = np.asarray(sent, dtype=np.float64)
    lost = packets - np.asarray(received, dtype=np.float64)
    all_sent, all_lost = float(packets.sum()), float(lost.sum())
    if not all_lost:
        return LostPackets(all_sent, 0.0)
    together = binomial.clustering(len(packets), np.count_nonzero(lost), all_sent, all_lost)
    return LostPackets(all_sent, all_lost, float(together))


def _boundary(lost: Floats, sent: Floats, least_nats: float, *, only_rises: bool = False) -> int:
    """The first burst after the likeliest change; 0 where it is less likely than that."""
    if len(sent) < 2:
        return 0
    before, of_before = lost.cumsum()[:-1], sent.cumsum()[:-1]
    after, of_after = lost.sum() - before, sent.sum() - of_before
    nats = _binomial(before, of_before) + _binomial(after, of_after) - _binomial(lost.sum(), sent.sum())
    if only_rises:
        nats = np.where(after * of_before > before * of_after, nats, -np.inf)
    best = int(nats.argmax())
    return best + 1 if nats[best] >= least_nats else 0


def _binomial(lost: ArrayLike, sent: ArrayLike) -> Floats:
    """The maximum log-likelihood of so many lost packets."""
    missing, of = np.asarray(lost, dtype=np.float64), np.maximum(np.asarray(sent, dtype=np.float64), 1.0)
    return np.asarray(
        scipy.special.xlogy(missing, missing / of) + scipy.special.xlogy(of - missing, 1.0 - missing / of)
    )
