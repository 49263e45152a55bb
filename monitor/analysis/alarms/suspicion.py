"""Log Bayes factors of paths without an alarm to be affected as the alarmed paths, by counts and RTTs. 0 is no
evidence, NaN no measurement."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from monitor.analysis import binomial
from monitor.arrays import Floats, Ints

# No path is taken as better: single packets get lost on the best.
LEAST_BASE_RATIO = 5e-4

# Paths that alarm first show more loss by chance, and others were not measured since the onset as often.
SHARES_OF_EFFECT = (0.2, 0.4, 0.7, 1.0, 1.4)

# Share of the RTTs of an affected path above half of the rise over its baseline.
SHARE_BEYOND = 0.9

# Fewer RTTs before the onset give no baseline.
LEAST_BEFORE = 5

# Consecutive RTTs that count as one, since a wait in a queue lasts.
TOGETHER = 1.5


@dataclass(frozen=True, slots=True)
class PacketCounts:
    """Counts of each path over several windows, of shape (paths, windows)."""

    bursts: Floats
    lossy: Floats
    sent: Floats
    lost: Floats
    base_ratio: Floats  # NaN without a baseline


@dataclass(frozen=True, slots=True)
class RttSamples:
    """RTTs of bursts and their times, of shape (paths, samples), NaN where a path has fewer."""

    at_s: Floats
    rtts_ms: Floats


@dataclass(frozen=True, slots=True)
class LossEffect:
    """Pooled loss of the alarmed paths above their baselines in a window."""

    window: int
    ratio: float
    together: float  # dispersion of the losses over independent losses


def loss_factors(counts: PacketCounts, alarmed: Ints, rows: Ints) -> Floats:
    """Log Bayes factors of the paths in `rows` for the loss of `alarmed`, in the window with the largest difference
    from the baselines."""
    effect = _loss_effect(counts, alarmed)
    if effect is None:
        return np.full(len(rows), np.nan)
    lost, sent = (column[rows, effect.window] for column in (counts.lost, counts.sent))
    return _factors(effect, lost, sent, _base_ratio(counts, rows))


class LossFactors:
    """`loss_factors` of all paths for many sets of alarmed paths, calculated once for paths with the same counts."""

    def __init__(self, counts: PacketCounts) -> None:
        self._counts = counts
        self._distinct: dict[int, tuple[Floats, Ints]] = {}

    def of_all(self, alarmed: Ints) -> Floats:
        """The log Bayes factors of all paths, of shape (paths,)."""
        effect = _loss_effect(self._counts, alarmed)
        if effect is None:
            return np.full(len(self._counts.base_ratio), np.nan)
        if effect.window not in self._distinct:
            self._distinct[effect.window] = self._distinct_counts(effect.window)
        (lost, sent, base), number = self._distinct[effect.window]
        return _factors(effect, lost, sent, base)[number]

    def _distinct_counts(self, window: int) -> tuple[Floats, Ints]:
        lost, sent = self._counts.lost[:, window], self._counts.sent[:, window]
        # Of a path without loss the factor does not depend on its baseline.
        base = np.where(lost > 0.0, _base_ratio(self._counts), LEAST_BASE_RATIO)
        distinct, number = np.unique(np.column_stack([lost, sent, base]), axis=0, return_inverse=True)
        return distinct.T, number.reshape(-1)


def _base_ratio(counts: PacketCounts, rows: Ints | slice = slice(None)) -> Floats:
    base: Floats = np.maximum(np.nan_to_num(counts.base_ratio[rows]), LEAST_BASE_RATIO)
    return base


def _loss_effect(counts: PacketCounts, alarmed: Ints) -> LossEffect | None:
    """None where the alarmed paths lose no more than at their baselines."""
    bursts, lossy, sent, lost = (
        column[alarmed].sum(axis=0) for column in (counts.bursts, counts.lossy, counts.sent, counts.lost)
    )
    expected = (counts.sent[alarmed] * _base_ratio(counts, alarmed)[:, np.newaxis]).sum(axis=0)
    if not np.any(lost > expected):
        return None
    usual = expected / np.maximum(sent, 1.0)
    gain = _log_likelihood(lost, sent, lost / np.maximum(sent, 1.0)) - _log_likelihood(lost, sent, usual)
    window = int(np.where(lost > expected, gain, -np.inf).argmax())
    together = float(binomial.clustering(bursts[window], lossy[window], sent[window], lost[window]))
    return LossEffect(window, float((lost[window] - expected[window]) / sent[window]), together)


def _factors(effect: LossEffect, lost: Floats, sent: Floats, base: Floats) -> Floats:
    own, of = lost / effect.together, sent / effect.together
    shares = np.array(SHARES_OF_EFFECT)[:, np.newaxis].clip(max=1 / effect.ratio)
    ratios = 1.0 - (1.0 - base) * (1.0 - effect.ratio * shares)
    affected = np.logaddexp.reduce(_log_likelihood(own, of, ratios), axis=0) - np.log(len(SHARES_OF_EFFECT))
    return np.where(of > 0, affected - _log_likelihood(own, of, base), np.nan)


def rtt_factors(samples: RttSamples, onset_s: float, rise_ms: float, rows: Ints) -> Floats:
    """Log Bayes factors of the paths in `rows` for a rise by `rise_ms` at `onset_s`, by the samples more than half of
    it above the earlier median."""
    at_s, rtts = samples.at_s[rows], samples.rtts_ms[rows]
    is_before, is_since = at_s < onset_s, at_s >= onset_s
    before, since = is_before.sum(axis=1), is_since.sum(axis=1)
    has_both = (before >= LEAST_BEFORE) & (since > 0)
    factors = np.full(len(rows), np.nan)
    if not has_both.any():
        return factors
    of_before = np.where(is_before, rtts, np.nan)[has_both]
    beyond = rtts[has_both] > (np.nanmedian(of_before, axis=1) + rise_ms / 2.0)[:, np.newaxis]
    usual = ((beyond & is_before[has_both]).sum(axis=1) + 0.5) / (before[has_both] + 1.0)
    hits, of = (beyond & is_since[has_both]).sum(axis=1), since[has_both]
    share = np.maximum(usual, SHARE_BEYOND)
    factors[has_both] = (_log_likelihood(hits, of, share) - _log_likelihood(hits, of, usual)) / TOGETHER
    return factors


def _log_likelihood(events: Floats | Ints, trials: Floats | Ints, ratio: Floats | float) -> Floats:
    # Of independent trials, without the binomial coefficient.
    share = np.clip(ratio, 1e-9, 1.0 - 1e-9)
    likelihood: Floats = events * np.log(share) + (trials - events) * np.log1p(-share)
    return likelihood
