"""The users' API about the centre's freshness, and the header that dates summaries."""

from __future__ import annotations

from dataclasses import asdict
from datetime import datetime
from typing import Any

from django.http import HttpRequest, HttpResponse
from django.utils import timezone
from ninja import Router, Schema

from monitor.api.record_schemas import with_fields_of
from monitor.archive.upkeep import freshness
from monitor.archive.upkeep.freshness import OverdueWork

EVALUATED_HEADER = "X-Evaluated-At"
SUMMARIES_HEADER = "X-Summaries-As-Of"
# For the description of an answer that `date_summaries` may date.
OF_SUMMARIES: dict[str, Any] = {
    "responses": {
        200: {
            "headers": {
                SUMMARIES_HEADER: {
                    "description": "The summaries of hours and longer that the answer rests on lack results delivered "
                    "since. Absent where they lack at most those of the last minute, or the answer rests on none.",
                    "schema": {"type": "string", "format": "date-time"},
                }
            }
        }
    }
}

router = Router(tags=["centre"])


@with_fields_of(OverdueWork)
class StaleOut(Schema):
    """Work that was last done too long ago, at `since`, and the consequence in words."""


class FreshnessOut(Schema):
    """When rules were evaluated and notifications sent out last, since when the oldest delivery has been waiting
    for its rollup, and when a site last delivered; null if never, or if none is waiting. `stale` is empty while all is
    current."""

    evaluated_at: datetime | None
    notified_at: datetime | None
    summaries_wait_since: datetime | None
    delivered_at: datetime | None
    stale: list[StaleOut]


def date_summaries(response: HttpResponse, lacks_since: datetime | None) -> None:
    """Date the summaries in a header, unless they are current."""
    if lacks_since is not None:
        response.headers[SUMMARIES_HEADER] = lacks_since.isoformat().replace("+00:00", "Z")


@router.get("/freshness", response=FreshnessOut, summary="When the centre last did its work, and which data is stale")
def get_freshness(request: HttpRequest) -> dict[str, object]:
    times = freshness.load()
    return {**asdict(times), "stale": times.stale_at(timezone.now())}
