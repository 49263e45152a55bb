"""The users' API under /api/v1/: sites, paths, the grid, tables, series, tests, completeness and incidents, as JSON.

Everything here is read-only; what people do is in `monitor.api.incidents`, `.quiet` and `.on_demand`. Units are in the
names, what is not known is null, times are ISO 8601 in UTC. Who may do what is decided for pages and API by
`monitor.web.access`; the description for programs is at /api/v1/openapi.json.
"""

from __future__ import annotations

from dataclasses import asdict
from datetime import datetime
from typing import Any

import msgspec
from django.http import HttpRequest, HttpResponse
from django.utils import timezone
from ninja import NinjaAPI, Query, Schema
from ninja.errors import HttpError

from monitor.alerts.actions import NotPossible
from monitor.alerts.listing import UnknownFilter
from monitor.alerts.queries import incidents_of_path
from monitor.api import freshness, incidents, on_demand, quiet
from monitor.api.asked import Moment, PacketBytes, ProblemOut, Range
from monitor.api.changes import Change, ChangeKind, changes_of
from monitor.api.grid import Against, Grid, Period, State, UnknownChoice, choose_packet_bytes, load_grid
from monitor.api.incidents import status_of
from monitor.api.summaries import router
from monitor.api.sweeps import router as sweeps_router
from monitor.api.transfers import router as transfers_router
from monitor.archive import ledger, queries
from monitor.archive.disk_to_disk import DiskToDiskPoint, disk_to_disk_series
from monitor.archive.metrics import Metric
from monitor.archive.transfers import transfer_of
from monitor.mesh.models import Path, Site

api = NinjaAPI(
    title="Soundings",
    version="1",
    description="What Soundings measured. Units are in the names; null means not known. Times are UTC.",
    urls_namespace="v1",
    docs_url=None,
)
api.add_router("", router)
api.add_router("", sweeps_router)
api.add_router("", transfers_router)
api.add_router("", incidents.router)
api.add_router("", quiet.router)
api.add_router("", on_demand.router)
api.add_router("", freshness.router)


class SiteOut(Schema):
    """A place. `has_agent` tells whether it measures or only answers."""

    name: str
    title: str
    latitude_deg: float
    longitude_deg: float
    country: str
    region: str
    has_agent: bool


class HostOut(Schema):
    site: str
    name: str
    address: str


class PathOut(Schema):
    """An ordered pair of hosts, the unit of every series. `retired_at` is null while it is in use."""

    id: int
    source: HostOut
    destination: HostOut
    family: int
    retired_at: datetime | None


class CellOut(Schema):
    """One path of the grid: `value` is the metric's. `loss_bound_ratio` is the upper 95% bound where nothing was lost,
    else null; `outcome` is the newest of what did not measure."""

    path_id: int
    source: str
    destination: str
    family: int
    state: State
    value: float | None
    sent: int | None
    received: int | None
    loss_ratio: float | None
    loss_bound_ratio: float | None
    tests: int | None
    tests_measured: int | None
    not_measured: int | None
    outcome: str | None
    incident_id: int | None
    value_before: float | None
    in_maintenance: bool


class GridOut(Schema):
    """The grid as the page shows it: over the whole hours that overlap [since, until), beyond two days whole days.
    `against` is what `value_before` was measured in: a week or 52 weeks before; both are null unless asked for."""

    metric: Metric
    period: Period
    against: Against | None
    packet_bytes: int | None
    since: datetime
    until: datetime
    newest_measured_at: datetime | None
    cells: list[CellOut]


class SeriesPointOut(Schema):
    """One step. Steps with nothing at all are not listed: a gap is the absence of points."""

    at: datetime
    sent: int
    received: int
    bursts_not_measured: int
    rtt_min_ms: float | None
    rtt_p25_ms: float | None
    rtt_median_ms: float | None
    rtt_p75_ms: float | None
    rtt_p95_ms: float | None
    rtt_max_ms: float | None
    estimate_bps: float | None
    estimate_is_floor: bool | None
    loss_max_ratio: float | None


class SeriesOut(Schema):
    """RTT, loss and the Mathis estimate of one path and packet size, in steps of `step_s` seconds."""

    path_id: int
    packet_bytes: int
    step_s: int
    since: datetime
    until: datetime
    points: list[SeriesPointOut]


class ThroughputOut(Schema):
    """One throughput test. `throughput_bps` is null unless the outcome is `measured`; it is the rate after slow start,
    over `steady_s` seconds, and where that is null the average of the test, as `average_bps` always is. `verdict` is
    what limited the test, `sentence` says it with its evidence; null where the test left no intervals."""

    at: datetime
    test: str
    protocol: str
    outcome: str
    throughput_bps: float | None
    average_bps: float | None
    steady_s: float | None
    verdict: str | None
    sentence: str | None
    congestion_control: str | None
    peer_window_bytes: float | None
    streams: int
    duration_s: float | None
    retransmits: int | None
    rtt_mean_ms: float | None
    detail: str | None


class TransferOut(Schema):
    """One throughput test in full. `findings` has the evidence for its verdict, the recoveries from loss, pauses of the
    sender, round trips and the figures of RFC 6349; `transfer` what was seen of it at both ends, interval by interval
    in columns of one length, times in seconds from its start. Null where the test left no intervals."""

    path_id: int
    at: datetime
    test: str
    protocol: str
    outcome: str
    streams: int
    throughput_bps: float | None
    average_bps: float | None
    steady_s: float | None
    asked_bps: float | None
    retransmits: int | None
    congestion_control: str | None
    tool: str | None
    verdict: str | None
    sentence: str | None
    detail: str | None
    findings: dict[str, Any] | None
    transfer: dict[str, Any] | None


class CapacityOut(Schema):
    """One estimate of the narrowest link of a path, there or back. `capacity_bps` is null unless the verdict is
    `measured`; `capacity_low_bps` without `capacity_high_bps` is a lower bound; `verdict` is null where the outcome
    is not `measured`."""

    at: datetime
    test: str
    outcome: str
    verdict: str | None
    capacity_bps: float | None
    capacity_low_bps: float | None
    capacity_high_bps: float | None
    packet_bytes: int | None
    sent: int
    received: int
    method: str | None
    during_test: bool
    detail: str | None


class ChangeOut(Schema):
    """A change of the plan of a path or of its route, in words."""

    at: datetime
    kind: ChangeKind
    text: str


class DiskToDiskOut(Schema):
    """One disk-to-disk measurement. `disk_to_disk_bps` counts until the receiver's disk had all of the file,
    `memory_to_memory_bps` is of the same streams without disks, `read_bps` and `write_bps` are each end's disk alone.
    Rates are null unless the outcome is `measured`; `verdict` is what limited it, `sentence` that with its evidence."""

    at: datetime
    test: str
    outcome: str
    tool: str
    streams: int
    file_bytes: int | None
    moved_bytes: int | None
    moving_s: float | None
    syncing_s: float | None
    disk_to_disk_bps: float | None
    memory_to_memory_bps: float | None
    read_bps: float | None
    read_cached_ratio: float | None
    write_bps: float | None
    is_verified: bool | None
    verdict: str | None
    sentence: str | None
    detail: str | None


class LedgerLineOut(Schema):
    """So many planned measurements of a test that ended alike. `reason` says why they were missed; `awaited` is what
    nobody has accounted for yet, `unknown` what was planned before the agent's first account."""

    test: str
    outcome: str
    reason: str | None
    count: int


class LedgerOut(Schema):
    """What became of all that was planned of a path to begin in [since, until): the counts make up `planned`."""

    path_id: int
    since: datetime
    until: datetime
    planned: int
    lines: list[LedgerLineOut]


@api.exception_handler(NotPossible)
def not_possible(request: HttpRequest, error: NotPossible) -> HttpResponse:
    return api.create_response(request, {"detail": str(error)}, status=status_of(error))


@api.exception_handler(UnknownFilter)
def unknown_filter(request: HttpRequest, error: UnknownFilter) -> HttpResponse:
    return api.create_response(request, {"detail": str(error)}, status=422)


@api.exception_handler(UnknownChoice)
def unknown_choice(request: HttpRequest, error: UnknownChoice) -> HttpResponse:
    return api.create_response(request, {"detail": str(error)}, status=422)


@api.get("/sites", response=list[SiteOut], summary="All sites in use")
def list_sites(request: HttpRequest) -> list[Site]:
    return list(Site.objects.in_use())


@api.get("/paths", response=list[PathOut], summary="All paths in use")
def list_paths(request: HttpRequest) -> list[dict[str, object]]:
    paths = Path.objects.in_use().order_by("id")
    return [_path_out(path) for path in paths]


@api.get(
    "/grid",
    response={200: GridOut, 422: ProblemOut},
    summary="Every path's figures over a period, as on the first page",
)
def get_grid(
    request: HttpRequest,
    metric: Metric = Metric.LOSS,
    period: Period = Period.DAY,
    size: PacketBytes = None,
    group: str | None = None,
    against: Against | None = None,
) -> HttpResponse:
    grid = load_grid(metric, period, timezone.now(), packet_bytes=size, group=group, against=against)
    # Not made by the schema, which takes ten times as long as all else; a test holds its fields to these.
    return HttpResponse(msgspec.json.encode(_grid_out(grid)), content_type="application/json; charset=utf-8")


@api.get(
    "/paths/{int:path_id}/series",
    response={200: SeriesOut, 404: ProblemOut, 422: ProblemOut},
    summary="RTT, loss and the Mathis estimate over time",
)
def get_series(
    request: HttpRequest, path_id: int, between: Query[Range], size: PacketBytes = None
) -> dict[str, object]:
    _require_path(path_id)
    since, until = between.resolve_at(timezone.now())
    packet_bytes = choose_packet_bytes(tuple(queries.packet_sizes()), size)
    series = queries.path_series(path_id, packet_bytes, since, until)
    return {**asdict(series), "since": since, "until": until}


@api.get(
    "/paths/{int:path_id}/throughput",
    response={200: list[ThroughputOut], 404: ProblemOut, 422: ProblemOut},
    summary="Throughput tests of a path, the failed ones included",
)
def get_throughput(request: HttpRequest, path_id: int, between: Query[Range]) -> list[queries.ThroughputPoint]:
    _require_path(path_id)
    return queries.throughput_series(path_id, *between.resolve_at(timezone.now()))


@api.get(
    "/paths/{int:path_id}/throughput/{at}",
    response={200: TransferOut, 404: ProblemOut, 422: ProblemOut},
    summary="One throughput test with its intervals and what they say of the transfer",
)
def get_transfer(request: HttpRequest, path_id: int, at: Moment) -> dict[str, object]:
    _require_path(path_id)
    stored = transfer_of(path_id, at)
    if stored is None:
        raise HttpError(404, f"no throughput test of path {path_id} began at {at.isoformat()}")
    found: dict[str, object] = msgspec.to_builtins(stored, builtin_types=(datetime,))
    return found


@api.get(
    "/paths/{int:path_id}/capacity",
    response={200: list[CapacityOut], 404: ProblemOut, 422: ProblemOut},
    summary="Estimates of the narrowest link of a path, those that cannot tell included",
)
def get_capacity(request: HttpRequest, path_id: int, between: Query[Range]) -> list[queries.CapacityPoint]:
    _require_path(path_id)
    return queries.capacity_series(path_id, *between.resolve_at(timezone.now()))


@api.get(
    "/paths/{int:path_id}/changes",
    response={200: list[ChangeOut], 404: ProblemOut, 422: ProblemOut},
    summary="What changed of the plan of a path and of its route, as its page marks it",
)
def get_changes(request: HttpRequest, path_id: int, between: Query[Range], size: PacketBytes = None) -> list[Change]:
    _require_path(path_id)
    since, until = between.resolve_at(timezone.now())
    packet_bytes = choose_packet_bytes(tuple(queries.packet_sizes()), size)
    return changes_of(path_id, packet_bytes, since, until, incidents_of_path(path_id, since, until))


@api.get(
    "/paths/{int:path_id}/disk-to-disk",
    response={200: list[DiskToDiskOut], 404: ProblemOut, 422: ProblemOut},
    summary="Files from disk to disk on a path, and what limited them, the failed ones included",
)
def get_disk_to_disk(request: HttpRequest, path_id: int, between: Query[Range]) -> list[DiskToDiskPoint]:
    _require_path(path_id)
    return disk_to_disk_series(path_id, *between.resolve_at(timezone.now()))


@api.get(
    "/paths/{int:path_id}/ledger",
    response={200: LedgerOut, 404: ProblemOut, 422: ProblemOut},
    summary="What became of each planned measurement of a path, up to now",
)
def get_ledger(request: HttpRequest, path_id: int, between: Query[Range]) -> dict[str, object]:
    _require_path(path_id)
    now = timezone.now()
    since, until = between.resolve_at(now)
    until = max(since, min(until, now))
    lines = ledger.of_path(path_id, since, until)
    return {"path_id": path_id, "since": since, "until": until, "planned": ledger.planned(lines), "lines": lines}


def _require_path(path_id: int) -> None:
    if not Path.objects.filter(id=path_id).exists():
        raise HttpError(404, f"there is no path {path_id}; /api/v1/paths lists them")


def _grid_out(grid: Grid) -> dict[str, object]:
    return {
        "metric": grid.metric,
        "period": grid.period,
        "against": grid.against,
        "packet_bytes": grid.packet_bytes,
        "since": grid.since,
        "until": grid.until,
        "newest_measured_at": grid.newest_measured_at,
        "cells": grid.figures,
    }


def _path_out(path: Path) -> dict[str, object]:
    ends = {
        end: {"site": host.site.name, "name": host.name, "address": host.address}
        for end, host in (("source", path.source), ("destination", path.destination))
    }
    return {"id": path.id, "family": path.family, "retired_at": path.retired_at, **ends}
