"""Sequential test for events that have become more frequent: an e-detector on the counts of windows that end now.

In: the bursts with the event and all bursts of each window, the same of a baseline, and the average time between false
alarms that is allowed. Out: the windows by which a rise is detected, and their evidence.

The evidence of a window is a betting score: the probability of its bursts if their ratio of events is one of
`RISE_RATIOS` above the baseline, over their probability if it is the baseline's; on average 1 without a rise. The
baseline's ratio is itself known from finitely many bursts only. It is integrated out with Jeffreys' prior, so that a
baseline of few bursts, or without any event, is evidence of little (R. Krichevsky and V. Trofimov, IEEE Transactions on
Information Theory 27, 1981).

A rise may have begun in any cycle. The detector is the sum of the evidence since each of them, which grows by 1 a cycle
on average without a rise: the average number of cycles to a false alarm is at least the threshold, however often it is
evaluated (J. Shin, A. Ramdas and A. Rinaldo, "E-detectors", New England Journal of Statistics in Data Science 2, 2024,
theorem 2.4; M. Pollak, Annals of Statistics 13, 1985). The windows stand for all beginnings between them, each with the
number of cycles by which it is longer than the next shorter. `tests/unit/analysis/test_alarms_sequential.py` counts the
false alarms.

Events are bursts with a lost packet, since packets are lost together; `rises.dispersion` allows for clustering over
longer times.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import scipy
from numpy.typing import ArrayLike, NDArray

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]

RISE_RATIOS = tuple(float(ratio) for ratio in np.geomspace(0.004, 0.6, 10))
"""Rises, as shares of the bursts that have no event in the baseline: from 0.04% of packets, at ten a burst, to 9%. A
denser grid finds no rise sooner by more than a burst in a hundred."""

MOST_RATIO = 0.99


@dataclass(frozen=True, slots=True)
class EventCounts:
    """Bursts with the event, and all bursts. Counts need not be integers."""

    events: Floats
    bursts: Floats

    def divided(self, by: Floats) -> EventCounts:
        return EventCounts(self.events / by, self.bursts / by)


def log_evidence(events: ArrayLike, bursts: ArrayLike, base_events: ArrayLike, base_bursts: ArrayLike) -> Floats:
    """Log of the probability of the events of a window after a rise over that at the baseline's ratio.

    All arrays broadcast. 0 where either has no bursts.
    """
    counts = (np.asarray(counts, dtype=np.float64) for counts in (events, bursts, base_events, base_bursts))
    had, of, base_had, base_of = np.broadcast_arrays(*counts)
    usual = (base_had + 0.5) / (base_of + 1.0)
    risen = np.full(had.shape, -np.inf)
    for rise in RISE_RATIOS:
        ratio = np.minimum(usual + rise * (1.0 - usual), MOST_RATIO)
        risen = np.logaddexp(risen, had * np.log(ratio) + (of - had) * np.log1p(-ratio))
    before, normal = base_of - base_had + 0.5, scipy.special.betaln
    at_baseline = normal(base_had + 0.5 + had, before + of - had) - normal(base_had + 0.5, before)
    evidence: Floats = np.where((of > 0) & (base_of > 0), risen - math.log(len(RISE_RATIOS)) - at_baseline, 0.0)
    return evidence


def most_chance(evidence: float) -> float:
    """The probability of as much evidence in this window without a rise is at most this (Markov's inequality)."""
    return math.exp(-max(evidence, 0.0))


def new_cycles(lasting_s: Sequence[float], every_s: Floats) -> Floats:
    """The number of cycles that each window has more than the next shorter; of shape (paths, windows)."""
    lengths = np.asarray(lasting_s, dtype=np.float64)
    order = np.argsort(lengths, kind="stable")
    more = np.empty_like(lengths)
    more[order] = np.diff(lengths[order], prepend=0.0)
    return more / np.asarray(every_s, dtype=np.float64)[:, np.newaxis]


def detected(
    newest: EventCounts,
    base: EventCounts,
    is_used: Bools,
    cycles: Floats,
    false_alarm_cycles: ArrayLike,
) -> tuple[Bools, Floats]:
    """The windows by which a rise is detected, and the log evidence of each used one; both of shape (paths, windows).

    `newest`, `is_used` and `cycles` (`new_cycles`) have the shape (paths, windows), `base` and `false_alarm_cycles`,
    the average number of cycles between two false alarms, (paths,). Windows that are not used count for nothing. Of a
    path with a rise, all used windows with evidence for it are detected.
    """
    evidence = np.zeros(newest.events.shape)
    path, window = np.nonzero(is_used)
    evidence[path, window] = log_evidence(
        newest.events[path, window], newest.bursts[path, window], base.events[path], base.bursts[path]
    )
    return exceeded(evidence, is_used, cycles, false_alarm_cycles) & (evidence > 0.0), evidence


def exceeded(evidence: Floats, is_used: Bools, cycles: Floats, false_alarm_cycles: ArrayLike) -> Bools:
    """The used windows of the paths whose evidence, added over all cycles that these windows stand for, is at least
    `false_alarm_cycles`. Shapes as of `detected`."""
    with np.errstate(divide="ignore"):
        since = np.where(is_used, evidence + np.log(cycles), -np.inf)
        least = np.log(np.broadcast_to(np.asarray(false_alarm_cycles, dtype=np.float64), since.shape[:1]))
    is_exceeded = np.logaddexp.reduce(since, axis=1, initial=-np.inf) >= least
    exceeded_windows: Bools = is_used & is_exceeded[:, np.newaxis]
    return exceeded_windows
