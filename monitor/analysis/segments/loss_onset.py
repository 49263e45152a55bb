"""Date the newest loss of a path exactly, from the sums of all bursts of a window, by summing over all segmentations
(P. Fearnhead, "Exact and efficient Bayesian inference for multiple changepoint problems", Statistics and Computing 16,
2006). Time and memory are quadratic in the bursts."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from monitor.analysis.changes.onset import Onset
from monitor.analysis.segments.chain_sums import AFTER_RECEIVED, LOST_AFTER_LOST, LOST_AFTER_RECEIVED
from monitor.analysis.segments.segment import TAIL
from monitor.analysis.segments.stretches import (
    CLEAN,
    DEAD,
    FIRST,
    LOSSY,
    PRIOR_RECEIVED,
    STATES,
    log_changes,
    log_likelihood,
)

Floats = NDArray[np.float64]

# An hour of a pair of paths with a cycle of 10 s.
MOST_BURSTS = 720


def onset_of_loss(at_s: ArrayLike, sums: Floats) -> Onset | None:
    """Onset of the newest burst's loss as a burst number, with its 95% set; `sums` is (4, n). None without bursts; the
    newest MOST_BURSTS count."""
    every = np.asarray(at_s, dtype=np.float64)
    if not len(every):
        return None
    begins, of_window = every[-MOST_BURSTS:], sums[:, -MOST_BURSTS:]
    calm = _calm_bursts(of_window)
    joined = np.add.reduceat(of_window, np.append(0, np.arange(calm + 1, len(begins))), axis=1)
    below = onset_probabilities(begins[calm:], joined).cumsum()
    first = len(every) - len(below)
    ends = (int(np.searchsorted(below, chance * below[-1])) for chance in (TAIL, 0.5, 1.0 - TAIL))
    earliest, median, latest = (first + min(end, len(below) - 1) for end in ends)
    return Onset(median, earliest, latest)


def _calm_bursts(sums: Floats) -> int:
    """How many of the first bursts a loss cannot begin with: followed by as many packets without a loss as the prior
    of a clean stretch stands for."""
    lossy = np.flatnonzero(sums[LOST_AFTER_RECEIVED] + sums[LOST_AFTER_LOST])
    before = np.cumsum(sums[AFTER_RECEIVED, : lossy[0] if len(lossy) else 0][::-1])
    return int((before > PRIOR_RECEIVED[CLEAN]).sum())


def onset_probabilities(at_s: Floats, sums: Floats) -> Floats:
    """Probability of each burst that the newest loss began with it, provided that the newest burst is not clean."""
    count = len(at_s)
    stay, change = log_changes(np.diff(at_s, prepend=at_s[0]))
    whole = np.concatenate([np.zeros((4, 1)), sums.cumsum(axis=1)], axis=1)
    stayed = stay.cumsum(axis=1)
    # Of the stretches from the burst of the row to the one before the column's.
    stretches = np.full((len(STATES), count + 1, count + 1), -np.inf)
    begin, end = np.triu_indices(count + 1, 1)
    of_stretch = whole[:, end] - whole[:, begin]
    for state in STATES:
        fit = log_likelihood(np.full(len(begin), state, dtype=np.int8), of_stretch)
        stretches[state, begin, end] = fit + stayed[state, end - 1] - stayed[state, begin]
    arriving = np.full((len(STATES), count + 1), -np.inf)  # with the burst of the column, after any row of stretches
    arriving[:, 0] = np.log(FIRST)
    cleared = np.full(count + 1, -np.inf)  # the stretch that ends before the burst is clean
    for burst in range(1, count):
        ended = np.logaddexp.reduce(arriving[:, :burst] + stretches[:, :burst, burst], axis=1)
        cleared[burst] = ended[CLEAN]
        arriving[:, burst] = np.logaddexp.reduce(ended[:, np.newaxis] + change[:, :, burst], axis=0)
    remaining = np.full((len(STATES), count), -np.inf)  # from the burst on, without a clean stretch
    for burst in range(count - 1, -1, -1):
        later = slice(burst + 1, count)
        for state in (LOSSY, DEAD):
            goes_on = [change[state, other, later] + remaining[other, later] for other in (LOSSY, DEAD)]
            after = np.append(np.logaddexp(*goes_on), 0.0)
            remaining[state, burst] = np.logaddexp.reduce(stretches[state, burst, burst + 1 :] + after)
    begun = [change[CLEAN, state, :count] + cleared[:count] for state in (LOSSY, DEAD)]
    for number, state in enumerate((LOSSY, DEAD)):
        begun[number][0] = np.log(FIRST[state])
        begun[number] = begun[number] + remaining[state]
    log_chances = np.logaddexp(*begun)
    return np.asarray(np.exp(log_chances - np.logaddexp.reduce(log_chances)))
