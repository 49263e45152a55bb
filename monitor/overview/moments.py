"""Bounds of the times that users may request."""

from __future__ import annotations

from datetime import UTC, date, datetime

# Nothing was measured before, nothing is planned after, and the years around them are room for arithmetic, which fails
# at the years 1 and 9999.
EARLIEST, LATEST = datetime(1970, 1, 1, tzinfo=UTC), datetime(2200, 1, 1, tzinfo=UTC)
OUT_OF_BOUNDS = "must be within the years 1970 to 2199, in UTC"


def in_bounds(at: datetime) -> datetime:
    """The time in UTC. Raises ValueError outside `EARLIEST` and `LATEST`."""
    try:
        at = at.astimezone(UTC)
    except OverflowError as error:
        raise ValueError(OUT_OF_BOUNDS) from error
    if not EARLIEST <= at < LATEST:
        raise ValueError(OUT_OF_BOUNDS)
    return at


def day_in_bounds(day: date) -> date:
    """The day itself. Raises ValueError outside `EARLIEST` and `LATEST`."""
    if not EARLIEST.date() <= day < LATEST.date():
        raise ValueError(OUT_OF_BOUNDS)
    return day
