"""When a daily queue begins and ends: the edges of each day, and the typical edges. Each day's queue is a box; its
edges maximise the sum of differences from half of its height, so that single outliers move nothing."""

from __future__ import annotations

import warnings
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from monitor.arrays import Bools, Floats

# To either side of the slots congested on most days, for days that begin earlier or end later.
SEARCH_H = 3.0
# Beside a typical edge some days are congested and others not.
MARGIN_H = 0.25
# Hours before and after a queue, with which it is compared.
FLANK_H = 4.0
# A low quantile: a day on which the queue begins an hour earlier is congested, too.
FLANK_QUANTILE = 0.25
# Share of the typical rise; with less a day is not congested.
LEAST_SHARE_OF_RISE = 0.3
# An edge in a longer gap is unknown, unless packets are usually as far apart.
GAP_H = 0.25
# Share of the slots that usually have a packet.
LEAST_MEASURED = 0.5
# From a slot's start to its first packet, and from the last to its end; half where bursts are rare.
PHASE = 0.25
# 95% quantile of Student's t for 1, 2, 3 … degrees of freedom: 90% within, two-sided.
T_95 = (6.31, 2.92, 2.35, 2.13, 2.02, 1.94, 1.89, 1.86, 1.83, 1.81, 1.80, 1.78, 1.77, 1.76)
# Standard error of the median over the standard error of the mean, of normal values.
MEDIAN_TO_MEAN = 1.2533


@dataclass(frozen=True, slots=True)
class QueueDays:
    """Measured and congested days at some hours."""

    is_measured: Bools
    is_congested: Bools
    rise_ms: Floats  # above the RTT before and after these hours


@dataclass(frozen=True, slots=True)
class DayEdges:
    """Start and end of each congested day, in hours from its midnight; NaN where not known."""

    begins_h: Floats
    ends_h: Floats
    within_h: float  # uncertainty by the time between packets


def queue_days(rise_ms: Floats, per_day: int, begin: int, end: int, least_rise_ms: float) -> QueueDays:
    """The days on which the RTT in the slots from `begin` to `end` is higher than before and after them. `rise_ms` has
    all days in a row."""
    slot_h = 24.0 / per_day
    margin, reach = max(round(MARGIN_H / slot_h), 1), max(round(FLANK_H / slot_h), 2)
    reach = max(min(reach, (per_day - (end - begin)) // 2 - margin), 1)
    inner = margin if end - begin >= 4 * margin else 0
    inside = _of_days(rise_ms, per_day, begin + inner, end - inner)
    before = _of_days(rise_ms, per_day, begin - margin - reach, begin - margin)
    after = _of_days(rise_ms, per_day, end + margin, end + margin + reach)
    is_measured = (~np.isnan(inside)).mean(axis=1) >= LEAST_MEASURED / _slots_between(rise_ms, per_day)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # of days without any value
        level = np.nanmedian(inside, axis=1)
        low, high = (np.nanquantile(part, FLANK_QUANTILE, axis=1) for part in (before, after))
    is_measured &= ~(np.isnan(low) & np.isnan(high))
    contrast = np.where(is_measured, level - np.fmax(low, high), np.nan)
    with np.errstate(invalid="ignore"):
        is_congested = contrast >= least_rise_ms
        if is_congested.any():
            is_congested &= contrast >= LEAST_SHARE_OF_RISE * np.median(contrast[is_congested])
    return QueueDays(is_measured, is_congested, level - (np.fmin(low, high) + np.fmax(low, high)) / 2.0)


def edges_of_days(rise_ms: Floats, days: QueueDays, per_day: int, begin: int, end: int) -> DayEdges:
    """The edges of each congested day's queue around the slots from `begin` to `end`."""
    slot_h = 24.0 / per_day
    around = max(min(round(SEARCH_H / slot_h), (per_day - (end - begin)) // 2), 0)
    between = _slots_between(rise_ms, per_day)
    longest_gap = max(round(GAP_H / slot_h), round(2.0 * between))
    phase = PHASE if between < 1.5 else 0.5
    values = _of_days(rise_ms, per_day, begin - around, end + around)[days.is_congested]
    begins, ends = [], []
    for of_day, height_ms in zip(values, days.rise_ms[days.is_congested], strict=True):
        is_there = ~np.isnan(of_day)
        low, high = _largest_sum(np.where(is_there, np.clip(of_day / height_ms, 0.0, 1.0) - 0.5, 0.0))
        places = np.flatnonzero(is_there)
        before, after = places[places < low][-1:], places[places >= high][:1]
        last = places[places < high][-1:]
        begins.append(_between(before, places[places >= low][:1], longest_gap) + begin - around + phase)
        ends.append(_between(last, after, longest_gap) + begin - around + 1.0 - phase)
    return DayEdges(np.array(begins) * slot_h, np.array(ends) * slot_h, max(between, 1.0) * slot_h / 2.0)


def _between(before: NDArray[np.int64], after: NDArray[np.int64], longest_gap: int) -> float:
    """Middle of two slots; NaN without them or beyond `longest_gap`."""
    if not len(before) or not len(after) or after[0] - before[0] > longest_gap:
        return np.nan
    return float(before[0] + after[0]) / 2.0


def _slots_between(rise_ms: Floats, per_day: int) -> float:
    """Slots per slot with a packet, in the hours that were measured."""
    is_there = ~np.isnan(rise_ms).reshape(-1, max(per_day // 24, 1))
    return float(is_there[is_there.any(axis=1)].size / max(is_there.sum(), 1))


def _of_days(values: Floats, per_day: int, begin: int, end: int) -> Floats:
    days = len(values) // per_day
    padded = np.concatenate([np.full(2 * per_day, np.nan), values, np.full(2 * per_day, np.nan)])
    places = np.arange(2, days + 2)[:, np.newaxis] * per_day + np.arange(begin, end)[np.newaxis]
    of_days: Floats = padded[places]
    return of_days


def typical_edge(edges_h: Floats, within_h: float) -> tuple[float, float]:
    """The median of the days' edges, and the half width in minutes of its 90% confidence interval."""
    there = edges_h[~np.isnan(edges_h)]
    middle = float(np.median(there))
    sigma_h = 1.4826 * float(np.median(np.abs(there - middle)))
    degrees = min(max(len(there) - 1, 1), len(T_95))
    error_h = T_95[degrees - 1] * MEDIAN_TO_MEAN * sigma_h / np.sqrt(len(there))
    return middle, 60.0 * (within_h + error_h)


def _largest_sum(values: Floats) -> tuple[int, int]:
    """Start and end (exclusive) of the contiguous part with the largest sum."""
    sums = np.concatenate([[0.0], np.cumsum(values)])
    gains = sums - np.minimum.accumulate(sums)
    high = int(np.argmax(gains))
    return int(np.argmin(sums[: high + 1])), high
