"""Follow the stretches of RTT of many paths, burst by burst: level, start, and probability above a limit.

Normal within a stretch, normal-gamma priors (K. P. Murphy 2007), or an outlier. The KEPT likeliest hypotheses are kept.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import numpy as np
import scipy  # loads scipy.special at its first use: half a second, which most processes do not need
from numpy.typing import ArrayLike, NDArray

from monitor.analysis.segments.segment import HOUR_S, KEPT, TAIL
from monitor.analysis.segments.stretches import LONGEST_SPACING_S

Floats = NDArray[np.float64]
Rows = NDArray[np.int64]

# Newest bursts that determine level and spread, so that a level follows a drift.
MEMORY = 30.0
# Standard deviation of rounding to 1 ms, 1 / sqrt(12): no stretch is taken as quieter.
ROUNDING_MS = 0.3
# One burst's weight for the spread's prior; higher splits a 30 ms jitter, lower merges a slow rise.
FIRST_SHAPE = 0.5
# Share of outliers; a burst alone is likelier an outlier than a change.
OUTLIERS = 0.05
# For new levels and outliers log(RTT + 1 ms) is uniform up to this.
LONGEST_MS = 2000.0
# Mean time between changes of level and of spread; equal times take a slow rise for a spread.
CHANGE_S, SPREAD_CHANGE_S = 2 * HOUR_S, 4 * HOUR_S
# Quantiles that mix the levels of a path's hypotheses; the outermost bound a 95% interval.
POINTS = 21

# Rows of a hypothesis: start, level before, bursts, and normal-gamma mean, count, shape, half sum of squares.
SINCE_S, BEFORE, BURSTS, LEVEL, KNOWN, SHAPE, SQUARES = range(7)


@dataclass(frozen=True, slots=True)
class DelayLevel:
    """The newest stretch of a path; without a level before, it begins with the first burst."""

    median_ms: float
    low_ms: float
    high_ms: float
    spread_ms: float
    bursts: int
    since_s: float
    earliest_s: float
    latest_s: float
    before_ms: float | None


class DelayFilter:
    """The hypotheses of `paths` paths: log weights of shape (paths, KEPT), stretches (7, paths, KEPT)."""

    def __init__(self, paths: int) -> None:
        self.log_weights = np.full((paths, KEPT), -np.inf)
        self.stretches = np.ones((7, paths, KEPT))

    def begin(self, rows: Rows) -> None:
        self.log_weights[rows] = -np.inf

    def take(self, rows: Rows, at_s: ArrayLike, spacing_s: ArrayLike, figure_ms: ArrayLike) -> None:
        """Take one burst of each path of `rows`, `spacing_s` after the burst before (first: any value)."""
        begins, spacing, figures = (
            np.broadcast_to(np.asarray(each, dtype=np.float64), len(rows))[:, np.newaxis]
            for each in (at_s, spacing_s, figure_ms)
        )
        weights, stretches = self.log_weights[rows], self.stretches[:, rows]
        path, likeliest = np.arange(len(rows))[:, np.newaxis], weights.argmax(axis=1)[:, np.newaxis]
        is_first = np.isneginf(weights[path, likeliest])
        spacing = np.minimum(spacing, LONGEST_SPACING_S)
        change, spread_change = spacing / CHANGE_S, spacing / SPREAD_CHANGE_S
        anywhere = -np.log((figures + 1.0) * np.log(LONGEST_MS + 1.0))
        new = np.ones((7, len(rows), 1))
        new[SINCE_S], new[LEVEL] = begins, figures
        new[BEFORE] = np.where(is_first, np.nan, stretches[LEVEL, path, likeliest])
        other_spread = stretches.copy()
        for each in (new, other_spread):
            each[SHAPE], each[SQUARES] = FIRST_SHAPE, FIRST_SHAPE * ROUNDING_MS**2
        stretches = np.concatenate([stretches, other_spread], axis=2)
        fits = _take_into(stretches, figures, anywhere)
        with np.errstate(divide="ignore"):
            arriving = np.where(is_first, 0.0, np.log(change) + anywhere)
            moves = np.log(spread_change)
        going_on = np.concatenate([weights + np.log1p(-change - spread_change), weights + moves], axis=1) + fits
        every = np.concatenate([going_on, arriving], axis=1)
        kept = np.argpartition(-every, KEPT - 1, axis=1)[:, :KEPT]
        every = every[path, kept]
        self.log_weights[rows] = every - np.logaddexp.reduce(every, axis=1, keepdims=True)
        self.stretches[:, rows] = np.concatenate([stretches, new], axis=2)[:, path, kept]

    def above(self, limit_ms: ArrayLike, rows: Rows | slice = slice(None)) -> Floats:
        """Probability that the level of each path's newest stretch is above its limit; 0 without a burst."""
        limits = np.asarray(limit_ms, dtype=np.float64)[..., np.newaxis]
        level, known, shape, squares = self.stretches[LEVEL:, rows]
        above = scipy.special.stdtr(2.0 * shape, (level - limits) / np.sqrt(squares / (shape * known)))
        return np.asarray((np.exp(self.log_weights[rows]) * above).sum(axis=1))

    def levels(self, rows: Rows) -> list[DelayLevel | None]:
        """The newest stretch of each path; None without a burst. Level and start are of all hypotheses, the rest of the
        likeliest."""
        weights, stretches = np.exp(self.log_weights[rows]), self.stretches[:, rows]
        path, likeliest = np.arange(len(rows)), weights.argmax(axis=1)
        level, known, shape, squares = stretches[LEVEL:]
        spread = np.sqrt(squares / shape)
        points = _student_points()[np.rint(2.0 * shape).astype(np.int64)]
        levels = level[..., np.newaxis] + (spread / np.sqrt(known))[..., np.newaxis] * points
        levels = levels.reshape(len(rows), KEPT * POINTS)
        low, median, high = _quantiles(levels, np.repeat(weights / POINTS, POINTS, axis=1), (TAIL, 0.5, 1.0 - TAIL))
        earliest, latest = _quantiles(stretches[SINCE_S], weights, (TAIL, 1.0 - TAIL))
        since, before, bursts = stretches[: BURSTS + 1, path, likeliest]
        columns = (median, low, high, spread[path, likeliest], bursts.astype(np.int64),
                   since, np.minimum(earliest, since), np.maximum(latest, since))  # fmt: skip
        is_begun, befores = weights.any(axis=1), [None if np.isnan(each) else each for each in before.tolist()]
        by_path = zip(*(column.tolist() for column in columns), befores, strict=True)
        return [DelayLevel(*each) if is_begun[row] else None for row, each in enumerate(by_path)]


def _take_into(stretches: Floats, figures: Floats, anywhere: Floats) -> Floats:
    """Add a burst to the stretches, in place; returns its log likelihoods."""
    level, known, shape, squares = stretches[LEVEL:]
    away = (figures - level) ** 2
    shares = known / (known + 1.0)
    gammas = scipy.special.gammaln(shape + 0.5) - scipy.special.gammaln(shape)
    student = gammas + 0.5 * np.log(shares / (2.0 * np.pi * squares))
    student -= (shape + 0.5) * np.log1p(0.5 * shares * away / squares)
    within = student + np.log(1.0 - OUTLIERS)
    fits = np.logaddexp(within, np.log(OUTLIERS) + anywhere)
    counts = np.exp(within - fits)
    squares += 0.5 * counts * (away * known / (known + counts) + ROUNDING_MS**2)
    level += counts / (known + counts) * (figures - level)
    np.minimum(known + counts, MEMORY, out=known)
    shape += 0.5 * counts
    fade = np.minimum(0.5 * MEMORY / shape, 1.0)
    shape *= fade
    squares *= fade
    stretches[BURSTS] += 1.0
    return np.asarray(fits)


def _quantiles(values: Floats, weights: Floats, shares: tuple[float, ...]) -> list[Floats]:
    order = values.argsort(axis=1)
    below = np.take_along_axis(weights, order, axis=1).cumsum(axis=1)
    places = [(below < share * below[:, -1:]).sum(axis=1) for share in shares]
    return [values[np.arange(len(values)), order[np.arange(len(values)), place]] for place in places]


@cache
def _student_points() -> Floats:
    """POINTS quantiles of Student's distribution, by its degrees of freedom up to MEMORY."""
    degrees = np.maximum(np.arange(int(MEMORY) + 1), 1)[:, np.newaxis]
    return np.asarray(scipy.special.stdtrit(degrees, (np.arange(POINTS) + 0.5) / POINTS))
