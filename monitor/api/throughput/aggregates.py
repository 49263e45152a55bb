"""The users' API about aggregate tests."""

from __future__ import annotations

from datetime import datetime

from django.http import HttpRequest, HttpResponse
from django.utils import timezone
from ninja import Query, Router, Schema
from ninja.errors import HttpError

from monitor.api.parameters import Limit, ProblemOut, Range
from monitor.api.record_schemas import with_fields_of
from monitor.api.routes.downloads import AS_CSV
from monitor.archive.queries.throughput.aggregates import (
    MEMBER_COLUMNS,
    MOST_IN_CSV,
    AggregateResult,
    HarmedPath,
    MemberResult,
    aggregate_result,
    aggregate_results,
    member_rows,
)
from monitor.overview.csv_text import csv_text

router = Router()


@with_fields_of(MemberResult, without=("slot_id",))
class AggregateMemberOut(Schema):
    """A member. Its outcome is null until its agent reported, its rates are null unless measured: `common_bps` is of
    the time in which all measured members sent, `throughput_bps` of its whole test. `late_s` is from the begin of the
    first member to its own."""


@with_fields_of(HarmedPath, harm=str)
class HarmedPathOut(Schema):
    """Another path that shares a host or an uplink with the test: its packets under load, and those of the hour before
    that were not."""


@with_fields_of(
    AggregateResult, without=("slot_id",), state=str, members=list[AggregateMemberOut], harm=list[HarmedPathOut]
)
class AggregateOut(Schema):
    """A run of an aggregate test. `sum_bps` is null unless the state is `complete`; the sum of the members that
    measured is then `partial_sum_bps`. `fairness` is Jain's index of those."""

    id: int
    sentence: str

    @staticmethod
    def resolve_id(result: AggregateResult) -> int:
        return result.slot_id


@router.get(
    "/aggregates",
    response={200: list[AggregateOut], 422: ProblemOut},
    summary="Aggregate tests of a period, newest first",
)
def list_aggregates(request: HttpRequest, between: Query[Range], limit: Limit = 100) -> list[AggregateResult]:
    return aggregate_results(*between.resolve_at(timezone.now()), limit)


@router.get(
    "/aggregates.csv",
    response={200: None, 422: ProblemOut},
    openapi_extra=AS_CSV,
    summary="Aggregate tests of a period as CSV: a row for each member",
)
def aggregates_csv(request: HttpRequest, between: Query[Range]) -> HttpResponse:
    return members_csv(*between.resolve_at(timezone.now()))


@router.get(
    "/aggregates/{int:aggregate_id}",
    response={200: AggregateOut, 404: ProblemOut, 422: ProblemOut},
    summary="An aggregate test: sum, each member, fairness, and the packets of other paths meanwhile",
)
def get_aggregate(request: HttpRequest, aggregate_id: int) -> AggregateResult:
    result = aggregate_result(aggregate_id)
    if result is None:
        raise HttpError(404, f"there is no aggregate test {aggregate_id}; /api/v1/aggregates lists them")
    return result


def members_csv(since: datetime, until: datetime) -> HttpResponse:
    rows = member_rows(aggregate_results(since, until, MOST_IN_CSV))
    answer = HttpResponse(csv_text(MEMBER_COLUMNS, rows), content_type="text/csv; charset=utf-8")
    answer["Content-Disposition"] = 'attachment; filename="aggregates.csv"'
    return answer
