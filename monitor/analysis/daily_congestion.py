"""Daily congestion: hours of the day in which the minimum RTT of a path is above its base, on most days.

In: the minimum RTT of each slot of the day (15 minutes or an hour), of shape (days, slots), NaN where there is none,
and the weekday of each day, in one time zone. Out: the hours that recur, with the days on which they were congested
and by how much the RTT rose; or that there are too few days to tell.

A queue that stays full raises also the minimum (time series latency probes: M. Luckie et al., "Challenges in Inferring
Internet Interdomain Congestion", IMC 2014; A. Dhamdhere et al., "Inferring Persistent Interdomain Congestion", SIGCOMM
2018). A slot is congested if its minimum is above the base, the low tenth of the RTTs within half a day, by
five standard deviations of the quiet slots and by `LEAST_RISE_MS`. Short gaps are closed and short runs dropped. A
change of the route raises the RTT once, until the base has followed; only hours that come back are named.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]

LEAST_RISE_MS = 1.0
SIGMAS = 5.0
BASE_SHARE = 0.1
BASE_H = 12.0
"""To either side. Congestion lasts longer than a day less a tenth on no path that is worth measuring."""

LONGEST_GAP_H = 1.0
SHORTEST_RUN_H = 0.75

LEAST_DAYS = 5
"""Days with at least half of their slots, without which nothing recurs."""
RECURRING_SHARE = 0.5
LEAST_RECURRENCES = 3
WORST_BY_MS = 1.0

WEEKDAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
PARTS_OF_DAY = ("night", "morning", "afternoon", "evening")


@dataclass(frozen=True, slots=True)
class RecurringHours:
    """Hours of the day (0 to 24; beyond 24 on the next day), on how many of the measured days they were congested, the
    median rise of the minimum RTT in them, and the weekday on which it is highest, 0 for Monday (None if alike)."""

    begin_h: float
    end_h: float
    days_congested: int
    days_measured: int
    rise_ms: float
    worst_weekday: int | None


@dataclass(frozen=True, slots=True)
class DailyCongestion:
    """The recurring hours, those with most days first; empty if none recur. `can_tell` is False with too few days."""

    can_tell: bool
    hours: tuple[RecurringHours, ...]


def congested_slots(minimum_ms: Floats, slots_a_day: int) -> Bools:
    """Which slots of a series, of shape (slots,), are congested."""
    rise = above_base(minimum_ms, slots_a_day)
    quiet = rise[rise <= np.nanmedian(rise)] if np.isfinite(rise).any() else rise[:0]
    # Half of the quiet slots lie below their median: 1.4826 times that deviation is the standard deviation.
    sigma = 1.4826 * float(np.median(np.nanmedian(rise) - quiet)) * 2.0 if len(quiet) else 0.0
    with np.errstate(invalid="ignore"):
        is_high = rise > np.nanmedian(quiet) + max(LEAST_RISE_MS, SIGMAS * sigma) if len(quiet) else rise > np.inf
    slot_h = 24.0 / slots_a_day
    closed = _without_short_runs(~is_high, LONGEST_GAP_H / slot_h)
    return _without_short_runs(~closed, SHORTEST_RUN_H / slot_h) & ~np.isnan(minimum_ms)


def above_base(minimum_ms: Floats, slots_a_day: int) -> Floats:
    """By how much each slot of a series is above its base, in ms; NaN where there is none."""
    reach = round(BASE_H / 24.0 * slots_a_day)
    padded = np.concatenate([np.full(reach, np.nan), minimum_ms, np.full(reach, np.nan)])
    around = np.sort(np.lib.stride_tricks.sliding_window_view(padded, 2 * reach + 1), axis=1)
    count = (~np.isnan(around)).sum(axis=1)
    place = np.minimum((BASE_SHARE * count).astype(np.int64), np.maximum(count - 1, 0))
    rise: Floats = minimum_ms - around[np.arange(len(around)), place]
    return rise


def daily_congestion(minimum_ms: Floats, weekdays: Sequence[int]) -> DailyCongestion:
    """The recurring congestion of days in a row, of shape (days, slots), whose weekdays are 0 for Monday to 6."""
    days, slots = minimum_ms.shape
    is_measured = (~np.isnan(minimum_ms)).sum(axis=1) >= slots / 2
    if is_measured.sum() < LEAST_DAYS:
        return DailyCongestion(False, ())
    with np.errstate(invalid="ignore"):
        if (minimum_ms > np.nanmin(minimum_ms) + LEAST_RISE_MS).sum() < LEAST_RECURRENCES:
            return DailyCongestion(True, ())  # most paths, at little cost
    series = minimum_ms.ravel()
    is_congested = congested_slots(series, slots).reshape(days, slots)
    rise = above_base(series, slots).reshape(days, slots)
    has_value = ~np.isnan(minimum_ms)
    of, had = has_value.sum(axis=0), is_congested.sum(axis=0)
    # On weekdays only, or at weekends only, is recurring too.
    recurs = (had >= LEAST_RECURRENCES) & (had >= RECURRING_SHARE * of)
    for is_of_class in (np.array(weekdays) < 5, np.array(weekdays) >= 5):
        of, had = has_value[is_of_class].sum(axis=0), is_congested[is_of_class].sum(axis=0)
        recurs |= (had >= LEAST_RECURRENCES) & (had >= RECURRING_SHARE * of)
    recurring = [
        _hours(begin, end, is_congested, rise, has_value, is_measured, weekdays)
        for begin, end in _circular_runs(recurs)
    ]
    return DailyCongestion(True, tuple(sorted(recurring, key=lambda hours: (-hours.days_congested, hours.begin_h))))


def in_words(hours: RecurringHours, zone: str = "", solar_h: float = 0.0, *, is_least: bool = False) -> str:
    """As in "congested 19:45 to 23:15 on 6 of 7 evenings, +23 ms, worst on Tuesday". `zone` follows the hours; the
    sun is ahead of it by `solar_h` where the path is, so that it is evening there. By slots that are congested as a
    whole the hours are the least, `is_least`."""
    part = PARTS_OF_DAY[int((((hours.begin_h + hours.end_h) / 2.0 + solar_h) % 24.0) // 6.0)]
    rise = f"{hours.rise_ms:.0f}" if hours.rise_ms >= 10.0 else f"{hours.rise_ms:.1f}"
    least, zone = "at least " if is_least else "", zone and f" {zone}"
    words = (
        f"congested {least}{_clock(hours.begin_h)} to {_clock(hours.end_h)}{zone} on {hours.days_congested} of "
        f"{hours.days_measured} {part}s, +{rise} ms"
    )
    return words if hours.worst_weekday is None else f"{words}, worst on {WEEKDAYS[hours.worst_weekday]}"


def _hours(
    begin: int, end: int, is_congested: Bools, rise: Floats, has_value: Bools, is_measured: Bools,
    weekdays: Sequence[int],
) -> RecurringHours:  # fmt: skip
    """The recurring hours of the slots from `begin` to `end`, which may be on the next day."""
    slots = is_congested.shape[1]
    width = end - begin
    places = np.arange(len(is_congested))[:, np.newaxis] * slots + np.arange(begin, end)[np.newaxis]
    is_inside = places < is_congested.size
    places = np.minimum(places, is_congested.size - 1)
    hit = is_congested.ravel()[places] & is_inside
    has_any = has_value.ravel()[places] & is_inside
    by_day = np.where(hit, rise.ravel()[places], np.nan)
    counts = hit.sum(axis=1) >= np.minimum(width / 3.0, np.maximum(has_any.sum(axis=1), 1) / 2.0)
    is_day = is_measured & (has_any.sum(axis=1) >= width / 2.0)
    congested = counts & is_day
    of_day = np.array([np.nanmedian(row) if np.isfinite(row).any() else np.nan for row in by_day])
    by_weekday = {
        weekday: float(np.mean(of_day[[n for n, day in enumerate(weekdays) if day == weekday and congested[n]]]))
        for weekday in sorted({day for n, day in enumerate(weekdays) if congested[n]})
    }
    usual = float(np.median(of_day[congested])) if congested.any() else float("nan")
    worst = max(by_weekday, key=lambda weekday: by_weekday[weekday], default=None)
    if worst is not None and (len(by_weekday) < 2 or by_weekday[worst] - usual < max(WORST_BY_MS, 0.1 * usual)):
        worst = None
    slot_h = 24.0 / slots
    return RecurringHours(begin * slot_h, end * slot_h, int(congested.sum()), int(is_day.sum()), usual, worst)


def _circular_runs(mask: Bools) -> list[tuple[int, int]]:
    """Begin and end of each run of a day; a run across midnight ends beyond the day."""
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
    """The mask without its runs of fewer slots than this."""
    edges = np.diff(np.concatenate([[0], mask.astype(np.int64), [0]]))
    kept = mask.copy()
    for begin, end in zip(np.flatnonzero(edges == 1), np.flatnonzero(edges == -1), strict=True):
        if end - begin < shortest:
            kept[begin:end] = False
    return kept


def _clock(hours: float) -> str:
    minutes = round(hours * 60.0) % 1440
    return f"{minutes // 60:02}:{minutes % 60:02}"
