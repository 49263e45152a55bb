"""Choose the summaries for a period: the longest that fit, shorter ones at its edges, so that few rows are read.

In: a period of aware times. Out: stretches of one tier each (`hour`, `day`, `month`), in order, without gaps. A period
is extended to whole hours, beyond two days to the beginning of its first day (UTC). Its newest hours are never taken
from a longer summary, which is merged minutes after them. All queries over periods use this module, so that they agree
on the rows of a period.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta

SLOTS_AN_HOUR = 12
"""Slots of 5 minutes: a summary of an hour has the minimum RTT of each, and no figure of a shorter time."""
LONGEST_IN_HOURS = timedelta(days=2)
LONGEST_IN_DAYS = timedelta(days=62)
"""A longer period contains a whole month."""
SETTLED_AFTER = {"day": timedelta(hours=1), "month": timedelta(days=1), "year": timedelta(days=1)}
"""How long after its end a summary has all that was delivered in time: well above the patience of the rollup and the
delay of a delivery."""


@dataclass(frozen=True, slots=True)
class TierStretch:
    """The summaries of a tier that start in [since, until)."""

    tier: str
    since: datetime
    until: datetime


def week_of(at: datetime) -> date:
    """The Monday (UTC) of the week of a time."""
    day = at.astimezone(UTC).date()
    return day - timedelta(days=day.weekday())


def cover(since: datetime, until: datetime, now: datetime | None = None) -> list[TierStretch]:
    """Stretches of a period, extended to whole hours, of more than two days to the beginning of its first day; none for
    an empty period. `now` tells whether the summaries of its last day and month are settled; without it they are not.
    """
    if since >= until:
        return []
    end = end_of("hour", until)
    if until - since <= LONGEST_IN_HOURS:
        return [TierStretch("hour", start_of("hour", since), end)]
    newest = until if now is None else max(until, now)
    first, last = start_of("day", since), start_of("day", min(until, newest - SETTLED_AFTER["day"]))
    return _without_empty(*_days(first, last, newest), TierStretch("hour", last, end))


def cover_exactly(since: datetime, until: datetime) -> list[TierStretch]:
    """As `cover`, but exact to the hour for periods of any length: only the hours that begin in it."""
    since, until = end_of("hour", since), end_of("hour", until)
    first, last = end_of("day", since), start_of("day", until)
    if last - first <= LONGEST_IN_HOURS:
        return [TierStretch("hour", since, until)] if since < until else []
    return _without_empty(
        TierStretch("hour", since, first), *_days(first, last, until), TierStretch("hour", last, until)
    )


def _days(first: datetime, last: datetime, newest: datetime) -> list[TierStretch]:
    """Stretches of whole days, with months in a long period; a month that has just ended is not settled."""
    if last - first <= LONGEST_IN_DAYS:
        return [TierStretch("day", first, last)]
    month_since, month_until = end_of("month", first), start_of("month", min(last, newest - SETTLED_AFTER["month"]))
    return _without_empty(
        TierStretch("day", first, month_since),
        TierStretch("month", month_since, month_until),
        TierStretch("day", month_until, last),
    )


def _without_empty(*parts: TierStretch) -> list[TierStretch]:
    return [part for part in parts if part.since < part.until]


def start_of(tier: str, at: datetime) -> datetime:
    """Start of the hour, day, month or year (UTC) that contains `at`."""
    at = at.astimezone(UTC).replace(minute=0, second=0, microsecond=0)
    if tier == "hour":
        return at
    at = at.replace(hour=0)
    if tier == "day":
        return at
    return at.replace(day=1) if tier == "month" else at.replace(day=1, month=1)


def next_start(tier: str, at: datetime) -> datetime:
    """Start of the next hour, day, month or year (UTC) after `at`."""
    start = start_of(tier, at)
    if tier in ("hour", "day"):
        return start + timedelta(**{f"{tier}s": 1})
    return start_of(tier, start + timedelta(days=31 if tier == "month" else 366))


def end_of(tier: str, at: datetime) -> datetime:
    """`at` if a period starts then, else the start of the next period."""
    return at if start_of(tier, at) == at else next_start(tier, at)
