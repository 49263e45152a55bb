"""Daily congestion: hours of the day in which the minimum RTT of a path is above its base, on most days.

In: the minimum RTT of each slot of the day (5 minutes, or longer), of shape (days, slots), NaN where there is none,
and the weekday of each day, in one time zone. Out: the hours that recur, their begin and end with their uncertainty,
the days on which they were congested and by how much the RTT rose; or that there are too few days to tell.

A queue that stays full raises also the minimum (time series latency probes: M. Luckie et al., "Challenges in Inferring
Internet Interdomain Congestion", IMC 2014; A. Dhamdhere et al., "Inferring Persistent Interdomain Congestion", SIGCOMM
2018). A quarter of an hour is congested if its minimum is above the base, the low tenth of the RTTs within half a day,
by five standard deviations of the quiet ones and by `LEAST_RISE_MS`. Short gaps are closed and short runs dropped. A
change of the route raises the RTT once, until the base has followed; only hours that come back are named.
`monitor.analysis.daily_edges` says when they begin and end.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from monitor.analysis.daily_edges import edges_of_days, queue_days, typical_edge

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]

LEAST_RISE_MS = 1.0
SIGMAS = 5.0
BASE_SHARE = 0.1
BASE_H = 12.0
"""To either side. Congestion lasts longer than a day less a tenth on no path that is worth measuring."""

DETECTION_MIN = (15, 20, 30, 60)
"""Queues are detected by the minimum of more packets than those of a slot, which varies less: of the shortest time of
which most in the measured hours have a reply."""
LEAST_SHARE = 0.8

LONGEST_GAP_H = 1.0
SHORTEST_RUN_H = 0.75

LEAST_DAYS = 5
"""Days with at least half of their slots, without which nothing recurs."""
RECURRING_SHARE = 0.4
LEAST_RECURRENCES = 3
PASSES = 2
"""The hours of the first are those in which quarters of an hour recur, those of the second the typical ones."""

WORST_BY_MS = 1.0
WORST_BY_SHARE = 0.25
WORST_BY_SIGMAS = 3.0

WEEKDAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
PARTS_OF_DAY = ("night", "morning", "afternoon", "evening")


@dataclass(frozen=True, slots=True)
class RecurringHours:
    """Hours of the day (0 to 24; beyond 24 on the next day), on how many of the measured days they were congested, the
    median rise of the minimum RTT in them, and the weekday on which it is highest, 0 for Monday (None if alike).
    Begin and end are the medians over the days, each within its uncertainty to either side with 90% confidence."""

    begin_h: float
    end_h: float
    begin_within_min: float
    end_within_min: float
    days_congested: int
    days_measured: int
    rise_ms: float
    worst_weekday: int | None


@dataclass(frozen=True, slots=True)
class DailyCongestion:
    """The recurring hours, those with most days first; empty if none recur. `can_tell` is False with too few days."""

    can_tell: bool
    hours: tuple[RecurringHours, ...]


def congested_slots(rise: Floats, slots_a_day: int) -> Bools:
    """The slots of a series that are congested, by their rise in ms above the base, of shape (slots,)."""
    quiet = rise[rise <= np.nanmedian(rise)] if np.isfinite(rise).any() else rise[:0]
    # Half of the quiet slots lie below their median: 1.4826 times that deviation is the standard deviation.
    sigma = 1.4826 * float(np.median(np.nanmedian(rise) - quiet)) * 2.0 if len(quiet) else 0.0
    with np.errstate(invalid="ignore"):
        is_high = rise > np.nanmedian(quiet) + max(LEAST_RISE_MS, SIGMAS * sigma) if len(quiet) else rise > np.inf
    slot_h = 24.0 / slots_a_day
    closed = _without_short_runs(~is_high, LONGEST_GAP_H / slot_h)
    return _without_short_runs(~closed, SHORTEST_RUN_H / slot_h) & ~np.isnan(rise)


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
    """As in "congested 19:40 to 23:10 (±5 min) on 6 of 7 evenings, +23 ms, worst on Tuesday". `zone` follows the hours;
    the sun is ahead of it by `solar_h` where the path is, so that it is evening there."""
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
    """The minima of slots that are long enough to detect queues in them."""
    slot_min = 1440 // minimum_ms.shape[1]
    hours = int((~np.isnan(_folded(minimum_ms, max(60 // slot_min, 1)))).sum())
    longer = [_folded(minimum_ms, length // slot_min) for length in DETECTION_MIN if length % slot_min == 0]
    for folded in longer:
        if (~np.isnan(folded)).sum() >= LEAST_SHARE * hours * folded.shape[1] / 24:
            return folded
    return longer[-1]


def _folded(minimum_ms: Floats, together: int) -> Floats:
    """The minima of so many slots each."""
    days, slots = minimum_ms.shape
    folded: Floats = np.fmin.reduce(minimum_ms.reshape(days, slots // together, together), axis=2)
    return folded


def _recurring(is_congested: Bools, has_value: Bools, weekdays: Sequence[int]) -> Bools:
    """Which slots of the day are congested on enough of the days. On weekdays only, or at weekends only, is enough."""
    recurs = np.zeros(is_congested.shape[1], dtype=bool)
    is_weekend = np.array(weekdays) >= 5
    for is_of_class in (np.ones_like(is_weekend), ~is_weekend, is_weekend):
        of, had = has_value[is_of_class].sum(axis=0), is_congested[is_of_class].sum(axis=0)
        recurs |= (had >= LEAST_RECURRENCES) & (had >= RECURRING_SHARE * of)
    return _without_short_runs(recurs, 1.0)


def _hours(begin: int, end: int, rise_ms: Floats, slots: int, weekdays: Sequence[int]) -> RecurringHours | None:
    """The recurring hours around the slots from `begin` to `end`, which may be on the next day; None if fewer days
    have a queue at these hours than recur."""
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
    """The weekday with the highest mean rise, if it is above the others by more than they vary."""
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


def _in_steps(minutes: float) -> int:
    """Minutes rounded up to five, as the sentence states them."""
    return int(-(-round(minutes, 3) // 5)) * 5


def _clock(hours: float) -> str:
    minutes = round(hours * 12.0) * 5 % 1440
    return f"{minutes // 60:02}:{minutes % 60:02}"
