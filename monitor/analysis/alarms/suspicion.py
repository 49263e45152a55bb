"""Evidence that paths without an alarm are affected by the same trouble as the paths with an alarm.

In: newest packet counts and RTTs of all paths, their baselines, and the rows of the paths with an alarm. Out: the log
Bayes factor of each path: the probability of its own figures if it is affected as strongly as the alarmed paths, over
their probability at its own baseline. 0 is no evidence, NaN no measurement. `grouping` weighs causes by it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from monitor.analysis import binomial

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

LEAST_BASE_RATIO = 5e-4
"""No path is taken as better than this: single packets get lost on the best."""

SHARES_OF_EFFECT = (0.2, 0.4, 0.7, 1.0, 1.4)
"""The loss of an affected path, as shares of the loss on the alarmed paths: those that alarm first show more of it by
chance, and others were not measured since the onset as often."""

SHARE_BEYOND = 0.9
"""Of the RTTs of an affected path, the share more than half of the rise above its baseline."""

LEAST_BEFORE = 5
"""RTTs before the onset without which a path has no baseline."""

TOGETHER = 1.5
"""Consecutive RTTs that count as one, as the wait in a queue lasts."""


@dataclass(frozen=True, slots=True)
class PacketCounts:
    """Counts of each path over several windows, of shape (paths, windows), and the loss of its baseline, NaN without
    one."""

    bursts: Floats
    lossy: Floats
    sent: Floats
    lost: Floats
    base_ratio: Floats


@dataclass(frozen=True, slots=True)
class RttSamples:
    """RTTs of bursts and their times, of shape (paths, samples), NaN where a path has fewer."""

    at_s: Floats
    rtts_ms: Floats


def loss_factors(counts: PacketCounts, alarmed: Ints, rows: Ints) -> Floats:
    """The log Bayes factors of the paths in `rows` for the loss of those in `alarmed`.

    The window is the one in which the alarmed paths together differ most from their baselines, so it begins near the
    onset.
    """
    base = np.maximum(np.nan_to_num(counts.base_ratio), LEAST_BASE_RATIO)
    bursts, lossy, sent, lost = (
        column[alarmed].sum(axis=0) for column in (counts.bursts, counts.lossy, counts.sent, counts.lost)
    )
    expected = (counts.sent[alarmed] * base[alarmed, np.newaxis]).sum(axis=0)
    if not np.any(lost > expected):
        return np.full(len(rows), np.nan)
    usual = expected / np.maximum(sent, 1.0)
    gain = _log_likelihood(lost, sent, lost / np.maximum(sent, 1.0)) - _log_likelihood(lost, sent, usual)
    window = int(np.where(lost > expected, gain, -np.inf).argmax())
    effect = (lost[window] - expected[window]) / sent[window]
    together = float(binomial.clustering(bursts[window], lossy[window], sent[window], lost[window]))
    own, of = counts.lost[rows, window] / together, counts.sent[rows, window] / together
    ratios = 1.0 - (1.0 - base[rows]) * (1.0 - effect * np.array(SHARES_OF_EFFECT)[:, np.newaxis].clip(max=1 / effect))
    affected = np.logaddexp.reduce(_log_likelihood(own, of, ratios), axis=0) - np.log(len(SHARES_OF_EFFECT))
    return np.where(of > 0, affected - _log_likelihood(own, of, base[rows]), np.nan)


def rtt_factors(samples: RttSamples, onset_s: float, rise_ms: float, rows: Ints) -> Floats:
    """The log Bayes factors of the paths in `rows` for a rise of their RTTs by `rise_ms` at `onset_s`.

    Counts the samples since the onset that are above the median before it by half of the rise, against the share of
    such samples before.
    """
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
    """Of independent trials, without the binomial coefficient."""
    share = np.clip(ratio, 1e-9, 1.0 - 1e-9)
    likelihood: Floats = events * np.log(share) + (trials - events) * np.log1p(-share)
    return likelihood
