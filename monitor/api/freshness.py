"""The users' API about the centre itself: when it last did its work, and which data is stale."""

from __future__ import annotations

from dataclasses import asdict
from datetime import datetime

from django.http import HttpRequest
from django.utils import timezone
from ninja import Router, Schema

from monitor.archive.upkeep import freshness
from monitor.archive.upkeep.freshness import RecurringWork

EVALUATED_HEADER = "X-Evaluated-At"

router = Router(tags=["centre"])


class StaleOut(Schema):
    """Work that was last done too long ago, at `since`, and the consequence in words."""

    work: RecurringWork
    since: datetime
    sentence: str


class FreshnessOut(Schema):
    """When rules were evaluated and notifications sent out last, since when the oldest delivery has been waiting
    for its rollup, and when a site last delivered; null if never, or if none is waiting. `stale` is empty while all is
    current."""

    evaluated_at: datetime | None
    notified_at: datetime | None
    summaries_wait_since: datetime | None
    delivered_at: datetime | None
    stale: list[StaleOut]


@router.get("/freshness", response=FreshnessOut, summary="When the centre last did its work, and which data is stale")
def get_freshness(request: HttpRequest) -> dict[str, object]:
    times = freshness.load()
    return {**asdict(times), "stale": [asdict(stale) for stale in times.stale_at(timezone.now())]}
