"""When a daily queue begins and ends: each day's edges, and the typical ones with their uncertainty.

In: by how much each slot's minimum RTT is above its base, and the slots between which most days are congested. Out:
hours of the day. On each day the queue is a box of that day's height: its edges are those for which the slots inside
are above half of the height and those outside below, by the largest sum of the differences, so that single outliers
and dips move nothing. A slot in which the queue stood only for a part has a low minimum, and some slots have no
packets: the edge lies between the last slot without the queue and the first with it, or the other way round.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]

SEARCH_H = 3.0
"""To either side of the slots that are congested on most days: days that begin earlier or end later."""
MARGIN_H = 0.25
"""Beside a typical edge, in which some days are congested and others not."""
FLANK_H = 4.0
"""Before and after a queue, with which it is compared."""
FLANK_QUANTILE = 0.25
"""A day on which the queue begins an hour earlier is congested, too."""
LEAST_SHARE_OF_RISE = 0.3
"""Of the typical rise: a smaller one is no day of this queue."""
GAP_H = 0.25
"""An edge in a longer gap of the measurements is not known, unless packets are as far apart as that."""
LEAST_MEASURED = 0.5
"""Of the slots that usually have a packet."""
PHASE = 0.25
"""How far into a slot its first packet is sent, in slots, and how long before its end the last: anywhere in the time
between bursts, half a slot where only some slots have a burst."""
T_95 = (6.31, 2.92, 2.35, 2.13, 2.02, 1.94, 1.89, 1.86, 1.83, 1.81, 1.80, 1.78, 1.77, 1.76)
"""95% quantile of Student's t for 1, 2, 3 … degrees of freedom: 90% of it is within, to both sides."""
MEDIAN_TO_MEAN = 1.2533
"""Standard error of the median to that of the mean, of normal values."""


@dataclass(frozen=True, slots=True)
class QueueDays:
    """Of each day: whether it was measured and congested at some hours, and by how much the RTT was above that before
    and after them, in ms."""

    is_measured: Bools
    is_congested: Bools
    rise_ms: Floats


@dataclass(frozen=True, slots=True)
class DayEdges:
    """Begin and end of each congested day, in hours from its midnight, to within `within_h` by the time between
    packets; NaN where not known."""

    begins_h: Floats
    ends_h: Floats
    within_h: float


def queue_days(rise_ms: Floats, per_day: int, begin: int, end: int, least_rise_ms: float) -> QueueDays:
    """The days with a queue in the slots from `begin` to `end`: the RTT is higher than before them and than after them,
    so that a change of the route is no queue. `rise_ms` is of all days in a row."""
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
    """The middle of two slots; NaN where there are none, or they are too far apart."""
    if not len(before) or not len(after) or after[0] - before[0] > longest_gap:
        return np.nan
    return float(before[0] + after[0]) / 2.0


def _slots_between(rise_ms: Floats, per_day: int) -> float:
    """How many slots there are for each with a packet, in the hours that were measured."""
    is_there = ~np.isnan(rise_ms).reshape(-1, max(per_day // 24, 1))
    return float(is_there[is_there.any(axis=1)].size / max(is_there.sum(), 1))


def _of_days(values: Floats, per_day: int, begin: int, end: int) -> Floats:
    """The slots from `begin` to `end` of each day, which may be on the day before or the next; NaN where there are no
    days."""
    days = len(values) // per_day
    padded = np.concatenate([np.full(2 * per_day, np.nan), values, np.full(2 * per_day, np.nan)])
    places = np.arange(2, days + 2)[:, np.newaxis] * per_day + np.arange(begin, end)[np.newaxis]
    of_days: Floats = padded[places]
    return of_days


def typical_edge(edges_h: Floats, within_h: float) -> tuple[float, float]:
    """The median of the days' edges, each to within so many hours, and within how many minutes of it the true one lies
    with 90% confidence."""
    there = edges_h[~np.isnan(edges_h)]
    middle = float(np.median(there))
    sigma_h = 1.4826 * float(np.median(np.abs(there - middle)))
    degrees = min(max(len(there) - 1, 1), len(T_95))
    error_h = T_95[degrees - 1] * MEDIAN_TO_MEAN * sigma_h / np.sqrt(len(there))
    return middle, 60.0 * (within_h + error_h)


def _largest_sum(values: Floats) -> tuple[int, int]:
    """The contiguous part with the largest sum: first place, and the place after the last."""
    sums = np.concatenate([[0.0], np.cumsum(values)])
    gains = sums - np.minimum.accumulate(sums)
    high = int(np.argmax(gains))
    return int(np.argmin(sums[: high + 1])), high
