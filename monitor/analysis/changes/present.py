"""The loss of now, from the newest bursts of a path.

In: begin, packets sent and received of the newest bursts, oldest first. Out: the loss of now: of the newest part of the
stretch in which the loss has not changed, long enough to tell the loss near enough. The boundary of a stretch is the
likeliest between two binomial levels, as in `onset`; it counts only if the two levels are likelier by so many nats than
a single level. Where packets are lost together, these nats and all bounds are of fewer packets (`binomial.dispersion`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import scipy  # loads scipy.special at its first use: half a second, which most processes do not need
from numpy.typing import ArrayLike, NDArray

from monitor.analysis import binomial, figures
from monitor.analysis.changes.ended_loss import CleanRun, clean_run
from monitor.analysis.loss import LEAST_UNANSWERED

Floats = NDArray[np.float64]

CHANGE_NATS = 7.0
"""Twice this is the 0.02% point of chi-squared with one degree of freedom. The stretch is looked at every ten seconds
and its begin never moves back, so that chance has many looks."""
ONSET_NATS = 2.0
"""For a boundary where a rise is known to be, so that only its place is in doubt."""
ENOUGH_LOST = 24.0
"""So many independently lost packets tell a loss within a factor of 1.5: exp(1.96 / sqrt(24)) = 1.49, by the 95%
interval of a Poisson count. The loss of now is of no more time than that takes."""
CONFIDENCE = 0.98
"""Of the interval that is stated of a loss, and of the bound where nothing was lost: so that it holds in 95 of 100
cases where the dispersion is estimated too."""
WORSE_CONFIDENCE = 0.9995
"""Of the lower bound of a loss that is called worse than another: it is the worst of many evaluations."""

FEW_BURSTS = 8
"""Too few to tell how much the lost packets of a burst vary on both sides of a change."""


@dataclass(frozen=True, slots=True)
class LostPackets:
    """Packets sent and lost in bursts, and how many times more their number varies than that of independent losses."""

    sent: float
    lost: float
    together: float = 1.0

    @property
    def ratio(self) -> float:
        return self.lost / self.sent

    @property
    def interval(self) -> tuple[float, float]:
        """The interval of the true loss with CONFIDENCE; where nothing was lost its upper bound."""
        if not self.lost:
            return 0.0, float(binomial.upper_bound(0.0, self.sent / self.together, CONFIDENCE))
        counts, one_sided = (self.lost / self.together, self.sent / self.together), (1.0 + CONFIDENCE) / 2.0
        return float(binomial.lower_bound(*counts, one_sided)), float(binomial.upper_bound(*counts, one_sided))

    @property
    def text(self) -> str:
        """With the digits that its packets prove, else its interval: `5.2%`, `4 to 7%`, `below 1.3%`."""
        return figures.percent_between(self.ratio, *self.interval)

    @property
    def short_text(self) -> str:
        """For a cell, in place of an interval: `~5%`."""
        return figures.about_percent(self.ratio, *self.interval)

    def is_above(self, other: LostPackets) -> bool:
        """Whether this is the higher loss for certain, though one of both was chosen among many; an outage is."""
        if self.lost == self.sent >= LEAST_UNANSWERED:
            return other.lost < other.sent
        counts = self.lost / self.together, self.sent / self.together
        return float(binomial.lower_bound(*counts, WORSE_CONFIDENCE)) > other.interval[1]


def pooled(every: Sequence[LostPackets]) -> LostPackets:
    """The mean loss of several paths, each of its own number of packets, as a loss of all these packets that varies as
    much as the mean."""
    sent, ratio = sum(of.sent for of in every), sum(of.ratio for of in every) / len(every)
    if ratio in (0.0, 1.0):
        return LostPackets(sent, ratio * sent, max(of.together for of in every))
    smoothed = [((of.lost + of.together / 2.0) / (of.sent + of.together), of.sent / of.together) for of in every]
    variance = sum(of_path * (1.0 - of_path) / packets for of_path, packets in smoothed) / len(every) ** 2
    return LostPackets(sent, ratio * sent, variance * sent / (ratio * (1.0 - ratio)))


def summed(every: Sequence[LostPackets]) -> LostPackets:
    """The packets of several paths, which vary at most as much as the worst."""
    together = max(of.together for of in every)
    return LostPackets(sum(of.sent for of in every), sum(of.lost for of in every), together)


def worse(worst: LostPackets | None, stretch: LostPackets) -> LostPackets:
    """The worse of the worst loss until now and of the present stretch; of two that packets do not tell apart that of
    more packets, since the highest of many noisy figures is too high."""
    if worst is None or stretch.is_above(worst):
        return stretch
    return stretch if stretch.sent > worst.sent and not worst.is_above(stretch) else worst


@dataclass(frozen=True, slots=True)
class PresentLoss:
    """`now` is the loss of the bursts since `since_s`, in seconds since the epoch; `stretch` of all since the last
    change. `changed_s` is the time of that change if it is within these bursts, and `has_changed` whether it came
    after the detection. `ended` are the packets of the stretch before it, `clean` those of the stretch
    after its last burst with a loss."""

    now: LostPackets
    stretch: LostPackets
    since_s: float
    changed_s: float | None
    has_changed: bool
    ended: LostPackets | None = None
    clean: CleanRun | None = None


def present_loss(
    at_s: ArrayLike,
    sent: ArrayLike,
    received: ArrayLike,
    recent_s: float,
    detected_s: float,
    *,
    rises: bool,
    together: float = 1.0,
) -> PresentLoss | None:
    """The loss of now in these bursts, which begin at the last change known before; None without packets.

    It is of the time since `recent_s`, and longer where that has lost too few. The loss was detected at `detected_s`;
    with `rises` its rise is looked for before that. `together` is the dispersion by earlier bursts, which stands until
    the stretch has lost enough to tell it. Bursts that begin together are not parted. Times are in seconds.
    """
    begins, packets, answered = by_begin(at_s, sent, received)
    if not packets.sum():
        return None
    detected = int(np.searchsorted(begins, detected_s))
    boundaries = _boundaries(packets - answered, packets, detected if rises else 0, together)
    first = boundaries[-1]
    stretch = _counts(packets[first:], answered[first:], together)
    part = first + newest_part(begins[first:], packets[first:], answered[first:], recent_s, stretch.together)
    if not packets[part:].sum():
        part = first
    has_changed = first > 0 and first >= detected
    return PresentLoss(
        LostPackets(float(packets[part:].sum()), float((packets - answered)[part:].sum()), stretch.together),
        stretch,
        float(begins[part]),
        float(begins[first]) if first else None,
        has_changed,
        _ended(packets, answered, boundaries, together),
        clean_run(begins[first:], packets[first:], answered[first:], stretch.together),
    )


def present_stretch(sent: ArrayLike, received: ArrayLike, detected: int = 0, together: float = 1.0) -> int:
    """The first burst after the last change of the loss; 0 without any.

    `detected` is the number of bursts that had begun when a rise was detected: it began with one of them, or before
    the window. `together` is the least dispersion of the losses.
    """
    packets = np.asarray(sent, dtype=np.float64)
    return _boundaries(packets - np.asarray(received, dtype=np.float64), packets, detected, together)[-1]


def newest_run(hits: ArrayLike) -> int:
    """The first sample of the newest run of hits, which may have a few others in it: the beginning of the samples with
    the most hits less others, the longest of several."""
    gains = np.where(np.asarray(hits, dtype=np.bool_), 1, -1)[::-1].cumsum()
    return len(gains) - 1 - int(np.flatnonzero(gains == gains.max())[-1])


def newest_part(at_s: ArrayLike, sent: ArrayLike, received: ArrayLike, recent_s: float, together: float = 1.0) -> int:
    """The first burst of the newest part of a stretch that begins at `recent_s` or before, and early enough to have
    lost enough; 0 where the whole stretch has not."""
    lost = np.asarray(sent, dtype=np.float64) - np.asarray(received, dtype=np.float64)
    since = np.flatnonzero(lost[::-1].cumsum()[::-1] >= ENOUGH_LOST * together)
    return min(int(np.searchsorted(np.asarray(at_s, dtype=np.float64), recent_s)), int(since[-1])) if len(since) else 0


def _boundaries(lost: Floats, packets: Floats, detected: int, together: float) -> list[int]:
    """The first bursts of all stretches; the first of all is 0, or that after the rise."""
    boundaries = [_boundary(lost[:detected], packets[:detected], ONSET_NATS, together, only_rises=True)]
    while later := _boundary(lost[boundaries[-1] :], packets[boundaries[-1] :], CHANGE_NATS, together):
        boundaries.append(boundaries[-1] + later)
    return boundaries


def _ended(packets: Floats, answered: Floats, boundaries: list[int], together: float) -> LostPackets | None:
    if len(boundaries) < 2:
        return None
    stretch = slice(boundaries[-2], boundaries[-1])
    return _counts(packets[stretch], answered[stretch], together) if packets[stretch].any() else None


def by_begin(at_s: ArrayLike, sent: ArrayLike, received: ArrayLike) -> tuple[Floats, Floats, Floats]:
    """The times at which bursts begin, with the packets of all bursts that begin then."""
    begins, of = np.unique(np.asarray(at_s, dtype=np.float64), return_inverse=True)
    packets, answered = np.zeros(len(begins)), np.zeros(len(begins))
    np.add.at(packets, of, np.asarray(sent, dtype=np.float64))
    np.add.at(answered, of, np.asarray(received, dtype=np.float64))
    return begins, packets, answered


def _counts(sent: Floats, received: Floats, least: float) -> LostPackets:
    """The packets of these bursts. They tell the dispersion if they lost enough, otherwise it is at least `least`."""
    all_sent, all_lost = float(sent.sum()), float((sent - received).sum())
    together = _dispersion(sent, sent - received) if all_lost else 1.0
    return LostPackets(all_sent, all_lost, together if all_lost >= ENOUGH_LOST * together else max(together, least))


def _dispersion(sent: Floats, lost: Floats) -> float:
    """Of the bursts on both sides of the likeliest change, which may be a change that is not certain yet; of few bursts
    by how many of them lost any."""
    if len(sent) < FEW_BURSTS:
        return float(binomial.clustering(len(sent), np.count_nonzero(lost), sent.sum(), lost.sum()))
    first, _ = likeliest(lost, sent)
    return binomial.dispersion([(sent[:first], lost[:first]), (sent[first:], lost[first:])])


def _boundary(lost: Floats, sent: Floats, least_nats: float, together: float, *, only_rises: bool = False) -> int:
    """The first burst after the likeliest change; 0 where it is less likely than that."""
    first, nats = likeliest(lost, sent, only_rises=only_rises)
    if nats < least_nats * together:
        return 0
    within = binomial.dispersion([(sent[:first], lost[:first]), (sent[first:], lost[first:])])
    return first if nats >= least_nats * within else 0


def likeliest(lost: Floats, sent: Floats, *, only_rises: bool = False) -> tuple[int, float]:
    """The first burst after the likeliest change, and how many nats likelier it is than none."""
    if len(sent) < 2:
        return 0, -np.inf
    nats = change_nats(lost, sent)
    if only_rises:
        before, of_before = lost.cumsum()[:-1], sent.cumsum()[:-1]
        after, of_after = lost.sum() - before, sent.sum() - of_before
        nats = np.where(after * of_before > before * of_after, nats, -np.inf)
    return int(nats.argmax()) + 1, float(nats.max())


def change_nats(lost: Floats, sent: Floats) -> Floats:
    """How many nats likelier a change after each burst but the last is than none."""
    before, of_before = lost.cumsum()[:-1], sent.cumsum()[:-1]
    after, of_after = lost.sum() - before, sent.sum() - of_before
    return _binomial(before, of_before) + _binomial(after, of_after) - _binomial(lost.sum(), sent.sum())


def _binomial(lost: ArrayLike, sent: ArrayLike) -> Floats:
    """The maximum log-likelihood of so many lost packets."""
    missing, of = np.asarray(lost, dtype=np.float64), np.maximum(np.asarray(sent, dtype=np.float64), 1.0)
    return np.asarray(
        scipy.special.xlogy(missing, missing / of) + scipy.special.xlogy(of - missing, 1.0 - missing / of)
    )
