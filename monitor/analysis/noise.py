"""Test days against days before for changes beyond a path's noise: shape (paths, days), NaN or 0 sent without data.

The larger p-value of an exact rank test (Mann, Whitney) and a quasi-likelihood t-test (McCullagh and Nelder 1989,
section 4.5) counts.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import numpy as np
import scipy  # loads scipy.special at its first use: half a second, which most processes do not need
from numpy.typing import ArrayLike, NDArray

from monitor.analysis.alarms.ranks import at_most
from monitor.arrays import Floats

# Minimum number of days for a test.
LEAST_DAYS, LEAST_DAYS_BEFORE = 3, 14

# Minimum relative deviation of a value: daily medians come from sketches, which are within 1%.
SMALLEST_SCALE = 0.01

MOST_CORRELATION = 0.9


@dataclass(frozen=True, slots=True)
class ChangeTests:
    """Value of the period and of the days before it for each path, NaN with too few days. Loss is pooled; others are
    medians of days."""

    now: Floats
    before: Floats
    chance: Floats  # two-sided, of the difference by noise alone


def loss_changes(lost: ArrayLike, sent: ArrayLike, lost_before: ArrayLike, sent_before: ArrayLike) -> ChangeTests:
    """Compare the loss of a period's days with the days before, from counts of packets."""
    now, now_sent = _floats(lost), _floats(sent)
    past, past_sent = _floats(lost_before), _floats(sent_before)
    enough = _has_enough_days(now_sent > 0, past_sent > 0)
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio, ratio_before = now.sum(axis=1) / now_sent.sum(axis=1), past.sum(axis=1) / past_sent.sum(axis=1)
        by_ranks = _rank_chances(now / now_sent, past / past_sent)
        by_scale = _count_chances(now, now_sent, past, past_sent)
    return _where_tested(enough, ratio, ratio_before, np.maximum(by_ranks, by_scale))


def value_changes(values: ArrayLike, values_before: ArrayLike) -> ChangeTests:
    """Compare the median of a period's daily values (above 0) with the days before."""
    now, past = np.log(_floats(values)), np.log(_floats(values_before))
    enough = _has_enough_days(~np.isnan(now), ~np.isnan(past))
    middle, middle_before = _medians(now), _medians(past)
    low, high = _quartiles(past)
    scale = np.maximum((high - low) / 1.349, SMALLEST_SCALE)
    correlation = _correlations(past - middle_before[:, np.newaxis])
    days, days_before = (~np.isnan(now)).sum(axis=1), (~np.isnan(past)).sum(axis=1)
    of_mean, of_mean_before = _mean_variance(days, correlation), _mean_variance(days_before, correlation)
    with np.errstate(invalid="ignore", divide="ignore"):
        # A median of normal values scatters by pi/2 more than their mean.
        score = np.abs(middle - middle_before) / (scale * np.sqrt((of_mean + of_mean_before) * np.pi / 2))
        by_scale = 2.0 * scipy.special.stdtr(np.maximum(1.0 / of_mean_before - 2.0, 1.0), -score)
        chances = np.maximum(_rank_chances(now, past), by_scale)
    return _where_tested(enough, np.exp(middle), np.exp(middle_before), chances)


def adjusted(chances: ArrayLike) -> Floats:
    """Chances corrected for multiple tests (NaN: not tested), by Y. Benjamini and Y. Hochberg, "Controlling the false
    discovery rate" (1995)."""
    given = _floats(chances)
    tested = np.flatnonzero(~np.isnan(given))
    order = tested[np.argsort(given[tested])]
    scaled = given[order] * len(order) / np.arange(1, len(order) + 1)
    corrected = np.full(given.shape, np.nan)
    corrected[order] = np.minimum(np.minimum.accumulate(scaled[::-1])[::-1], 1.0)
    return corrected


def _floats(values: ArrayLike) -> Floats:
    return np.asarray(values, dtype=np.float64)


def _has_enough_days(days: NDArray[np.bool_], days_before: NDArray[np.bool_]) -> NDArray[np.bool_]:
    enough: NDArray[np.bool_] = (days.sum(axis=1) >= LEAST_DAYS) & (days_before.sum(axis=1) >= LEAST_DAYS_BEFORE)
    return enough


def _where_tested(enough: NDArray[np.bool_], now: Floats, before: Floats, chance: Floats) -> ChangeTests:
    def where_enough(values: Floats) -> Floats:
        return np.where(enough, values, np.nan)

    return ChangeTests(where_enough(now), where_enough(before), where_enough(np.minimum(chance, 1.0)))


def _rank_chances(now: Floats, past: Floats) -> Floats:
    """Two-sided p-values of the rank test; ties count against a change, NaN is no day."""
    there, there_before = ~np.isnan(now), ~np.isnan(past)
    not_above = (now[:, :, np.newaxis] <= past[:, np.newaxis, :]).sum(axis=(1, 2))
    not_below = (now[:, :, np.newaxis] >= past[:, np.newaxis, :]).sum(axis=(1, 2))
    pairs = np.minimum(not_above, not_below).tolist()
    days, days_before = there.sum(axis=1).tolist(), there_before.sum(axis=1).tolist()
    return np.array([2.0 * _at_most(*counts) for counts in zip(pairs, days, days_before, strict=True)])


@cache
def _at_most(pairs: int, days: int, days_before: int) -> float:
    return at_most(pairs, days, days_before) if days and days_before else 1.0


def _count_chances(now: Floats, now_sent: Floats, past: Floats, past_sent: Floats) -> Floats:
    total, total_before = now_sent.sum(axis=1), past_sent.sum(axis=1)
    lost = now.sum(axis=1) + past.sum(axis=1)
    pooled = lost / (total + total_before)
    of_one = pooled * (1.0 - pooled)
    residuals, residuals_before = _residuals(now, now_sent, of_one), _residuals(past, past_sent, of_one)
    days, days_before = (now_sent > 0).sum(axis=1), (past_sent > 0).sum(axis=1)
    squares = np.nansum(residuals**2, axis=1) + np.nansum(residuals_before**2, axis=1)
    dispersion = np.maximum(squares / np.maximum(days + days_before - 2, 1), 1.0)
    correlation = _correlations(residuals_before)
    bunched = days * _mean_variance(days, correlation)
    variance = of_one * dispersion * bunched * total * total_before / (total + total_before)
    score = np.abs(now.sum(axis=1) - pooled * total) / np.sqrt(variance)
    independent_days = np.maximum(1.0 / _mean_variance(days + days_before, correlation) - 2.0, 1.0)
    chances: Floats = np.where(lost > 0, 2.0 * scipy.special.stdtr(independent_days, -score), 1.0)
    return chances


def _residuals(lost: Floats, sent: Floats, of_one: Floats) -> Floats:
    """Deviation of each day in standard deviations of a binomial; NaN without data."""
    ratio = (lost.sum(axis=1) / sent.sum(axis=1))[:, np.newaxis]
    residuals: Floats = np.where(sent > 0, (lost - ratio * sent) / np.sqrt(of_one[:, np.newaxis] * sent), np.nan)
    return residuals


def _correlations(residuals: Floats) -> Floats:
    """Correlation of neighbouring days plus a standard error, 0 to `MOST_CORRELATION`."""
    centred = (
        residuals
        - np.nanmean(np.where(np.isnan(residuals).all(axis=1, keepdims=True), 0.0, residuals), axis=1)[:, np.newaxis]
    )
    filled = np.nan_to_num(centred)
    squares = (filled**2).sum(axis=1)
    days = np.maximum((~np.isnan(residuals)).sum(axis=1), 1)
    estimated = np.divide(
        (filled[:, 1:] * filled[:, :-1]).sum(axis=1), squares, out=np.zeros(len(squares)), where=squares > 0
    )
    correlations: Floats = np.clip(estimated + 1.0 / np.sqrt(days), 0.0, MOST_CORRELATION)
    return correlations


def _mean_variance(days: NDArray[np.int64], correlation: Floats) -> Floats:
    count = np.maximum(days, 1).astype(np.float64)
    lags = np.arange(1, int(count.max(initial=1)))
    weights = np.maximum(1.0 - lags / count[:, np.newaxis], 0.0)
    variance: Floats = (1.0 + 2.0 * (weights * correlation[:, np.newaxis] ** lags).sum(axis=1)) / count
    return variance


def _medians(values: Floats) -> Floats:
    return _shares(values, 0.5)


def _quartiles(values: Floats) -> tuple[Floats, Floats]:
    return _shares(values, 0.25), _shares(values, 0.75)


def _shares(values: Floats, share: float) -> Floats:
    ordered = np.sort(values, axis=1)
    count = (~np.isnan(values)).sum(axis=1)
    position = share * np.maximum(count - 1, 0)
    below = np.floor(position).astype(np.int64)
    rows = np.arange(len(values))
    above = np.minimum(below + 1, np.maximum(count - 1, 0))
    low = ordered[rows, below]
    quantiles: Floats = low + (position - below) * (ordered[rows, above] - low)
    return quantiles
