"""Sequential test (e-detector) for events that have become more frequent, on the counts of windows that end now.

The average number of cycles to a false alarm is at least the threshold, however often evaluated (Shin, Ramdas and
Rinaldo, "E-detectors", NEJSDS 2, 2024, theorem 2.4; Pollak, Annals of Statistics 13, 1985).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import scipy
from numpy.typing import ArrayLike

from monitor.arrays import Bools, Floats

# Shares of the bursts without an event in the baseline, from 0.04% of packets (ten a burst) to 9%.
RISE_RATIOS = tuple(float(ratio) for ratio in np.geomspace(0.004, 0.6, 10))

MOST_RATIO = 0.99


@dataclass(frozen=True, slots=True)
class EventCounts:
    """Bursts with the event, and all bursts. Counts need not be integers."""

    events: Floats
    bursts: Floats

    def divided(self, by: Floats) -> EventCounts:
        return EventCounts(self.events / by, self.bursts / by)


def log_evidence(events: ArrayLike, bursts: ArrayLike, base_events: ArrayLike, base_bursts: ArrayLike) -> Floats:
    """Log likelihood ratio of a window's events, with a rise to without. Broadcasts; 0 without bursts."""
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
    """Upper bound of the probability of as much evidence in this window without a rise (Markov's inequality)."""
    return math.exp(-max(evidence, 0.0))


def new_cycles(lasting_s: Sequence[float], every_s: Floats) -> Floats:
    """Number of cycles that each window has more than the next shorter; shape (paths, windows)."""
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
    """Windows by which a rise is detected, and the log evidence of used windows, shape (paths, windows).

    `newest`, `is_used` and `cycles` (`new_cycles`) have that shape, `base` and `false_alarm_cycles` (average cycles
    between false alarms) (paths,). All used windows with evidence of a rising path are detected.
    """
    evidence = np.zeros(newest.events.shape)
    path, window = np.nonzero(is_used)
    evidence[path, window] = log_evidence(
        newest.events[path, window], newest.bursts[path, window], base.events[path], base.bursts[path]
    )
    return exceeded(evidence, is_used, cycles, false_alarm_cycles) & (evidence > 0.0), evidence


def exceeded(evidence: Floats, is_used: Bools, cycles: Floats, false_alarm_cycles: ArrayLike) -> Bools:
    """Used windows of paths with evidence, summed over all their cycles, of at least `false_alarm_cycles`. Shapes as of
    `detected`."""
    with np.errstate(divide="ignore"):
        since = np.where(is_used, evidence + np.log(cycles), -np.inf)
        least = np.log(np.broadcast_to(np.asarray(false_alarm_cycles, dtype=np.float64), since.shape[:1]))
    is_exceeded = np.logaddexp.reduce(since, axis=1, initial=-np.inf) >= least
    exceeded_windows: Bools = is_used & is_exceeded[:, np.newaxis]
    return exceeded_windows
