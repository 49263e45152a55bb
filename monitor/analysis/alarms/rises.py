"""Test for events that have become more frequent: counts of a path's newest bursts against its baseline.

In: the bursts of a window with the event (a lost packet, a duplicate, reordering), all bursts of the window, and the
same of a baseline outside the window. Out: the probability of such a rise without a change, and the windows with a
significant rise.

The event is counted per burst, since packets are lost together: a burst counts the same for any number of lost packets.
Clustering over longer times appears in the baseline as a dispersion above that of independent bursts, by which all
counts are divided (quasi-likelihood; P. McCullagh and J. Nelder, "Generalized Linear Models", section 4.5).

The test is exact and allows for a short baseline: the binomial tail at the upper confidence bound of the baseline's
ratio, plus the chance that the bound is wrong (R. Berger and D. Boos, "P values maximized over a confidence set for the
nuisance parameter", JASA 89, 1994).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from monitor.analysis import binomial

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]

LEAST_EVENTS = 3
"""Minimum events of a window. A short blip hits both packet sizes of a cycle, which makes two."""

BOUND_SHARE = 0.1
"""Share of the false alarm probability spent on the bound of the baseline."""

SEASON_CONFIDENCE = 0.99


def chance(
    events: ArrayLike, bursts: ArrayLike, base_events: ArrayLike, base_bursts: ArrayLike, bound_chance: ArrayLike
) -> Floats:
    """Probability of at least this many events at the baseline's ratio; 1 where either has no bursts.

    All arrays broadcast; counts need not be integers. `bound_chance` is added for a wrong bound of the baseline.
    """
    had, of = np.asarray(events, dtype=np.float64), np.asarray(bursts, dtype=np.float64)
    base_of = np.asarray(base_bursts, dtype=np.float64)
    spent = np.asarray(bound_chance, dtype=np.float64)
    bound = np.nan_to_num(binomial.upper_bound(base_events, base_of, 1.0 - spent), nan=1.0)
    tail = binomial.at_least(had, of, bound)
    return np.where((of > 0) & (base_of > 0), np.minimum(tail + spent, 1.0), 1.0)


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


def proven(
    events: Floats,
    bursts: Floats,
    base_events: Floats,
    base_bursts: Floats,
    scatter: Floats,
    looks_an_hour: Floats,
    alarms_an_hour: float,
) -> tuple[Bools, Floats]:
    """Windows with a significant rise, and the chance of each; both of shape (paths, windows).

    `events` and `bursts` have the shape (paths, windows), all else (paths,). `looks_an_hour` is the rate of new bursts.
    Every evaluation of a window gets the same share of `alarms_an_hour`, the false alarm rate of a path, which by
    Boole's inequality bounds the total however the windows overlap.
    """
    allowed = (alarms_an_hour / (np.maximum(looks_an_hour, 1e-9) * events.shape[1]))[:, np.newaxis]
    by = scatter[:, np.newaxis]
    chances = chance(
        events / by,
        bursts / by,
        (base_events / scatter)[:, np.newaxis],
        (base_bursts / scatter)[:, np.newaxis],
        BOUND_SHARE * np.minimum(allowed, 1.0),
    )
    return (chances <= allowed) & (events >= LEAST_EVENTS), chances
