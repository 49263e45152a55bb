"""The users' API under /api/v1/: units are in the names, unknown values are null, times are ISO 8601 in UTC.
`monitor.accounts.access` checks permissions."""

from __future__ import annotations

from dataclasses import asdict, fields
from datetime import datetime
from operator import attrgetter
from typing import Any

import msgspec
from django.http import HttpRequest, HttpResponse
from django.urls import reverse
from django.utils import timezone
from ninja import NinjaAPI, Query
from ninja.errors import HttpError

from monitor.alerts.incidents.queries import ended_findings, incidents_of_path
from monitor.api import freshness, incidents, on_demand, quiet
from monitor.api.annotations.views import router as annotations_router
from monitor.api.captures import router as captures_router
from monitor.api.centre.state import router as state_router
from monitor.api.centre.summary import router as summary_router
from monitor.api.error_answers import ApiRenderer, add_error_answers
from monitor.api.freshness import OF_SUMMARIES, date_summaries
from monitor.api.parameters import (
    MOST_CELLS,
    TO_THE_MICROSECOND,
    GridLimit,
    Moment,
    Offset,
    PacketBytes,
    ProblemOut,
    Range,
    path_or_404,
)
from monitor.api.routes.downloads import router as route_downloads_router
from monitor.api.routes.views import router as routes_router
from monitor.api.schemas import (
    CellOut,
    ChangeOut,
    CongestionOut,
    DirectionSeriesOut,
    GridOut,
    LedgerOut,
    PathOut,
    SeriesOut,
    SiteOut,
    StampCycleOut,
    ThroughputOut,
    TransferOut,
)
from monitor.api.summaries import router
from monitor.api.sweeps import router as sweeps_router
from monitor.api.throughput.aggregates import router as aggregates_router
from monitor.api.throughput.links import router as links_router
from monitor.api.throughput.results import router as results_router
from monitor.api.transfers import router as transfers_router
from monitor.archive.queries.directions import RawDirection, direction_series, raw_directions
from monitor.archive.queries.metrics import Metric
from monitor.archive.queries.operation.ledger import count_planned, ledger_of_path
from monitor.archive.queries.paths import path_series
from monitor.archive.queries.tables import Tick
from monitor.archive.queries.throughput.inventories import inventory_changes
from monitor.archive.queries.throughput.series import ThroughputPoint, throughput_series
from monitor.archive.queries.throughput.transfers import transfer_of
from monitor.archive.queries.throughput.under_load import loaded_series, path_under_load
from monitor.archive.statements import LONGEST_RAW
from monitor.archive.upkeep.freshness import lacks_since, series_lacks_since
from monitor.mesh.models import Path, Site
from monitor.mesh.queries import measured_by
from monitor.overview.cell_now import CellNow
from monitor.overview.changes import PathChange, changes_of
from monitor.overview.grid import ComparedPeriod, Grid, GridPeriod, measured_packet_bytes
from monitor.overview.path_figures import PathFigures
from monitor.overview.recurring_hours import path_congestion
from monitor.overview.wide.sheets import GridSheet, load_grid_sheet

_OF_NOW = [
    name for name in CellOut.model_fields if name in {*(field.name for field in fields(CellNow)), "is_since_end"}
]
_OF_PATH = [name for name in CellOut.model_fields if name not in {*_OF_NOW, "condition", "ended_incident_id"}]
_of_now, _of_path = attrgetter(*_OF_NOW), attrgetter(*_OF_PATH)
api = NinjaAPI(
    title="Soundings",
    version="1",
    description="Measurements of Soundings. Units are in the names; null means unknown. Times are UTC.",
    urls_namespace="v1",
    docs_url=None,
    renderer=ApiRenderer(),
)
api.add_router("", router)
api.add_router("", sweeps_router)
api.add_router("", transfers_router)
api.add_router("", results_router)
api.add_router("", captures_router)
api.add_router("", aggregates_router)
api.add_router("", routes_router)
api.add_router("", route_downloads_router)
api.add_router("", incidents.router)
api.add_router("", quiet.router)
api.add_router("", annotations_router)
api.add_router("", links_router)
api.add_router("", on_demand.router)
api.add_router("", freshness.router)
api.add_router("", state_router)
api.add_router("", summary_router)


add_error_answers(api)


@api.get("/", include_in_schema=False)
def root(request: HttpRequest) -> dict[str, str]:
    return {"title": api.title, "version": api.version, "openapi": reverse(f"{api.urls_namespace}:openapi-json")}


@api.get("/sites", response=list[SiteOut], summary="All sites in use")
def list_sites(request: HttpRequest) -> list[Site]:
    return list(Site.objects.in_use())


@api.get("/paths", response=list[PathOut], summary="All paths in use")
def list_paths(request: HttpRequest) -> list[dict[str, object]]:
    paths = Path.objects.in_use().order_by("id")
    words = measured_by(path.pk for path in paths)
    return [{**_path_out(path), "measured_by": words.get(path.pk)} for path in paths]


@api.get(
    "/grid",
    response={200: GridOut, 422: ProblemOut},
    summary="Every path's figures over a period, as on the first page",
    openapi_extra=OF_SUMMARIES,
)
def get_grid(
    request: HttpRequest,
    metric: Metric = Metric.LOSS,
    period: GridPeriod = GridPeriod.DAY,
    size: PacketBytes = None,
    group: str | None = None,
    against: ComparedPeriod | None = None,
    offset: Offset = 0,
    limit: GridLimit = MOST_CELLS,
) -> HttpResponse:
    now = timezone.now()
    sheet = load_grid_sheet(
        *(metric, period, now),
        packet_bytes=size,
        group=group,
        against=against,
        limit=limit,
        offset=offset,
    )
    # Not made by the schema, which takes ten times as long as all else; a test holds its fields to these.
    response = HttpResponse(msgspec.json.encode(_grid_out(sheet)), content_type="application/json; charset=utf-8")
    if period is not GridPeriod.NOW:
        date_summaries(response, lacks_since(Tick.HOUR, now))
    return response


@api.get(
    "/paths/{int:path_id}/series",
    response={200: SeriesOut, 404: ProblemOut, 422: ProblemOut},
    summary="RTT, loss and the Mathis estimate over time",
    openapi_extra=OF_SUMMARIES,
)
def get_series(
    request: HttpRequest, response: HttpResponse, path_id: int, between: Query[Range], size: PacketBytes = None
) -> dict[str, object]:
    path_or_404(path_id)
    now = timezone.now()
    since, until = between.resolve_at(now)
    date_summaries(response, series_lacks_since(since, until, now))
    packet_bytes = measured_packet_bytes(size)
    series = path_series(path_id, packet_bytes, since, until)
    return {
        **asdict(series),
        "since": since,
        "until": until,
        "under_load": path_under_load(path_id, packet_bytes, since, until),
        "under_load_points": loaded_series(path_id, packet_bytes, since, until),
    }


@api.get(
    "/paths/{int:path_id}/directions",
    response={200: DirectionSeriesOut, 404: ProblemOut, 422: ProblemOut},
    summary="Loss and delay of each direction over time, by STAMP",
    openapi_extra=OF_SUMMARIES,
)
def get_directions(
    request: HttpRequest, response: HttpResponse, path_id: int, between: Query[Range]
) -> dict[str, object]:
    path_or_404(path_id)
    now = timezone.now()
    since, until = between.resolve_at(now)
    date_summaries(response, series_lacks_since(since, until, now))
    return {**asdict(direction_series(path_id, since, until)), "since": since, "until": until}


@api.get(
    "/paths/{int:path_id}/stamp",
    response={200: list[StampCycleOut], 404: ProblemOut, 422: ProblemOut},
    summary="STAMP cycles of a path in a day at most, the failed ones included",
)
def get_stamp_cycles(request: HttpRequest, path_id: int, between: Query[Range]) -> list[RawDirection]:
    path_or_404(path_id)
    since, until = between.resolve_at(timezone.now())
    if until - since > LONGEST_RAW:
        raise HttpError(422, "STAMP cycles are given for a day at most: ask for a shorter time")
    return raw_directions(path_id, since, until)


@api.get(
    "/paths/{int:path_id}/throughput",
    response={200: list[ThroughputOut], 404: ProblemOut, 422: ProblemOut},
    summary="Throughput tests of a path, the failed ones included",
)
def get_throughput(request: HttpRequest, path_id: int, between: Query[Range]) -> list[ThroughputPoint]:
    path_or_404(path_id)
    return throughput_series(path_id, *between.resolve_at(timezone.now()))


@api.get(
    "/paths/{int:path_id}/throughput/{at}",
    response={200: TransferOut, 404: ProblemOut, 422: ProblemOut},
    summary="A throughput test with its intervals and their diagnosis",
)
def get_transfer(request: HttpRequest, path_id: int, at: Moment) -> dict[str, object]:
    path_or_404(path_id)
    stored = transfer_of(path_id, at)
    if stored is None:
        raise HttpError(404, f"no throughput test of path {path_id} began at {at.isoformat()}; {TO_THE_MICROSECOND}")
    transfer: dict[str, object] = msgspec.to_builtins(stored, builtin_types=(datetime,))
    return {**transfer, "inventory_changes": inventory_changes(path_id, at)}


@api.get(
    "/paths/{int:path_id}/changes",
    response={200: list[ChangeOut], 404: ProblemOut, 422: ProblemOut},
    summary="Schedule and route changes of a path, as marked on its page",
)
def get_changes(
    request: HttpRequest, path_id: int, between: Query[Range], size: PacketBytes = None
) -> list[PathChange]:
    path_or_404(path_id)
    since, until = between.resolve_at(timezone.now())
    packet_bytes = measured_packet_bytes(size)
    return changes_of(path_id, packet_bytes, since, until, incidents_of_path(path_id, since, until))


@api.get(
    "/paths/{int:path_id}/congestion",
    response={200: CongestionOut, 404: ProblemOut},
    summary="Hours of the day at which a path is congested, from the last 14 days",
    openapi_extra=OF_SUMMARIES,
)
def get_congestion(request: HttpRequest, response: HttpResponse, path_id: int) -> dict[str, object]:
    path_or_404(path_id)
    now = timezone.now()
    date_summaries(response, lacks_since(Tick.HOUR, now))
    recurring = path_congestion(Path.objects.with_hosts().get(id=path_id), now)
    return {
        "path_id": path_id,
        "since": recurring.since,
        "until": recurring.until,
        "can_tell": recurring.congestion.can_tell,
        "hours": recurring.congestion.hours,
        "sentences": recurring.sentences,
    }


@api.get(
    "/paths/{int:path_id}/ledger",
    response={200: LedgerOut, 404: ProblemOut, 422: ProblemOut},
    summary="Outcomes of the planned measurements of a path, up to now",
)
def get_ledger(request: HttpRequest, path_id: int, between: Query[Range]) -> dict[str, object]:
    path_or_404(path_id)
    now = timezone.now()
    since, until = between.resolve_at(now)
    until = max(since, min(until, now))
    lines = ledger_of_path(path_id, since, until)
    return {"path_id": path_id, "since": since, "until": until, "planned": count_planned(lines), "lines": lines}


def _grid_out(sheet: GridSheet) -> dict[str, object]:
    grid = sheet.grid
    return {
        "metric": grid.metric,
        "period": grid.period,
        "against": grid.against,
        "packet_bytes": grid.packet_bytes,
        "since": grid.since,
        "until": grid.until,
        "newest_measured_at": grid.newest_measured_at,
        "paths_in_all": sheet.paths_in_all,
        "cells": _cells_out(grid),
    }


def _cells_out(grid: Grid) -> list[dict[str, Any]]:
    ended: dict[int, int] = {}
    if grid.period is GridPeriod.NOW:
        for finding in ended_findings(grid.since, grid.until):
            ended.setdefault(finding.path_id, finding.incident_id)
    return [_cell(grid, path, ended) for path in grid.figures]


def _cell(grid: Grid, path: PathFigures, ended: dict[int, int]) -> dict[str, Any]:
    now = grid.cell_now(path)
    return {
        **dict(zip(_OF_PATH, _of_path(path), strict=True)),
        **dict(zip(_OF_NOW, _of_now(now), strict=True)),
        "condition": None if path.condition is None else path.condition.name.lower(),
        "ended_incident_id": None if now.ended_at is None else ended.get(path.path_id),
    }


def _path_out(path: Path) -> dict[str, object]:
    ends = {
        end: {"site": host.site.name, "name": host.name, "address": host.address}
        for end, host in (("source", path.source), ("destination", path.destination))
    }
    return {"id": path.id, "family": path.family, "retired_at": path.retired_at, **ends}
