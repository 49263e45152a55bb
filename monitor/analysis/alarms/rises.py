"""Dispersion and baseline of bursts with an event (a lost packet, a duplicate, reordering), for `sequential`. Counts
are divided by the dispersion (quasi-likelihood; P. McCullagh and J. Nelder, "Generalized Linear Models", section 4.5).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from monitor.analysis import binomial
from monitor.arrays import Floats

# A short blip hits both packet sizes of a cycle, which makes two events.
LEAST_EVENTS = 3

SEASON_CONFIDENCE = 0.99


def dispersion(squares: ArrayLike, events: ArrayLike, bursts: ArrayLike, parts: ArrayLike) -> Floats:
    """Pearson's statistic of the counts over its degrees of freedom, at least 1. `squares` is the sum of events²/bursts
    over the parts (hours)."""
    had, of = np.asarray(events, dtype=np.float64), np.asarray(bursts, dtype=np.float64)
    ratio = had / np.maximum(of, 1.0)
    freedom = np.asarray(parts, dtype=np.float64) - 1.0
    misfit = np.asarray(squares, dtype=np.float64) - ratio * had
    defined = (freedom > 0) & (ratio > 0) & (ratio < 1)
    return np.where(defined, np.maximum(misfit / np.where(defined, ratio * (1.0 - ratio) * freedom, 1.0), 1.0), 1.0)


def seasonal(
    base_events: ArrayLike, base_bursts: ArrayLike, season_events: ArrayLike, season_bursts: ArrayLike
) -> tuple[Floats, Floats]:
    """Baseline of each path as events and bursts: the same hours of earlier weeks where significantly worse, else its
    own."""
    own_events, own_bursts = np.asarray(base_events, dtype=np.float64), np.asarray(base_bursts, dtype=np.float64)
    least = np.nan_to_num(binomial.lower_bound(season_events, season_bursts, SEASON_CONFIDENCE))
    worse = least * own_bursts > own_events
    return (
        np.where(worse, np.asarray(season_events, dtype=np.float64), own_events),
        np.where(worse, np.asarray(season_bursts, dtype=np.float64), own_bursts),
    )
