"""Daily congestion: hours of the day in which a path's minimum RTT is above its base, on most days, as a full queue
raises it.

M. Luckie et al., IMC 2014; A. Dhamdhere et al., "Inferring Persistent Interdomain Congestion", SIGCOMM 2018.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from monitor.analysis.daily_edges import edges_of_days, queue_days, typical_edge
from monitor.arrays import Bools, Floats

LEAST_RISE_MS = 1.0
SIGMAS = 5.0
BASE_SHARE = 0.1
# To either side. Congestion lasts longer than 0.9 days on no path worth measuring.
BASE_H = 12.0

# The shortest slot with a reply in most measured hours is used: minima of more packets vary less.
DETECTION_MIN = (15, 20, 30, 60)
LEAST_SHARE = 0.8

LONGEST_GAP_H = 1.0
SHORTEST_RUN_H = 0.75

# Days with at least half of their slots; with fewer nothing is stated.
LEAST_DAYS = 5
RECURRING_SHARE = 0.4
LEAST_RECURRENCES = 3
# The first finds hours in which quarters of an hour recur, the second the typical hours.
PASSES = 2

WORST_BY_MS = 1.0
WORST_BY_SHARE = 0.25
WORST_BY_SIGMAS = 3.0

WEEKDAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
PARTS_OF_DAY = ("night", "morning", "afternoon", "evening")


@dataclass(frozen=True, slots=True)
class RecurringHours:
    """Hours of the day with congestion on most days. Start and end are medians over the days."""

    begin_h: float  # 0 to 24; beyond 24 on the next day
    end_h: float
    begin_within_min: float  # half width of the 90% confidence interval
    end_within_min: float
    days_congested: int
    days_measured: int
    rise_ms: float  # median rise of the minimum RTT
    worst_weekday: int | None  # with the highest rise, 0 for Monday; None if alike


@dataclass(frozen=True, slots=True)
class DailyCongestion:
    can_tell: bool  # False with too few days
    hours: tuple[RecurringHours, ...]  # most days first; empty if none recur


def congested_slots(rise: Floats, slots_a_day: int) -> Bools:
    """The congested slots of a series, by their rise in ms above the base; shape (slots,)."""
    quiet = rise[rise <= np.nanmedian(rise)] if np.isfinite(rise).any() else rise[:0]
    # Half of the quiet slots lie below their median: 1.4826 times that deviation is the standard deviation.
    sigma = 1.4826 * float(np.median(np.nanmedian(rise) - quiet)) * 2.0 if len(quiet) else 0.0
    with np.errstate(invalid="ignore"):
        is_high = rise > np.nanmedian(quiet) + max(LEAST_RISE_MS, SIGMAS * sigma) if len(quiet) else rise > np.inf
    slot_h = 24.0 / slots_a_day
    closed = _without_short_runs(~is_high, LONGEST_GAP_H / slot_h)
    return _without_short_runs(~closed, SHORTEST_RUN_H / slot_h) & ~np.isnan(rise)


def above_base(minimum_ms: Floats, slots_a_day: int) -> Floats:
    """Rise of each slot of a series above its base, in ms; NaN where there is none."""
    reach = round(BASE_H / 24.0 * slots_a_day)
    padded = np.concatenate([np.full(reach, np.nan), minimum_ms, np.full(reach, np.nan)])
    around = np.sort(np.lib.stride_tricks.sliding_window_view(padded, 2 * reach + 1), axis=1)
    count = (~np.isnan(around)).sum(axis=1)
    place = np.minimum((BASE_SHARE * count).astype(np.int64), np.maximum(count - 1, 0))
    rise: Floats = minimum_ms - around[np.arange(len(around)), place]
    return rise


def daily_congestion(minimum_ms: Floats, weekdays: Sequence[int]) -> DailyCongestion:
    """The recurring congestion of successive days, shape (days, slots); weekdays are 0 for Monday to 6."""
    coarse_ms = _by_longer_slots(minimum_ms)
    days, slots = coarse_ms.shape
    is_measured = (~np.isnan(coarse_ms)).sum(axis=1) >= slots / 2
    if is_measured.sum() < LEAST_DAYS:
        return DailyCongestion(False, ())
    with np.errstate(invalid="ignore"):
        if (coarse_ms > np.nanmin(coarse_ms) + LEAST_RISE_MS).sum() < LEAST_RECURRENCES:
            return DailyCongestion(True, ())  # most paths, at little cost
    rise = above_base(coarse_ms.ravel(), slots)
    is_congested = congested_slots(rise, slots).reshape(days, slots)
    recurs = _recurring(is_congested, ~np.isnan(coarse_ms), weekdays)
    # The base of a quarter of an hour is that of its parts.
    per_slot = minimum_ms.shape[1] // slots
    fine_rise = (minimum_ms.reshape(-1, per_slot) - (coarse_ms.ravel() - rise)[:, np.newaxis]).ravel()
    recurring = [
        _hours(begin * per_slot, end * per_slot, fine_rise, minimum_ms.shape[1], weekdays)
        for begin, end in _circular_runs(recurs)
    ]
    there = [hours for hours in recurring if hours is not None]
    return DailyCongestion(True, tuple(sorted(there, key=lambda hours: (-hours.days_congested, hours.begin_h))))


def in_words(hours: RecurringHours, zone: str = "", solar_h: float = 0.0) -> str:
    """Describe the hours: "congested 19:40 to 23:10 (±5 min) on 6 of 7 evenings, +23 ms, worst on Tuesday". Solar time
    at the path is `solar_h` ahead of `zone`."""
    part = PARTS_OF_DAY[int((((hours.begin_h + hours.end_h) / 2.0 + solar_h) % 24.0) // 6.0)]
    rise = f"{hours.rise_ms:.0f}" if hours.rise_ms >= 10.0 else f"{hours.rise_ms:.1f}"
    begin, end = (_in_steps(minutes) for minutes in (hours.begin_within_min, hours.end_within_min))
    of_begin, of_end = ("", f" (±{end} min)") if begin == end else (f" (±{begin} min)", f" (±{end} min)")
    words = (
        f"congested {_clock(hours.begin_h)}{of_begin} to {_clock(hours.end_h)}{zone and f' {zone}'}{of_end} on "
        f"{hours.days_congested} of {hours.days_measured} {part}s, +{rise} ms"
    )
    return words if hours.worst_weekday is None else f"{words}, worst on {WEEKDAYS[hours.worst_weekday]}"


def _by_longer_slots(minimum_ms: Floats) -> Floats:
    slot_min = 1440 // minimum_ms.shape[1]
    hours = int((~np.isnan(_folded(minimum_ms, max(60 // slot_min, 1)))).sum())
    longer = [_folded(minimum_ms, length // slot_min) for length in DETECTION_MIN if length % slot_min == 0]
    for folded in longer:
        if (~np.isnan(folded)).sum() >= LEAST_SHARE * hours * folded.shape[1] / 24:
            return folded
    return longer[-1]


def _folded(minimum_ms: Floats, together: int) -> Floats:
    days, slots = minimum_ms.shape
    folded: Floats = np.fmin.reduce(minimum_ms.reshape(days, slots // together, together), axis=2)
    return folded


def _recurring(is_congested: Bools, has_value: Bools, weekdays: Sequence[int]) -> Bools:
    """Slots of the day congested on enough days, weekdays or weekend days."""
    recurs = np.zeros(is_congested.shape[1], dtype=bool)
    is_weekend = np.array(weekdays) >= 5
    for is_of_class in (np.ones_like(is_weekend), ~is_weekend, is_weekend):
        of, had = has_value[is_of_class].sum(axis=0), is_congested[is_of_class].sum(axis=0)
        recurs |= (had >= LEAST_RECURRENCES) & (had >= RECURRING_SHARE * of)
    return _without_short_runs(recurs, 1.0)


def _hours(begin: int, end: int, rise_ms: Floats, slots: int, weekdays: Sequence[int]) -> RecurringHours | None:
    """Recurring hours around these slots; None if too few days have a queue there."""
    slot_h = 24.0 / slots
    for _ in range(PASSES):
        days = queue_days(rise_ms, slots, begin, end, LEAST_RISE_MS)
        edges = edges_of_days(rise_ms, days, slots, begin, end)
        if min(np.isfinite(edges.begins_h).sum(), np.isfinite(edges.ends_h).sum()) < LEAST_RECURRENCES:
            return None
        begin_h, begin_within_min = typical_edge(edges.begins_h, edges.within_h)
        end_h, end_within_min = typical_edge(edges.ends_h, edges.within_h)
        begin, end = round(begin_h / slot_h), round(end_h / slot_h)
        if end <= begin:
            return None
    risen_ms = days.rise_ms[days.is_congested]
    midnight_h = 24.0 * (begin_h // 24.0)
    return RecurringHours(
        begin_h - midnight_h, end_h - midnight_h, begin_within_min, end_within_min,
        int(days.is_congested.sum()), int(days.is_measured.sum()), float(np.median(risen_ms)),
        _worst_weekday(risen_ms, np.array(weekdays)[days.is_congested]),
    )  # fmt: skip


def _worst_weekday(rise_ms: Floats, weekdays: NDArray[np.int64]) -> int | None:
    """Weekday with the highest mean rise, if significantly above the others."""
    means = {int(weekday): float(rise_ms[weekdays == weekday].mean()) for weekday in np.unique(weekdays)}
    if len(means) < 2:
        return None
    worst = max(means, key=lambda weekday: means[weekday])
    others, count = rise_ms[weekdays != worst], int((weekdays == worst).sum())
    usual = float(np.median(others))
    sigma = float(np.sqrt(np.mean(np.square(others - usual)))) / np.sqrt(count)
    least = max(WORST_BY_MS, WORST_BY_SHARE * usual, WORST_BY_SIGMAS * sigma)
    return worst if means[worst] - usual >= least else None


def _circular_runs(mask: Bools) -> list[tuple[int, int]]:
    """Start and end of each run; across midnight it ends beyond the day."""
    if mask.all():
        return [(0, len(mask))]
    if not mask.any():
        return []
    first = int(np.flatnonzero(~mask)[0])
    turned = np.roll(mask, -first).astype(np.int64)
    edges = np.diff(np.concatenate([[0], turned, [0]]))
    begins, ends = np.flatnonzero(edges == 1) + first, np.flatnonzero(edges == -1) + first
    return [
        (int(begin % len(mask)), int(begin % len(mask) + end - begin)) for begin, end in zip(begins, ends, strict=True)
    ]


def _without_short_runs(mask: Bools, shortest: float) -> Bools:
    edges = np.diff(np.concatenate([[0], mask.astype(np.int64), [0]]))
    kept = mask.copy()
    for begin, end in zip(np.flatnonzero(edges == 1), np.flatnonzero(edges == -1), strict=True):
        if end - begin < shortest:
            kept[begin:end] = False
    return kept


def _in_steps(minutes: float) -> int:
    """Minutes rounded up to five."""
    return int(-(-round(minutes, 3) // 5)) * 5


def _clock(hours: float) -> str:
    minutes = round(hours * 12.0) * 5 % 1440
    return f"{minutes // 60:02}:{minutes % 60:02}"
