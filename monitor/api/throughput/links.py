"""The users' API about the use of links."""

from __future__ import annotations

from datetime import date, datetime

from django.http import HttpRequest
from django.utils import timezone
from ninja import Router, Schema

from monitor.api.parameters import ProblemOut, path_or_404
from monitor.api.record_schemas import with_fields_of
from monitor.overview.links.use import LinkUse, WeekOfUse, links_of_path

router = Router(tags=["links"])


@with_fields_of(WeekOfUse)
class LinkWeekOut(Schema):
    """A week (UTC, from Monday): the 95th percentile of its five-minute averages, in the busier direction."""


class LinkOut(Schema):
    """The use of a link. `at` to `out_drops` are the newest reading of the last hour, rates of the time since the
    reading before it. `test` is null where the use comes from throughput tests. `verdict` is full, full in, not within
    a year or cannot tell; `weeks`, with its 80% interval `low_weeks` to `high_weeks` (null: beyond three years), counts
    from the end of `as_of`."""

    test: str | None
    name: str
    direction: str
    at: datetime | None
    in_bps: float | None
    out_bps: float | None
    in_errors: int | None
    out_errors: int | None
    in_drops: int | None
    out_drops: int | None
    capacity_bps: float | None
    verdict: str
    statement: str
    weeks: int | None
    low_weeks: int | None
    high_weeks: int | None
    as_of: date | None
    p95_by_week: list[LinkWeekOut]


@router.get(
    "/paths/{int:path_id}/links",
    response={200: list[LinkOut], 404: ProblemOut},
    summary="Use of a path's links, by counters of interfaces or by throughput tests, and when they are full",
)
def list_links(request: HttpRequest, path_id: int) -> list[dict[str, object]]:
    return [_out(use) for use in links_of_path(path_or_404(path_id), timezone.now())]


def _out(use: LinkUse) -> dict[str, object]:
    counted = ("at", "in_bps", "out_bps", "in_errors", "out_errors", "in_drops", "out_drops")
    stated = ("capacity_bps", "verdict", "weeks", "low_weeks", "high_weeks")
    return {
        **{name: getattr(use, name) for name in ("test", "name", "direction", "statement", "as_of")},
        **{name: getattr(use.newest, name, None) for name in counted},
        **{name: getattr(use.forecast, name) for name in stated},
        "p95_by_week": use.weeks,
    }
