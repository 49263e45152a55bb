"""The states of a stretch, their prior losses, and the log marginal likelihood of a stretch from `chain_sums`. Losses
are independent or in runs, equally probable; independent in a dead stretch."""

from __future__ import annotations

from functools import cache

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
# The priors of the states, then that of runs.
PRIORS = np.array([[*PRIOR_LOST, RUN_LOST], [*PRIOR_RECEIVED, RUN_RECEIVED]])
RUNS = len(STATES)
# Packets for which log gammas are kept: 3 MB.
TABULATED = 2**15

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
    """Log marginal likelihoods with independent losses, and with runs, each with its prior. `sums`, of packets, has the
    shape (4, ...), `states` its rest."""
    after_received, lost_then, after_lost, lost_again = sums
    all_lost, all_sent = lost_then + lost_again, after_received + after_lost
    alone = _beta_binomials(states, all_sent, all_lost)
    in_runs = _beta_binomials(states, after_received, lost_then) + _beta_binomials(RUNS, after_lost, lost_again)
    equal = np.log(0.5)
    return alone + equal, np.where(states == DEAD, -np.inf, in_runs + equal)


def _beta_binomials(prior: States | int, sent: Floats, lost: Floats) -> Floats:
    """Log likelihoods of packets with a beta prior of the loss, by its place in PRIORS."""
    if sent.size and sent.max() < TABULATED:
        of_lost, of_received, of_sent = _log_gammas()
        lost_count, sent_count = lost.astype(np.int64), sent.astype(np.int64)
        of_both = of_lost[prior, lost_count] + of_received[prior, sent_count - lost_count]
        return np.asarray(of_both - of_sent[prior, sent_count])
    of_lost, of_received = PRIORS[:, prior]
    chances = scipy.special.betaln(of_lost + lost, of_received + sent - lost)
    return np.asarray(chances - scipy.special.betaln(of_lost, of_received))


@cache
def _log_gammas() -> Floats:
    """Log gamma of each prior's parameters and their sum plus 0, 1, 2… packets, less that without packets. A third of
    the time of betaln."""
    parameters = np.concatenate([PRIORS, PRIORS.sum(axis=0, keepdims=True)])[:, :, np.newaxis]
    table = scipy.special.gammaln(parameters + np.arange(TABULATED))
    return np.asarray(table - table[:, :, :1])


def log_likelihood(states: States, sums: Floats) -> Floats:
    """Log marginal likelihoods of stretches, summed over both kinds of loss."""
    return np.asarray(np.logaddexp(*log_likelihoods(states, sums)))
