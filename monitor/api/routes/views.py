"""The users' API about routes, traces, changes, differences, and passages."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, fields
from datetime import datetime, timedelta
from ipaddress import ip_address
from typing import Annotated, Any

from django.http import HttpRequest
from django.utils import timezone
from ninja import Query, Router
from ninja.errors import HttpError
from pydantic import Field

from monitor.analysis.routes.differences import diff, diff_as
from monitor.api.parameters import TO_THE_MICROSECOND, Moment, ProblemOut, Range, path_or_404
from monitor.api.routes.schemas import (
    HopNamesOut,
    PassageOut,
    PathRoutesOut,
    RouteChangeOut,
    RouteDiffOut,
    TraceOut,
)
from monitor.archive.queries.routes.periods import (
    Passage,
    RouteChange,
    changes_between,
    paths_through,
    paths_through_any,
    routes_between,
    stored_routes,
)
from monitor.archive.queries.routes.routers import routers_between
from monitor.archive.queries.routes.traces import StoredTrace, traces_at, traces_between
from monitor.mesh.models import Path
from monitor.routes.places import of_addresses, sources

LONGEST_TRACES = timedelta(days=7)
LARGEST_ID = 2**63 - 1
MOST_NAMES = 1000

router = Router()

RouteId = Annotated[int, Field(ge=1, le=LARGEST_ID)]
PathId = Annotated[int, Field(ge=1, le=2**31 - 1)]
RouterAddress = Annotated[str, Field(max_length=64)]
AsNumber = Annotated[int, Field(ge=1, le=2**32 - 2)]


@router.get(
    "/paths/{int:path_id}/routes",
    response={200: PathRoutesOut, 404: ProblemOut, 422: ProblemOut},
    summary="Routes of a path and of its reverse path, with the periods of each",
)
def get_routes(request: HttpRequest, path_id: int, between: Query[Range]) -> dict[str, object]:
    path = path_or_404(path_id)
    since, until = between.resolve_at(timezone.now())
    reverse = Path.objects.in_use().filter(source=path.destination_id, destination=path.source_id).first()
    periods = routes_between([path_id] if reverse is None else [path_id, reverse.pk], since, until)
    names = of_addresses(address for period in periods for address in period.hops if address is not None)
    return {
        "path_id": path_id,
        "reverse_path_id": None if reverse is None else reverse.pk,
        "since": since,
        "until": until,
        "routes": [period for period in periods if period.path_id == path_id],
        "reverse_routes": [period for period in periods if period.path_id != path_id],
        "names": names,
        "tables": sources(),
    }


@router.get(
    "/paths/{int:path_id}/traces",
    response={200: list[TraceOut], 404: ProblemOut, 422: ProblemOut},
    summary="Traces of a path with their hops, failed ones included",
)
def list_traces(request: HttpRequest, path_id: int, between: Query[Range]) -> list[dict[str, Any]]:
    return _named(traces_of(path_id, between))


@router.get(
    "/paths/{int:path_id}/traces/{at}",
    response={200: list[TraceOut], 404: ProblemOut, 422: ProblemOut},
    summary="The trace of a path that began at a time; more where several flows were traced",
)
def get_traces(request: HttpRequest, path_id: int, at: Moment) -> list[dict[str, Any]]:
    path_or_404(path_id)
    traces = traces_at(path_id, at)
    if not traces:
        raise HttpError(404, f"no trace of path {path_id} began at {at.isoformat()}; {TO_THE_MICROSECOND}")
    return _named(traces)


@router.get(
    "/route-changes",
    response={200: list[RouteChangeOut], 422: ProblemOut},
    summary="Changes of route on all paths, or on a path",
)
def list_changes(request: HttpRequest, between: Query[Range], path_id: PathId | None = None) -> list[RouteChange]:
    since, until = between.resolve_at(timezone.now())
    return changes_between(since, until, None if path_id is None else [path_id])


@router.get(
    "/route-diff",
    response={200: RouteDiffOut, 404: ProblemOut, 422: ProblemOut},
    summary="Two routes side by side",
)
def get_diff(request: HttpRequest, before: RouteId, after: RouteId) -> dict[str, object]:
    routes = stored_routes([before, after])
    for route_id in (before, after):
        if route_id not in routes:
            raise HttpError(404, f"there is no route {route_id}")
    sides = routes[before].route, routes[after].route
    names = of_addresses(address for route in sides for address in route.hops if address is not None)
    return {
        "before": routes[before],
        "after": routes[after],
        "blocks": diff(*sides),
        "as_blocks": diff_as(*sides, lambda address: names[address].asn),
        "names": names,
        "tables": sources(),
    }


@router.get(
    "/paths-through",
    response={200: list[PassageOut], 422: ProblemOut},
    summary="Paths through the router with an address, or through an AS",
)
def list_paths_through(
    request: HttpRequest, between: Query[Range], address: RouterAddress | None = None, asn: AsNumber | None = None
) -> list[Passage]:
    return passages(between, address, asn)


@router.get(
    "/hop-names",
    response={200: HopNamesOut, 422: ProblemOut},
    summary="AS, country and names of addresses, and the date of the loaded tables",
)
def get_hop_names(
    request: HttpRequest,
    address: Annotated[list[Annotated[str, Field(max_length=64)]], Query(max_length=MOST_NAMES, default_factory=list)],
) -> dict[str, object]:
    return {"names": of_addresses(canonical_router(text) for text in address), "tables": sources()}


def traces_of(path_id: int, between: Range) -> list[StoredTrace]:
    path_or_404(path_id)
    since, until = between.resolve_at(timezone.now())
    if until - since > LONGEST_TRACES:
        raise HttpError(422, f"traces are given for {LONGEST_TRACES.days} days at most: ask for a shorter time")
    return traces_between(path_id, since, until)


def passages(between: Range, address: str | None, asn: int | None) -> list[Passage]:
    since, until = between.resolve_at(timezone.now())
    if address is not None and asn is None:
        return paths_through(canonical_router(address), since, until)
    if asn is not None and address is None:
        return paths_through_as(asn, since, until)
    raise HttpError(422, "give the address of a router or the number of an AS: address=192.0.2.1 or asn=64496")


def canonical_router(address: str) -> str:
    try:
        return str(ip_address(address))
    except ValueError as error:
        raise HttpError(422, f"address={address!r} is not an IP address") from error


def _named(traces: Sequence[StoredTrace]) -> list[dict[str, Any]]:
    names = of_addresses(hop.address for trace in traces for hop in trace.hops if hop.address is not None)
    answer = []
    for trace in traces:
        hops = [{**asdict(hop), "name": None if hop.address is None else names[hop.address]} for hop in trace.hops]
        answer.append({**{field.name: getattr(trace, field.name) for field in fields(trace)}, "hops": hops})
    return answer


def paths_through_as(asn: int, since: datetime, until: datetime) -> list[Passage]:
    """Periods with a hop in this AS, by path and time. Hops are named as at present."""
    names = of_addresses(routers_between(since, until))
    addresses = [address for address, name in names.items() if name.asn == asn]
    return paths_through_any(addresses, since, until) if addresses else []
