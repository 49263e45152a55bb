"""Exact Mann-Whitney test for a fall of a path's newest values; negate them for a rise. Shape (paths, values), newest
last, padded with NaN in front.

H. Mann and D. Whitney, 1947; ties count against a fall.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from math import comb

import numpy as np
from numpy.typing import NDArray

from monitor.arrays import Floats, Ints

# Numbers of newest values compared with the values before them.
NEWEST = (3, 4, 5, 6, 8, 12)

# Maximum number of values before; the longest usable series has LONGEST values.
MOST_BEFORE = 48

LONGEST = max(NEWEST) + MOST_BEFORE


@dataclass(frozen=True, slots=True)
class FallTests:
    """Most improbable fall of each path: the newest `count` values against the `before` values before them."""

    count: Ints
    before: Ints
    chance: Floats  # of the best comparison, times the number of comparisons, at most 1
    newest_median: Floats  # NaN without a comparison
    before_median: Floats


def falls(values: Floats) -> FallTests:
    """Fall of each path's newest values; needs three newest values and three before."""
    chances = np.stack([_chances(values, count) for count in NEWEST])
    best = chances.argmin(axis=0)
    count = np.asarray(NEWEST, dtype=np.int64)[best]
    newest_median, before_median = np.full((2, len(values)), np.nan)
    before = np.zeros(len(values), dtype=np.int64)
    for newest_count in NEWEST:
        rows = np.flatnonzero((count == newest_count) & (chances.min(axis=0) < 1.0))
        if not len(rows):
            continue
        newest, past = _parts(values[rows], newest_count)
        newest_median[rows] = np.median(newest, axis=1)
        before_median[rows] = np.nanmedian(past, axis=1)
        before[rows] = (~np.isnan(past)).sum(axis=1)
    return FallTests(count, before, np.minimum(chances.min(axis=0) * len(NEWEST), 1.0), newest_median, before_median)


def may_have_fallen(values: Floats, below_ratio: float) -> NDArray[np.bool_]:
    """Quick necessary condition for a median of the newest values (above 0) below this share of the median before; no
    false negatives."""
    lowest = np.fmin.reduce(values[:, -max(NEWEST) :], axis=1, initial=np.inf)
    highest = np.fmax.reduce(values, axis=1, initial=-np.inf)
    fallen: NDArray[np.bool_] = lowest < below_ratio * highest
    return fallen


def at_most(pairs: int, newest: int, before: int) -> float:
    """Probability of at most this many pairs (a newest value, a value before) in the wrong order by chance."""
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
    """Orders with 0, 1, 2, … pairs of a newest value not lower than a value before."""
    if newest == 0 or before == 0:
        return (1,)
    largest_is_newest = (0,) * before + _orders(newest - 1, before)
    largest_is_before = _orders(newest, before - 1) + (0,) * newest
    return tuple(a + b for a, b in zip(largest_is_newest, largest_is_before, strict=True))
