"""What can be asked of the users' API in many places: a period, a packet size; and the answer when there is none."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Annotated

from ninja import Schema
from ninja.errors import HttpError
from pydantic import AfterValidator, AwareDatetime, Field

DAY = timedelta(days=1)
LONGEST_RANGE = timedelta(days=5 * 366)


class ProblemOut(Schema):
    """Why there is no answer, in words."""

    detail: str


class Range(Schema):
    """From `since` (included) to `until` (excluded). By default the last day."""

    since: AwareDatetime | None = None
    until: AwareDatetime | None = None

    def resolve_at(self, now: datetime, length: timedelta = DAY) -> tuple[datetime, datetime]:
        """Both ends in UTC, `length` apart by default. Raises a 422 for the wrong way round or too far apart."""
        try:
            until = now if self.until is None else self.until.astimezone(UTC)
            since = until - length if self.since is None else self.since.astimezone(UTC)
        except OverflowError as error:
            raise HttpError(422, "since and until must be within the years 1 to 9999, in UTC") from error
        if since >= until:
            raise HttpError(422, f"since={since.isoformat()} must be before until={until.isoformat()}")
        if until - since > LONGEST_RANGE:
            raise HttpError(422, f"since and until may be at most {LONGEST_RANGE.days} days apart")
        return since, until


def _in_utc(at: datetime) -> datetime:
    try:
        return at.astimezone(UTC)
    except OverflowError as error:
        raise ValueError("must be within the years 1 to 9999, in UTC") from error


Moment = Annotated[AwareDatetime, AfterValidator(_in_utc)]
Limit = Annotated[int, Field(ge=1, le=200, description="so many at most")]
Offset = Annotated[int, Field(ge=0, le=10_000_000, description="so many are passed over")]

PacketBytes = Annotated[
    int | None, Field(ge=0, le=65_507, description="bytes of ICMP payload; the smallest if not given")
]
