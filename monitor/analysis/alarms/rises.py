"""Counts of bursts with an event, as input of the test for events that have become more frequent (`sequential`).

In: the bursts with the event (a lost packet, a duplicate, reordering) and all bursts, of hours and of the same hours in
the weeks before. Out: the dispersion of the counts, and the baseline.

The event is counted per burst, since packets are lost together: a burst counts the same for any number of lost packets.
Clustering over longer times appears in the baseline as a dispersion above that of independent bursts, by which all
counts are divided (quasi-likelihood; P. McCullagh and J. Nelder, "Generalized Linear Models", section 4.5).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from monitor.analysis import binomial

Floats = NDArray[np.float64]

LEAST_EVENTS = 3
"""Minimum events of a window. A short blip hits both packet sizes of a cycle, which makes two."""

SEASON_CONFIDENCE = 0.99


def dispersion(squares: ArrayLike, events: ArrayLike, bursts: ArrayLike, parts: ArrayLike) -> Floats:
    """Dispersion: variance of the counts of parts (hours) over that of independent bursts, at least 1.

    `squares` is the sum over the parts of events²/bursts, the others are sums and the number of parts. Pearson's
    statistic over its degrees of freedom.
    """
    had, of = np.asarray(events, dtype=np.float64), np.asarray(bursts, dtype=np.float64)
    ratio = had / np.maximum(of, 1.0)
    freedom = np.asarray(parts, dtype=np.float64) - 1.0
    misfit = np.asarray(squares, dtype=np.float64) - ratio * had
    defined = (freedom > 0) & (ratio > 0) & (ratio < 1)
    return np.where(defined, np.maximum(misfit / np.where(defined, ratio * (1.0 - ratio) * freedom, 1.0), 1.0), 1.0)


def seasonal(
    base_events: ArrayLike, base_bursts: ArrayLike, season_events: ArrayLike, season_bursts: ArrayLike
) -> tuple[Floats, Floats]:
    """Baseline of each path as events and bursts: its season's where that is significantly worse, else its own.

    A season is the same hours of the week in the weeks before, so that a weekly pattern is no regression; a season with
    few data changes nothing.
    """
    own_events, own_bursts = np.asarray(base_events, dtype=np.float64), np.asarray(base_bursts, dtype=np.float64)
    least = np.nan_to_num(binomial.lower_bound(season_events, season_bursts, SEASON_CONFIDENCE))
    worse = least * own_bursts > own_events
    return (
        np.where(worse, np.asarray(season_events, dtype=np.float64), own_events),
        np.where(worse, np.asarray(season_bursts, dtype=np.float64), own_bursts),
    )
