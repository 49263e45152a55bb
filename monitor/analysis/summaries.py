"""Mergeable figures of many groups of bursts, shape (groups,), NaN where undefined, without a Python loop. The oracle
is `tests/oracles/pinger.py`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from monitor.analysis.bursts import as_bursts, averages, interquartile_ranges, sent_and_lost
from monitor.analysis.sketches import IPDV_MS, RTT_MS, Sketches
from monitor.arrays import Bools, Floats, Ints

QUANTILE_SHARES = (0.25, 0.5, 0.75, 0.9, 0.95)
_SIGN = np.uint32(1 << 31)


@dataclass(frozen=True, slots=True)
class BurstFigures:
    """An array for each figure, named as in `monitor.archive.models.BurstSummary`."""

    losses_followed: Ints
    losses_paired: Ints
    rtt_min_ms: Floats
    rtt_p25_ms: Floats
    rtt_median_ms: Floats
    rtt_p75_ms: Floats
    rtt_p90_ms: Floats
    rtt_p95_ms: Floats
    rtt_max_ms: Floats
    rtt_avg_ms: Floats
    rtt_iqr_ms: Floats
    ipdv_ms: Floats
    received_avg_ratio: Floats
    received_max_ratio: Floats
    rate_avg_per_ms: Floats
    rate_max_per_ms: Floats
    rtt_sketch: Sketches
    ipdv_sketch: Sketches


def burst_figures(group: ArrayLike, rtts_ms: ArrayLike, sent: ArrayLike, groups: int) -> BurstFigures:
    """Figures of each group; `rtts_ms` and `sent` as in `bursts`. Deterministic to the last bit for the same order
    within groups."""
    rtts, of_burst = as_bursts(rtts_ms), np.asarray(group, dtype=np.int64)
    was_sent, lost = sent_and_lost(rtts, sent)
    followed = lost[:, :-1] & was_sent[:, 1:]
    with np.errstate(divide="ignore", invalid="ignore"):
        shares = 1.0 - lost.sum(axis=1) / was_sent.sum(axis=1)
        rates = 1.0 / averages(rtts)
    of_packet = np.repeat(of_burst, rtts.shape[1])
    values = rtts.ravel()
    differences = np.diff(rtts, axis=1).ravel()
    of_difference = np.repeat(of_burst, max(rtts.shape[1] - 1, 0))
    least, *quantiles, greatest = grouped_quantiles(of_packet, values, groups, (0.0, *QUANTILE_SHARES, 1.0))
    p25_ms, median_ms, p75_ms, p90_ms, p95_ms = quantiles
    return BurstFigures(
        losses_followed=_packets(of_burst, followed, groups),
        losses_paired=_packets(of_burst, followed & lost[:, 1:], groups),
        rtt_min_ms=least,
        rtt_p25_ms=p25_ms,
        rtt_median_ms=median_ms,
        rtt_p75_ms=p75_ms,
        rtt_p90_ms=p90_ms,
        rtt_p95_ms=p95_ms,
        rtt_max_ms=greatest,
        rtt_avg_ms=grouped_means(of_packet, values, groups),
        rtt_iqr_ms=grouped_means(of_burst, interquartile_ranges(rtts), groups),
        ipdv_ms=grouped_ipdv(of_burst, rtts, groups),
        received_avg_ratio=grouped_means(of_burst, shares, groups),
        received_max_ratio=-grouped_minima(of_burst, -shares, groups),
        rate_avg_per_ms=grouped_means(of_burst, rates, groups),
        rate_max_per_ms=-grouped_minima(of_burst, -rates, groups),
        rtt_sketch=Sketches.of_values(of_packet, values, groups, RTT_MS),
        ipdv_sketch=Sketches.of_values(of_difference, differences, groups, IPDV_MS),
    )


def slot_minima(group: ArrayLike, slot: ArrayLike, rtts_ms: Floats, groups: int, slots: int) -> Floats:
    """The minimum RTT of each slot, 0 to `slots` - 1, shape (groups, slots)."""
    place = np.asarray(group, dtype=np.int64) * slots + np.asarray(slot, dtype=np.int64)
    of_burst = np.fmin.reduce(rtts_ms, axis=1, initial=np.nan)
    return grouped_minima(place, of_burst, groups * slots).reshape(groups, slots)


def grouped_ipdv(group: Ints, rtts_ms: Floats, groups: int) -> Floats:
    """Interquartile range of signed differences between consecutive RTTs of a burst (RFC 5481, section 4.1)."""
    differences = np.diff(rtts_ms, axis=1)
    of_difference = np.repeat(group, differences.shape[1])
    lower, upper = grouped_quantiles(of_difference, differences.ravel(), groups, (0.25, 0.75))
    return upper - lower


def grouped_quantiles(group: Ints, values: Floats, groups: int, shares: Sequence[float]) -> list[Floats]:
    """Quantiles of each group, an array (groups,) for each share, without NaN, of values as four-byte floats."""
    there = ~np.isnan(values)
    of_value = group[there]
    # One sort of eight-byte numbers is ten times as fast as two index sorts.
    ordered = np.sort(of_value.astype(np.uint64) << 32 | _sortable(values[there]))
    sizes = np.bincount(of_value, minlength=groups)
    some = sizes > 0
    firsts, lasts = (np.cumsum(sizes) - sizes)[some], (sizes - 1)[some]
    quantiles = []
    for share in shares:
        position = share * lasts
        below = np.floor(position).astype(np.int64)
        lower, upper = (_unsortable(ordered[firsts + at]) for at in (below, np.minimum(below + 1, lasts)))
        quantile = np.full(groups, np.nan)
        quantile[some] = lower + (position - below) * (upper - lower)
        quantiles.append(quantile)
    return quantiles


def _sortable(values: Floats) -> NDArray[np.uint64]:
    """Four-byte floats as unsigned integers of the same order."""
    bits = values.astype(np.float32).view(np.uint32)
    return np.where(bits >> 31, ~bits, bits | _SIGN).astype(np.uint64)


def _unsortable(numbers: NDArray[np.uint64]) -> Floats:
    """Inverse of `_sortable`, from the lower halves."""
    bits = numbers.astype(np.uint32)
    return np.where(bits >> 31, bits ^ _SIGN, ~bits).view(np.float32).astype(np.float64)


def grouped_weighted_medians(group: ArrayLike, values: ArrayLike, weights: ArrayLike, groups: int) -> Floats:
    """Each group's lowest value with half of the weight at or below it; NaN without weight."""
    of_value, heavy = np.asarray(group, dtype=np.int64), np.asarray(weights, dtype=np.float64)
    numbers = np.asarray(values, dtype=np.float64)
    order = np.argsort(of_value.astype(np.uint64) << 32 | _sortable(numbers))
    of_value, numbers, below = of_value[order], numbers[order], np.cumsum(heavy[order])
    totals = np.bincount(of_value, weights=heavy[order], minlength=groups)
    before = np.cumsum(totals) - totals
    medians = np.full(groups, np.nan)
    some = totals > 0
    medians[some] = numbers[np.searchsorted(below, (before + totals / 2)[some])]
    return medians


def grouped_means(group: Ints, values: Floats, groups: int) -> Floats:
    """Means of each group without NaN; `bincount` adds in the given order."""
    there = ~np.isnan(values)
    with np.errstate(invalid="ignore"):
        sums = np.bincount(group[there], weights=values[there], minlength=groups)
        means: Floats = sums / np.bincount(group[there], minlength=groups)
    return means


def grouped_minima(group: Ints, values: Floats, groups: int) -> Floats:
    """Minimum of each group without NaN."""
    least = np.full(groups, np.nan)
    np.fmin.at(least, group, values)
    return least


def _packets(of_burst: Ints, packets: Bools, groups: int) -> Ints:
    return np.bincount(of_burst, weights=packets.sum(axis=1), minlength=groups).astype(np.int64)
