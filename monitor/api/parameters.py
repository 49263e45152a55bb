"""Parameters shared by the users' API, as periods and packet sizes; and the answer for errors."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from typing import Annotated, Any

from ninja import Schema
from ninja.errors import HttpError
from pydantic import AfterValidator, AwareDatetime, Field

DAY = timedelta(days=1)
LONGEST_RANGE = timedelta(days=5 * 366)
# Nothing was measured before, nothing is planned after, and the years around them are room for arithmetic, which fails
# at the years 1 and 9999.
EARLIEST, LATEST = datetime(1970, 1, 1, tzinfo=UTC), datetime(2200, 1, 1, tzinfo=UTC)
OUT_OF_BOUNDS = "must be within the years 1970 to 2199, in UTC"


class ProblemOut(Schema):
    """The reason for an error: a sentence, or a list of parameters out of bounds."""

    detail: str | list[dict[str, Any]]


def in_bounds(at: datetime) -> datetime:
    """The moment in UTC. Raises ValueError outside `EARLIEST` and `LATEST`."""
    try:
        at = at.astimezone(UTC)
    except OverflowError as error:
        raise ValueError(OUT_OF_BOUNDS) from error
    if not EARLIEST <= at < LATEST:
        raise ValueError(OUT_OF_BOUNDS)
    return at


def _day_in_bounds(day: date) -> date:
    if not EARLIEST.date() <= day < LATEST.date():
        raise ValueError(OUT_OF_BOUNDS)
    return day


Moment = Annotated[AwareDatetime, AfterValidator(in_bounds)]
Day = Annotated[date, AfterValidator(_day_in_bounds)]


class Range(Schema):
    """From `since` (included) to `until` (excluded). By default the last day."""

    since: Moment | None = None
    until: Moment | None = None

    def resolve_at(self, now: datetime, length: timedelta = DAY) -> tuple[datetime, datetime]:
        """Both ends in UTC, `length` apart by default. Raises a 422 for the wrong way round or too far apart."""
        until = now if self.until is None else self.until
        since = until - length if self.since is None else self.since
        if since >= until:
            raise HttpError(422, f"since={since.isoformat()} must be before until={until.isoformat()}")
        if until - since > LONGEST_RANGE:
            raise HttpError(422, f"since and until may be at most {LONGEST_RANGE.days} days apart")
        return since, until


Limit = Annotated[int, Field(ge=1, le=200, description="maximum number of rows")]
Offset = Annotated[int, Field(ge=0, le=10_000_000, description="number of rows to skip")]

PacketBytes = Annotated[
    int | None, Field(ge=0, le=65_507, description="bytes of ICMP payload; the smallest if not given")
]
