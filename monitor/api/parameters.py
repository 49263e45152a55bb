"""Parameters of the users' API, and its answer for errors."""

from __future__ import annotations

from datetime import date, datetime, timedelta
from typing import Annotated, Any

from ninja import Schema
from ninja.errors import HttpError
from pydantic import AfterValidator, AwareDatetime, Field

from monitor.mesh.models import Path
from monitor.overview.moments import day_in_bounds, in_bounds

DAY = timedelta(days=1)
LONGEST_RANGE = timedelta(days=5 * 366)


class ProblemOut(Schema):
    """The reason for an error: a sentence, or a list of parameters out of bounds."""

    detail: str | list[dict[str, Any]]


TO_THE_MICROSECOND = "lists have the times to the microsecond, as this address needs them"
Moment = Annotated[AwareDatetime, AfterValidator(in_bounds)]
Day = Annotated[date, AfterValidator(day_in_bounds)]


class Range(Schema):
    """From `since` (included) to `until` (excluded). By default the last day."""

    since: Moment | None = None
    until: Moment | None = None

    def resolve_at(self, now: datetime, length: timedelta = DAY) -> tuple[datetime, datetime]:
        """Both ends in UTC, `length` apart by default. Raises a 422 if reversed or too far apart."""
        until = now if self.until is None else self.until
        since = until - length if self.since is None else self.since
        if since >= until:
            raise HttpError(422, f"since={since.isoformat()} must be before until={until.isoformat()}")
        if until - since > LONGEST_RANGE:
            raise HttpError(422, f"since and until may be at most {LONGEST_RANGE.days} days apart")
        return since, until


Limit = Annotated[int, Field(ge=1, le=200, description="maximum number of rows")]
MOST_CELLS = 10_000
GridLimit = Annotated[int, Field(ge=1, le=MOST_CELLS, description="maximum number of cells")]
Offset = Annotated[int, Field(ge=0, le=10_000_000, description="number of rows to skip")]


def path_or_404(path_id: int) -> Path:
    path = Path.objects.with_hosts().filter(pk=path_id).first()
    if path is None:
        raise HttpError(404, f"there is no path {path_id}; /api/v1/paths lists them")
    return path


PacketBytes = Annotated[
    int | None, Field(ge=0, le=65_507, description="bytes of ICMP payload; the smallest if not given")
]
