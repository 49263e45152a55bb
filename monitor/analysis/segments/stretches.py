"""The states of a stretch, their prior losses, and the log marginal likelihood of a stretch from `chain_sums`. Losses
are independent or in runs, equally probable; independent in a dead stretch."""

from __future__ import annotations

import numpy as np
import scipy  # loads scipy.special at its first use: half a second, which most processes do not need
from numpy.typing import NDArray

from monitor.analysis.segments.segment import HOUR_S

Floats = NDArray[np.float64]
States = NDArray[np.int8]

CLEAN, LOSSY, DEAD = 0, 1, 2
STATES = (CLEAN, LOSSY, DEAD)

# Prior probability of the states before the first packet.
FIRST = np.array([0.96, 0.03, 0.01])
PRIOR_LOST = np.array([0.5, 0.7, 60.0])
# Beta prior of the loss by state, in packets: of a mean of 0.08%, 15% and 99%.
PRIOR_RECEIVED = np.array([600.0, 4.0, 0.5])
# Beta prior of the loss after a lost packet, for runs with a mean of 1.5 packets.
RUN_LOST, RUN_RECEIVED = 2.0, 4.0

# Mean time in the row's state before the column's; another lossy stretch may follow a lossy one.
CHANGE_S = HOUR_S * np.array([[np.inf, 4.0, 24.0], [0.5, 2.0, 6.0], [0.25, 1.0, np.inf]])
# Of a change: with bursts further apart changes would be too frequent for the few packets.
LONGEST_SPACING_S = 40.0


def log_changes(spacing_s: Floats) -> tuple[Floats, Floats]:
    """Log probabilities of no change by state, shape (3, ...), and of each change, shape (3, 3, ...), between bursts so
    far apart."""
    spacing = np.minimum(np.asarray(spacing_s, dtype=np.float64), LONGEST_SPACING_S)
    chances = spacing / CHANGE_S.reshape(3, 3, *(1,) * spacing.ndim)
    with np.errstate(divide="ignore"):
        return np.log1p(-chances.sum(axis=1)), np.log(chances)


def log_likelihoods(states: States, sums: Floats) -> tuple[Floats, Floats]:
    """Log marginal likelihoods with independent losses, and with runs, each with its prior. `sums` has the shape (4,
    ...), `states` its rest."""
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
    """Log marginal likelihoods of stretches, summed over both kinds of loss."""
    return np.asarray(np.logaddexp(*log_likelihoods(states, sums)))
