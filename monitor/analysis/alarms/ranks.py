"""Have a path's newest values shifted? The newest few against those before by their ranks, with small samples.

In: values of shape (paths, values) in the order of time, the newest last, NaN in front where a path has fewer. Out: how
probable it is that the newest are so low where nothing has changed. Mann and Whitney's test, exact (H. Mann and
D. Whitney, "On a test of whether one of two random variables is stochastically larger than the other", 1947): nothing
is assumed of how values are distributed, and three values never prove what three values cannot. Ties count against a
fall. For a rise give the negative values.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from math import comb

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

NEWEST = (3, 4, 5, 6, 8, 12)
"""How many of the newest values are compared with those before them."""

MOST_BEFORE = 48
"""Of the values before, the newest so many. The whole series that can count has `LONGEST` values."""

LONGEST = max(NEWEST) + MOST_BEFORE


@dataclass(frozen=True, slots=True)
class Falls:
    """For each path the most improbable fall: the newest `count` values against the `before` ones before them.

    `chance` is that of the best comparison times their number, at most 1. Medians are NaN where there is no comparison.
    """

    count: Ints
    before: Ints
    chance: Floats
    newest_median: Floats
    before_median: Floats


def falls(values: Floats) -> Falls:
    """The fall of each path's newest values; a path needs three values and as many before them."""
    chances = np.stack([_chances(values, count) for count in NEWEST])
    best = chances.argmin(axis=0)
    count = np.asarray(NEWEST, dtype=np.int64)[best]
    newest_median, before_median = np.full((2, len(values)), np.nan)
    before = np.zeros(len(values), dtype=np.int64)
    for one in NEWEST:
        rows = np.flatnonzero((count == one) & (chances.min(axis=0) < 1.0))
        if not len(rows):
            continue
        newest, past = _parts(values[rows], one)
        newest_median[rows] = np.median(newest, axis=1)
        before_median[rows] = np.nanmedian(past, axis=1)
        before[rows] = (~np.isnan(past)).sum(axis=1)
    return Falls(count, before, np.minimum(chances.min(axis=0) * len(NEWEST), 1.0), newest_median, before_median)


def may_have_fallen(values: Floats, below_ratio: float) -> NDArray[np.bool_]:
    """Whether the median of a path's newest values, all above 0, can be below so much of that of the values before, by
    their extremes: a look that is a hundred times as cheap as the test, and rules no such fall out."""
    lowest = np.fmin.reduce(values[:, -max(NEWEST) :], axis=1, initial=np.inf)
    highest = np.fmax.reduce(values, axis=1, initial=-np.inf)
    fallen: NDArray[np.bool_] = lowest < below_ratio * highest
    return fallen


def at_most(pairs: int, newest: int, before: int) -> float:
    """How probable it is that at most so many pairs (a newest value, one before) are in the wrong order, by chance."""
    return sum(_orders(newest, before)[: pairs + 1]) / comb(newest + before, newest)


def _chances(values: Floats, count: int) -> Floats:
    newest, past = _parts(values, count)
    chances = np.ones(len(values))
    if past.shape[1] == 0:
        return chances
    not_lower = (newest[:, :, np.newaxis] >= past[:, np.newaxis, :]).sum(axis=(1, 2))
    of = np.where(np.isnan(newest).any(axis=1), 0, (~np.isnan(past)).sum(axis=1))
    for before in np.unique(of[of >= count]).tolist():
        rows = of == before
        chances[rows] = _cumulated(count, before)[not_lower[rows]]
    return chances


def _parts(values: Floats, count: int) -> tuple[Floats, Floats]:
    return values[:, -count:], values[:, -count - MOST_BEFORE : -count]


@cache
def _cumulated(newest: int, before: int) -> Floats:
    return np.cumsum(np.array(_orders(newest, before), dtype=np.float64)) / comb(newest + before, newest)


@cache
def _orders(newest: int, before: int) -> tuple[int, ...]:
    """How many orders of the values have 0, 1, 2, … pairs of a newest value that is not lower than one before."""
    if newest == 0 or before == 0:
        return (1,)
    largest_is_newest = (0,) * before + _orders(newest - 1, before)
    largest_is_before = _orders(newest, before - 1) + (0,) * newest
    return tuple(a + b for a, b in zip(largest_is_newest, largest_is_before, strict=True))
