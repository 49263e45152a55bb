"""The three states of a stretch, their prior losses, and the marginal likelihood of a stretch of packets.

The lost packets of a stretch are independent, or come in runs, with equal prior probability; of a dead one they are
independent. In: sums of Gilbert's chain (`chain_sums`). Out: natural logarithms.
"""

from __future__ import annotations

import numpy as np
import scipy  # loads scipy.special at its first use: half a second, which most processes do not need
from numpy.typing import NDArray

from monitor.analysis.segments.segment import HOUR_S

Floats = NDArray[np.float64]
States = NDArray[np.int8]

CLEAN, LOSSY, DEAD = 0, 1, 2
STATES = (CLEAN, LOSSY, DEAD)

FIRST = np.array([0.96, 0.03, 0.01])
"""Prior probability of the states before the first packet."""
PRIOR_LOST = np.array([0.5, 0.7, 60.0])
PRIOR_RECEIVED = np.array([600.0, 4.0, 0.5])
"""Beta prior of the loss by state, in packets: of a mean of 0.08%, 15% and 99%."""
RUN_LOST, RUN_RECEIVED = 2.0, 4.0
"""Beta prior of the loss after a lost packet, where packets are lost in runs: of a mean of 1.5 packets."""

CHANGE_S = HOUR_S * np.array([[np.inf, 4.0, 24.0], [0.5, 2.0, 6.0], [0.25, 1.0, np.inf]])
"""Mean time in the state of the row before a change to that of the column. A lossy stretch may be followed by another
with another loss."""
LONGEST_SPACING_S = 40.0
"""Of a change: bursts further apart would change too often for the packets that they have."""


def log_changes(spacing_s: Floats) -> tuple[Floats, Floats]:
    """Logarithms of the probabilities of no change by state, shape (3, ...), and of each change, shape (3, 3, ...),
    between bursts that begin so many seconds apart."""
    spacing = np.minimum(np.asarray(spacing_s, dtype=np.float64), LONGEST_SPACING_S)
    chances = spacing / CHANGE_S.reshape(3, 3, *(1,) * spacing.ndim)
    with np.errstate(divide="ignore"):
        return np.log1p(-chances.sum(axis=1)), np.log(chances)


def log_likelihoods(states: States, sums: Floats) -> tuple[Floats, Floats]:
    """Log marginal likelihoods of stretches whose packets are lost independently, and in runs; each with its prior
    probability. `sums` has the shape (4, ...), `states` its rest."""
    after_received, lost_then, after_lost, lost_again = sums
    lost, received = PRIOR_LOST[states], PRIOR_RECEIVED[states]
    of_prior = scipy.special.betaln(lost, received)
    all_lost, all_sent = lost_then + lost_again, after_received + after_lost
    alone = scipy.special.betaln(lost + all_lost, received + all_sent - all_lost) - of_prior
    first = scipy.special.betaln(lost + lost_then, received + after_received - lost_then) - of_prior
    again = scipy.special.betaln(RUN_LOST + lost_again, RUN_RECEIVED + after_lost - lost_again)
    in_runs = first + again - scipy.special.betaln(RUN_LOST, RUN_RECEIVED)
    equal = np.log(0.5)
    return alone + equal, np.where(states == DEAD, -np.inf, in_runs + equal)


def log_likelihood(states: States, sums: Floats) -> Floats:
    """Log marginal likelihoods of stretches, of both ways in which packets are lost together."""
    return np.asarray(np.logaddexp(*log_likelihoods(states, sums)))
