"""CSV of routes in the users' API.

Times are UTC, unknown values are empty, lists have semicolons.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from django.http import HttpRequest, HttpResponse
from django.utils import timezone
from ninja import Query, Router

from monitor.api.parameters import ProblemOut, Range, path_or_404
from monitor.api.routes.views import AsNumber, PathId, RouterAddress, passages, traces_of
from monitor.archive.queries.routes.periods import (
    Passage,
    RouteChange,
    RoutePeriod,
    changes_between,
    routes_between,
)
from monitor.archive.queries.routes.traces import StoredTrace, TraceHop
from monitor.mesh.models import Path
from monitor.overview.csv_text import csv_text, names_of, values_of
from monitor.routes.places import HopName, of_addresses

router = Router()

AS_CSV: dict[str, Any] = {"responses": {200: {"content": {"text/csv": {"schema": {"type": "string"}}}}}}
NAMES = ("asn", "as_name", "country", "ixp", "network", "host_name")
OF_TRACE = ("path_id", "at", "test", "outcome", "reason", "protocol", "flow", "reached", "route_id")


@router.get(
    "/paths/{int:path_id}/routes.csv",
    response={200: None, 404: ProblemOut, 422: ProblemOut},
    openapi_extra=AS_CSV,
    summary="Routes of a path and of its reverse path as CSV: a row for each period",
)
def get_routes(request: HttpRequest, path_id: int, between: Query[Range]) -> HttpResponse:
    path = path_or_404(path_id)
    since, until = between.resolve_at(timezone.now())
    reverse = Path.objects.in_use().filter(source=path.destination_id, destination=path.source_id).first()
    periods = routes_between([path_id] if reverse is None else [path_id, reverse.pk], since, until)
    places = _names(period.hops for period in periods)
    rows = ([*values_of(period), _as_numbers(period.hops, places)] for period in periods)
    return _answer("routes", [*names_of(RoutePeriod), "asns"], rows)


@router.get(
    "/paths/{int:path_id}/traces.csv",
    response={200: None, 404: ProblemOut, 422: ProblemOut},
    openapi_extra=AS_CSV,
    summary="Traces of a path as CSV: a row for each hop, a single row for a failed trace",
)
def get_traces(request: HttpRequest, path_id: int, between: Query[Range]) -> HttpResponse:
    traces = traces_of(path_id, between)
    places = _names([hop.address for hop in trace.hops] for trace in traces)
    columns = [*OF_TRACE, *names_of(TraceHop), "sent", "received", *NAMES]
    return _answer("traces", columns, (row for trace in traces for row in _trace_rows(trace, places)))


@router.get(
    "/route-changes.csv",
    response={200: None, 422: ProblemOut},
    openapi_extra=AS_CSV,
    summary="Changes of route as CSV",
)
def get_changes(request: HttpRequest, between: Query[Range], path_id: PathId | None = None) -> HttpResponse:
    changes = changes_between(*between.resolve_at(timezone.now()), None if path_id is None else [path_id])
    places = _names(hops for change in changes for hops in (change.before_hops, change.after_hops))
    rows = (
        [*values_of(change), *(_as_numbers(hops, places) for hops in (change.before_hops, change.after_hops))]
        for change in changes
    )
    return _answer("route-changes", [*names_of(RouteChange), "before_asns", "after_asns"], rows)


@router.get(
    "/paths-through.csv",
    response={200: None, 422: ProblemOut},
    openapi_extra=AS_CSV,
    summary="Paths through a router or an AS as CSV",
)
def get_paths_through(
    request: HttpRequest, between: Query[Range], address: RouterAddress | None = None, asn: AsNumber | None = None
) -> HttpResponse:
    rows = (values_of(passage) for passage in passages(between, address, asn))
    return _answer("paths-through", names_of(Passage), rows)


def _names(routes: Iterable[Sequence[str | None]]) -> dict[str, HopName]:
    return of_addresses(address for hops in routes for address in hops if address is not None)


def _as_numbers(hops: Sequence[str | None], places: dict[str, HopName]) -> list[int | None]:
    return [None if address is None else places[address].asn for address in hops]


def _trace_rows(trace: StoredTrace, places: dict[str, HopName]) -> Iterable[list[Any]]:
    common = [getattr(trace, name) for name in OF_TRACE]
    if not trace.hops:
        yield [*common, *[None] * (len(names_of(TraceHop)) + 2 + len(NAMES))]
    for hop in trace.hops:
        place = HopName() if hop.address is None else places[hop.address]
        values = dict(zip(names_of(TraceHop), values_of(hop), strict=True))
        values["mpls"] = [entry.label for entry in hop.mpls]
        yield [*common, *values.values(), hop.sent, hop.received, *(getattr(place, name) for name in NAMES)]


def _answer(name: str, columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> HttpResponse:
    response = HttpResponse(csv_text(columns, rows), content_type="text/csv; charset=utf-8")
    response.headers["Content-Disposition"] = f'attachment; filename="{name}.csv"'
    return response
