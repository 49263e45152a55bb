"""Choose the longest summaries that fit in a period, shorter summaries at its edges.

Periods extend to whole hours, beyond two days to the first day's start (UTC). All queries over periods use this module.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta

# Slots of 5 minutes: an hour's summary has the minimum RTT of each, and no shorter figure.
SLOTS_AN_HOUR = 12
LONGEST_IN_HOURS = timedelta(days=2)
# A longer period contains a whole month.
LONGEST_IN_DAYS = timedelta(days=62)
# Delay until all results delivered in time are in a summary, above the rollup's and delivery's delays.
SETTLED_AFTER = {"day": timedelta(hours=1), "month": timedelta(days=1), "year": timedelta(days=1)}


@dataclass(frozen=True, slots=True)
class TierStretch:
    """Summaries of a tier that start in [since, until)."""

    tier: str
    since: datetime
    until: datetime


def week_of(at: datetime) -> date:
    """Monday (UTC) of the week."""
    day = at.astimezone(UTC).date()
    return day - timedelta(days=day.weekday())


def cover(since: datetime, until: datetime, now: datetime | None = None) -> list[TierStretch]:
    """Cover a period; `now` tells whether the last day and month are settled."""
    if since >= until:
        return []
    end = end_of("hour", until)
    if until - since <= LONGEST_IN_HOURS:
        return [TierStretch("hour", start_of("hour", since), end)]
    # The newest hours never come from a longer summary, which is merged minutes after them.
    newest = until if now is None else max(until, now)
    first, last = start_of("day", since), start_of("day", min(until, newest - SETTLED_AFTER["day"]))
    return _without_empty(*_days(first, last, newest), TierStretch("hour", last, end))


def cover_exactly(since: datetime, until: datetime) -> list[TierStretch]:
    """Cover only the hours that begin in the period, for any length."""
    since, until = end_of("hour", since), end_of("hour", until)
    first, last = end_of("day", since), start_of("day", until)
    if last - first <= LONGEST_IN_HOURS:
        return [TierStretch("hour", since, until)] if since < until else []
    return _without_empty(
        TierStretch("hour", since, first), *_days(first, last, until), TierStretch("hour", last, until)
    )


def _days(first: datetime, last: datetime, newest: datetime) -> list[TierStretch]:
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
    at = at.astimezone(UTC).replace(minute=0, second=0, microsecond=0)
    if tier == "hour":
        return at
    at = at.replace(hour=0)
    if tier == "day":
        return at
    return at.replace(day=1) if tier == "month" else at.replace(day=1, month=1)


def next_start(tier: str, at: datetime) -> datetime:
    start = start_of(tier, at)
    if tier in ("hour", "day"):
        return start + timedelta(**{f"{tier}s": 1})
    return start_of(tier, start + timedelta(days=31 if tier == "month" else 366))


def end_of(tier: str, at: datetime) -> datetime:
    """`at` if a period starts then, else the next start."""
    return at if start_of(tier, at) == at else next_start(tier, at)
