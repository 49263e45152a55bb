"""Loss of bursts with its interval, and the log-likelihood ratio of a change of the loss."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import scipy  # loads scipy.special at its first use: half a second, which most processes do not need
from numpy.typing import ArrayLike

from monitor.analysis import binomial, figures
from monitor.analysis.loss import LEAST_UNANSWERED
from monitor.arrays import Floats

# The stretch is tested every ten seconds: twice this is the 0.02% point of chi-squared, one degree of freedom.
CHANGE_NATS = 7.0
# High enough to hold in 95 of 100 cases where the dispersion is estimated too.
CONFIDENCE = 0.98
# Confidence of the lower bound of a loss called worse: the worst of many evaluations.
WORSE_CONFIDENCE = 0.9995


@dataclass(frozen=True, slots=True)
class LostPackets:
    """Packets sent and lost in bursts."""

    sent: float
    lost: float
    together: float = 1.0  # dispersion of the losses over independent losses

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
        """Loss with the digits that its packets prove, else its interval: `5.2%`, `4 to 7%`, `below 1.3%`."""
        return figures.percent_between(self.ratio, *self.interval)

    @property
    def short_text(self) -> str:
        """Loss for a cell, without interval: `~5%`."""
        return figures.about_percent(self.ratio, *self.interval)

    def is_above(self, other: LostPackets) -> bool:
        """Whether this is certainly the higher loss, even if chosen among many; an outage exceeds any partial loss."""
        if self.lost == self.sent >= LEAST_UNANSWERED:
            return other.lost < other.sent
        counts = self.lost / self.together, self.sent / self.together
        return float(binomial.lower_bound(*counts, WORSE_CONFIDENCE)) > other.interval[1]


def summed(every: Sequence[LostPackets]) -> LostPackets:
    """Packets of several paths together, with the dispersion of the worst."""
    together = max(of.together for of in every)
    return LostPackets(sum(of.sent for of in every), sum(of.lost for of in every), together)


def change_nats(lost: Floats, sent: Floats) -> Floats:
    """Log-likelihood ratio (nats) of a change after each burst but the last."""
    before, of_before = lost.cumsum()[:-1], sent.cumsum()[:-1]
    after, of_after = lost.sum() - before, sent.sum() - of_before
    return _binomial(before, of_before) + _binomial(after, of_after) - _binomial(lost.sum(), sent.sum())


def _binomial(lost: ArrayLike, sent: ArrayLike) -> Floats:
    missing, of = np.asarray(lost, dtype=np.float64), np.maximum(np.asarray(sent, dtype=np.float64), 1.0)
    return np.asarray(
        scipy.special.xlogy(missing, missing / of) + scipy.special.xlogy(of - missing, 1.0 - missing / of)
    )
