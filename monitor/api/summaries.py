"""The users' API about many paths and sites at once."""

from __future__ import annotations

from dataclasses import asdict
from datetime import date, datetime, timedelta
from typing import Annotated

from django.http import HttpRequest, HttpResponse
from django.utils import timezone
from ninja import Query, Router, Schema
from ninja.errors import HttpError
from pydantic import Field

from monitor.analysis.figures import loss_evidence
from monitor.api.freshness import OF_SUMMARIES, date_summaries
from monitor.api.parameters import DAY, Day, PacketBytes, ProblemOut, Range
from monitor.api.record_schemas import with_fields_of
from monitor.archive.queries import tables
from monitor.archive.queries.metrics import Metric
from monitor.archive.queries.operation import completeness
from monitor.archive.queries.operation.deliveries import newest_refused
from monitor.archive.queries.tables import Grouping, TableCell, Tick
from monitor.archive.upkeep import freshness
from monitor.mesh.models import Family, Path, Site
from monitor.overview.grid import measured_packet_bytes

# Default number of ticks of a table.
TABLE_TICKS = {Tick.HOUR: 24, Tick.DAY: 30, Tick.MONTH: 12, Tick.YEAR: 5}
TICK_LENGTHS = {
    Tick.HOUR: timedelta(hours=1), Tick.DAY: DAY, Tick.MONTH: timedelta(days=30), Tick.YEAR: timedelta(days=365)
}  # fmt: skip
MOST_TABLE_CELLS = 200_000
COMPLETENESS_DAYS = 14
LONGEST_COMPLETENESS = timedelta(days=366)

router = Router()


class WorstPathOut(Schema):
    """A path between two sites with its value of the metric; counts of packets over the period. `loss_evidence` has
    those of its loss in words, as in `0 of 1,530, so below 0.2% (95%)`, null if no packet was sent."""

    path_id: int
    source: str
    destination: str
    family: int
    value: float
    sent: int
    received: int
    loss_ratio: float | None
    loss_evidence: str | None


class WorstOut(Schema):
    """The paths with the worst values of the metric, the worst first."""

    metric: Metric
    packet_bytes: int
    since: datetime
    until: datetime
    paths: list[WorstPathOut]


@with_fields_of(TableCell)
class TableCellOut(Schema):
    """The median of the metric over the `paths` paths from `source` to `destination` that have it, in the tick that
    began at `at`."""


class TableOut(Schema):
    """PingER's table. `packet_bytes` is null for throughput, which is of no packet size."""

    by: Grouping
    metric: Metric
    tick: Tick
    packet_bytes: int | None
    since: datetime
    until: datetime
    cells: list[TableCellOut]


class SiteDayOut(Schema):
    """A site's UTC day. `missing` counts skipped sequence numbers. `completeness_ratio` is null where nothing was
    delivered, `coverage_ratio` (measured of planned bursts) where nothing was planned, as before the agent's first
    report. `bursts_during_test` counts the measured bursts whose packets were all sent during throughput tests. The
    current day counts bursts up to its last whole hour."""

    site: str
    day: date
    delivered: int
    missing: int
    completeness_ratio: float | None
    bursts_planned: int
    bursts_measured: int
    bursts_during_test: int
    coverage_ratio: float | None


class RefusedOut(Schema):
    """A result that was not stored, by its number in the spool of the site's agent, and why."""

    site: str
    sequence: int
    refused_at: datetime
    reason: str


@router.get(
    "/worst",
    response={200: WorstOut, 422: ProblemOut},
    summary="The paths with the worst values of a metric",
    openapi_extra=OF_SUMMARIES,
)
def get_worst(
    request: HttpRequest,
    response: HttpResponse,
    between: Query[Range],
    metric: Metric = Metric.LOSS,
    size: PacketBytes = None,
    limit: Annotated[int, Field(ge=1, le=1000)] = 10,
) -> dict[str, object]:
    if metric is Metric.THROUGHPUT:
        raise HttpError(422, f"metric={metric}: of no packet size; /api/v1/grid and /api/v1/table have it")
    now = timezone.now()
    since, until = between.resolve_at(now)
    packet_bytes = measured_packet_bytes(size)
    date_summaries(response, freshness.lacks_since(Tick.HOUR, now))
    cells = tables.worst(metric, since, until, packet_bytes=packet_bytes, limit=limit)
    paths = Path.objects.with_hosts().in_bulk([cell.path_id for cell in cells])
    worst = [
        {
            **asdict(cell),
            "loss_ratio": cell.loss_ratio,
            "loss_evidence": loss_evidence(cell.sent, cell.received) if cell.sent else None,
            **_ends(paths[cell.path_id]),
        }
        for cell in cells
    ]
    return {"metric": metric, "packet_bytes": packet_bytes, "since": since, "until": until, "paths": worst}


@router.get(
    "/table",
    response={200: TableOut, 422: ProblemOut},
    summary="PingER's table: medians over paths between sites, countries, regions or groups, for each tick",
    openapi_extra=OF_SUMMARIES,
)
def get_table(
    request: HttpRequest,
    response: HttpResponse,
    between: Query[Range],
    by: Grouping = Grouping.SITE,
    metric: Metric = Metric.LOSS,
    tick: Tick = Tick.DAY,
    size: PacketBytes = None,
    family: Family | None = None,
) -> dict[str, object]:
    now = timezone.now()
    since, until = between.resolve_at(now, TABLE_TICKS[tick] * TICK_LENGTHS[tick])
    complaint = too_large(by, tick, until - since)
    if complaint is not None:
        raise HttpError(422, complaint)
    packet_bytes = measured_packet_bytes(size)
    cells = tables.table(by, metric, tick, since, until, packet_bytes, family=family, now=now)
    date_summaries(response, freshness.table_lacks_since(metric, tick, now))
    return {
        "by": by,
        "metric": metric,
        "tick": tick,
        "packet_bytes": None if metric is Metric.THROUGHPUT else packet_bytes,
        "since": since,
        "until": until,
        "cells": cells,
    }


@router.get(
    "/completeness",
    response={200: list[SiteDayOut], 422: ProblemOut},
    summary="Measurement coverage and completeness of delivery, by site and UTC day",
    openapi_extra=OF_SUMMARIES,
)
def get_completeness(
    request: HttpRequest, response: HttpResponse, since: Day | None = None, until: Day | None = None
) -> list[object]:
    now = timezone.now()
    date_summaries(response, freshness.lacks_since(Tick.HOUR, now))
    end = now.date() + DAY if until is None else until
    begin = end - COMPLETENESS_DAYS * DAY if since is None else since
    if not timedelta() < end - begin <= LONGEST_COMPLETENESS:
        raise HttpError(422, f"since={begin} must be before until={end}, at most {LONGEST_COMPLETENESS.days} days")
    names = dict(Site.objects.values_list("id", "name"))
    return [
        {
            **asdict(came),
            **asdict(covered),
            "site": names[came.site_id],
            "completeness_ratio": came.completeness_ratio,
            "coverage_ratio": covered.coverage_ratio,
        }
        for came, covered in completeness.days_of_sites(begin, end, now)
    ]


@router.get(
    "/refused", response={200: list[RefusedOut], 422: ProblemOut}, summary="The results refused last, newest first"
)
def list_refused(request: HttpRequest, limit: Annotated[int, Field(ge=1, le=1000)] = 100) -> list[dict[str, object]]:
    names = dict(Site.objects.values_list("id", "name"))
    return [{**asdict(report), "site": names[report.site_id]} for report in newest_refused(limit)]


def too_large(by: Grouping, tick: Tick, length: timedelta) -> str | None:
    pairs = Path.objects.in_use().count() if by in (Grouping.NODE, Grouping.SITE) else 1
    cells = pairs * (length // TICK_LENGTHS[tick] + 1)
    if cells <= MOST_TABLE_CELLS:
        return None
    return (
        f"that may be {cells:,} cells, and {MOST_TABLE_CELLS:,} are the most: "
        "ask for a shorter time or a longer tick, or by country, region or group"
    )


def _ends(path: Path) -> dict[str, object]:
    return {"source": path.source.site.name, "destination": path.destination.site.name, "family": path.family}
