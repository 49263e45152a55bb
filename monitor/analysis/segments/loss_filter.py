"""Follow the stretches of loss of many paths, burst by burst: probability above a limit, and level.

The KEPT likeliest hypotheses of a path are kept (R. P. Adams and D. J. C. MacKay, "Bayesian online changepoint
detection", 2007; P. Fearnhead and Z. Liu, 2007).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy  # loads scipy.special at its first use: half a second, which most processes do not need
from numpy.typing import ArrayLike, NDArray

from monitor.analysis.changes.present import LostPackets
from monitor.analysis.segments.chain_sums import AFTER_LOST, AFTER_RECEIVED, LOST_AFTER_RECEIVED
from monitor.analysis.segments.segment import KEPT, TAIL
from monitor.analysis.segments.stretches import (
    CHANGE_S,
    CLEAN,
    FIRST,
    PRIOR_LOST,
    PRIOR_RECEIVED,
    RUN_LOST,
    RUN_RECEIVED,
    STATES,
    log_changes,
    log_likelihood,
    log_likelihoods,
)

Floats = NDArray[np.float64]
Rows = NDArray[np.int64]

# Clean probability from which lossless bursts are batched; 0.99 misses 25% of a 5% loss (not 16%), 0.998 is never
# reached.
SETTLED = 0.997
# The ends of an interval of the loss, 3% apart.
RATIOS = np.geomspace(1e-5, 1.0, 400)
# Of a chain: packets in longer runs tell nothing of the loss.
LONGEST_MEMORY = 0.98


@dataclass(frozen=True, slots=True)
class _Level:
    """A beta distribution of the loss by hypothesis."""

    share: Floats  # of the hypothesis
    lost: Floats
    received: Floats


class LossFilter:
    """The hypotheses of `paths` paths: arrays of shape (paths, KEPT), the sums (4, paths, KEPT)."""

    def __init__(self, paths: int) -> None:
        self.log_weights = np.zeros((paths, KEPT))
        self.states = np.zeros((paths, KEPT), dtype=np.int8)
        self.since_s = np.zeros((paths, KEPT))
        self.sums = np.zeros((4, paths, KEPT))
        self.fits = np.zeros((paths, KEPT))
        self.is_settled = np.zeros(paths, dtype=np.bool_)
        self.waiting = np.zeros(paths)  # packets of bursts without a loss
        self.begin(np.arange(paths))

    def begin(self, rows: Rows) -> None:
        self.log_weights[rows], self.states[rows] = -np.inf, CLEAN
        self.log_weights[rows, : len(STATES)], self.states[rows, : len(STATES)] = np.log(FIRST), STATES
        self.since_s[rows], self.sums[:, rows] = -np.inf, 0.0
        self.fits[rows] = log_likelihood(self.states[rows], self.sums[:, rows])
        self.is_settled[rows], self.waiting[rows] = False, 0.0

    def begin_clean(self, rows: Rows, sums: Floats) -> None:
        """Begin these paths with a clean stretch of these packets, shape (4, rows)."""
        self.log_weights[rows], self.states[rows], self.since_s[rows] = -np.inf, CLEAN, -np.inf
        self.log_weights[rows, 0] = 0.0
        self.sums[:, rows] = sums[:, :, np.newaxis]
        self.fits[rows] = log_likelihood(self.states[rows], self.sums[:, rows])
        self.is_settled[rows], self.waiting[rows] = True, 0.0

    def begin_after(self, rows: Rows, state: int, at_s: Floats) -> None:
        """Begin these paths anew after a stretch in this state certainly ended."""
        self.begin(rows)
        rates = 1.0 / CHANGE_S[state]
        with np.errstate(divide="ignore"):
            self.log_weights[rows, : len(STATES)] = np.log(rates / rates.sum())
        self.since_s[rows] = at_s[:, np.newaxis]

    def take(self, rows: Rows, at_s: ArrayLike, spacing_s: ArrayLike, sums: Floats) -> None:
        """As `update`, cheaper: lossless bursts of settled paths are batched until the next loss."""
        begins, spacing = (np.broadcast_to(np.asarray(each, dtype=np.float64), len(rows)) for each in (at_s, spacing_s))
        waits = self.is_settled[rows] & (sums[LOST_AFTER_RECEIVED] + sums[AFTER_LOST] == 0.0)
        self.waiting[rows[waits]] += sums[AFTER_RECEIVED, waits]
        self.settle(rows[~waits])
        self.update(rows[~waits], begins[~waits], spacing[~waits], sums[:, ~waits])

    def settle(self, rows: Rows) -> None:
        """Add the batched bursts to the stretches of these paths."""
        rows = rows[self.waiting[rows] > 0.0]
        self.sums[AFTER_RECEIVED, rows] += self.waiting[rows, np.newaxis]
        fits = log_likelihood(self.states[rows], self.sums[:, rows])
        weights = self.log_weights[rows] + fits - self.fits[rows]
        self.log_weights[rows] = weights - np.logaddexp.reduce(weights, axis=1, keepdims=True)
        self.fits[rows], self.waiting[rows] = fits, 0.0

    def update(self, rows: Rows, at_s: ArrayLike, spacing_s: ArrayLike, sums: Floats) -> None:
        """Take one burst of each path of `rows`; `spacing_s` since the burst before (first: 0); sums (4, rows)."""
        begins, spacing = (np.broadcast_to(np.asarray(each, dtype=np.float64), len(rows)) for each in (at_s, spacing_s))
        weights, states, since, before = (
            self.log_weights[rows], self.states[rows], self.since_s[rows], self.sums[:, rows]
        )  # fmt: skip
        stay, change = log_changes(spacing)
        burst = sums[:, :, np.newaxis]
        path = np.arange(len(rows))[:, np.newaxis]
        after = before + burst
        fits = log_likelihood(states, after)
        going_on = weights + fits - self.fits[rows] + stay[states, path]
        new_states = np.broadcast_to(np.array(STATES, dtype=np.int8), (len(rows), len(STATES)))
        new_sums = np.broadcast_to(burst, (4, *new_states.shape))
        arriving = np.logaddexp.reduce(weights[:, :, np.newaxis] + change[states, :, path], axis=1)
        new_fits = log_likelihood(new_states, new_sums)
        every = np.concatenate([going_on, arriving + new_fits], axis=1)
        kept = np.argpartition(-every, KEPT - 1, axis=1)[:, :KEPT]
        every = every[path, kept]
        self.log_weights[rows] = every - np.logaddexp.reduce(every, axis=1, keepdims=True)
        self.fits[rows] = np.concatenate([fits, new_fits], axis=1)[path, kept]
        self.states[rows] = np.concatenate([states, new_states], axis=1)[path, kept]
        begun = np.broadcast_to(begins[:, np.newaxis], new_states.shape)
        self.since_s[rows] = np.concatenate([since, begun], axis=1)[path, kept]
        self.sums[:, rows] = np.concatenate([after, new_sums], axis=2)[:, path, kept]
        clean = np.where(self.states[rows] == CLEAN, np.exp(self.log_weights[rows]), 0.0)
        self.is_settled[rows] = clean.sum(axis=1) > SETTLED

    def probability(self, *states: int, rows: Rows | slice = slice(None)) -> Floats:
        """Probability of each path that its newest stretch is in one of these states."""
        return np.asarray((np.exp(self.log_weights[rows]) * np.isin(self.states[rows], states)).sum(axis=1))

    def above(self, limit: ArrayLike, rows: Rows | slice = slice(None), may_be_clean: ArrayLike = False) -> Floats:
        """Probability that each path's loss is above its limit and, unless `may_be_clean`, that it is not clean."""
        limits = np.asarray(limit, dtype=np.float64)[..., np.newaxis]
        weights = np.exp(self.log_weights[rows])
        above = sum(
            (weights * level.share * (1.0 - scipy.special.betainc(level.lost, level.received, limits))).sum(axis=1)
            for level in self._levels(rows)
        )
        return np.asarray(np.where(may_be_clean, above, np.minimum(above, 1.0 - self.probability(CLEAN, rows=rows))))

    def interval(self, row: int) -> tuple[float, float]:
        """The 95% interval of a path's loss, by all hypotheses."""
        above = self.above(RATIOS, np.full(len(RATIOS), row), may_be_clean=True)
        return float(RATIOS[above >= 1.0 - TAIL].max(initial=0.0)), float(RATIOS[above <= TAIL].min(initial=1.0))

    def begins(self, row: int, state: int) -> tuple[float, float, float]:
        """Start of a path's newest stretch, given this state: the likeliest hypothesis and its 95% set; -inf before the
        first burst."""
        log_weights = np.where(self.states[row] == state, self.log_weights[row], -np.inf)
        order = np.argsort(self.since_s[row], kind="stable")
        below = np.exp(log_weights[order] - log_weights.max()).cumsum()
        earliest, latest = (order[np.searchsorted(below, share * below[-1])] for share in (TAIL, 1.0 - TAIL))
        chosen = (int(log_weights.argmax()), int(earliest), int(latest))
        at_s, earliest_s, latest_s = (float(self.since_s[row, place]) for place in chosen)
        return at_s, min(earliest_s, at_s), max(latest_s, at_s)

    def newest(self, rows: Rows, state: int) -> Floats:
        """The sums of each path's newest stretch in this state, by its likeliest hypothesis; 0 without any."""
        weights = np.where(self.states[rows] == state, self.log_weights[rows], -np.inf)
        likeliest = weights.argmax(axis=1)
        return np.where(np.isfinite(weights.max(axis=1)), self.sums[:, rows, likeliest], 0.0)

    def begun_after(self, rows: Rows, at_s: ArrayLike) -> Floats:
        moments = np.asarray(at_s, dtype=np.float64)[..., np.newaxis]
        return np.asarray((np.exp(self.log_weights[rows]) * (self.since_s[rows] > moments)).sum(axis=1))

    def levels(self, rows: Rows | slice = slice(None)) -> list[LostPackets]:
        """Loss of each path's newest stretch by its likeliest hypothesis; `together` widens it to all hypotheses."""
        weights = np.exp(self.log_weights[rows])
        likeliest = self.sums[:, rows][:, np.arange(len(weights)), weights.argmax(axis=1)]
        return lost_packets(likeliest, weights, self._levels(rows))

    def _levels(self, rows: Rows | slice) -> tuple[_Level, _Level]:
        return levels_of(self.states[rows], self.sums[:, rows])


def levels_of(states: NDArray[np.int8], sums: Floats) -> tuple[_Level, _Level]:
    """The loss of stretches with independent losses, and with runs, which count as fewer packets."""
    after_received, lost_then, after_lost, lost_again = sums
    prior_lost, prior_received = PRIOR_LOST[states], PRIOR_RECEIVED[states]
    alone, in_runs = log_likelihoods(states, sums)
    share = np.exp(alone - np.logaddexp(alone, in_runs))
    lost, received = prior_lost + lost_then, prior_received + after_received - lost_then
    first = lost / (lost + received)
    again = (RUN_LOST + lost_again) / (RUN_LOST + RUN_RECEIVED + after_lost)
    ratio, memory = first / (first + 1.0 - again), np.clip(again - first, 0.0, LONGEST_MEMORY)
    counted = (after_received + after_lost + prior_lost + prior_received) * (1.0 - memory) / (1.0 + memory)
    all_lost, all_sent = lost_then + lost_again, after_received + after_lost
    return (
        _Level(share, prior_lost + all_lost, prior_received + all_sent - all_lost),
        _Level(1.0 - share, ratio * counted, (1.0 - ratio) * counted),
    )


def lost_packets(sums: Floats, weights: Floats, levels: tuple[_Level, _Level]) -> list[LostPackets]:
    """The packets of these sums, shape (4, n), with the variance of the weighted levels, shape (n, hypotheses)."""
    mean, square = np.zeros(len(weights)), np.zeros(len(weights))
    for level in levels:
        share, of = weights * level.share, level.lost + level.received
        ratio = level.lost / of
        mean += (share * ratio).sum(axis=1)
        square += (share * (ratio**2 + ratio * (1.0 - ratio) / (of + 1.0))).sum(axis=1)
    independent = mean * (1.0 - mean) / np.maximum(square - mean**2, 1e-12) - 1.0
    sent, lost = sums[0] + sums[2], sums[1] + sums[3]
    together = np.maximum(sent / np.maximum(independent, 1.0), 1.0)
    return [LostPackets(*each) for each in zip(sent.tolist(), lost.tolist(), together.tolist(), strict=True)]


def lost_of_stretch(state: int, sums: Floats) -> LostPackets:
    """Packets of a stretch by its sums, shape (4,)."""
    of = np.array([[state]], dtype=np.int8)
    [lost] = lost_packets(sums[:, np.newaxis], np.ones((1, 1)), levels_of(of, sums[:, np.newaxis, np.newaxis]))
    return lost
