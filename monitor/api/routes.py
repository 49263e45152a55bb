"""The users' API about routes: of a path in both directions, their traces, changes, differences, and paths through a
router.

As in `monitor.api.users`, which these addresses are part of: units in the names, null is not known. Requesting a trace
needs the operator role, checked in `monitor.accounts.access`; all else is read-only.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from ipaddress import ip_address
from typing import Annotated

from django.http import HttpRequest, HttpResponse
from django.utils import timezone
from ninja import Query, Router, Schema, Status
from ninja.errors import HttpError
from pydantic import Field

from monitor.analysis.routes.differences import BlockKind, diff
from monitor.api.parameters import Moment, ProblemOut, Range
from monitor.api.record_schemas import with_fields_of
from monitor.archive.queries.routes.periods import (
    Passage,
    RouteChange,
    RoutePeriod,
    StoredRoute,
    changes_between,
    paths_through,
    routes_between,
    stored_routes,
)
from monitor.archive.queries.routes.traces import MplsEntry, StoredTrace, TraceHop, traces_at, traces_between
from monitor.mesh.models import Path
from monitor.mesh.schedule.on_demand_traces import TAKE_UP_S
from monitor.overview.on_demand_traces import TracesRefused, TracesTooOften, ask

LONGEST_TRACES = timedelta(days=7)
LARGEST_ID = 2**63 - 1

router = Router()

RouteId = Annotated[int, Field(ge=1, le=LARGEST_ID)]


@with_fields_of(RoutePeriod)
class RoutePeriodOut(Schema):
    """A period in which the traces of a flow showed the same route: `hops` from TTL 1 on, null if never seen. It ends
    with the first trace on another route; `until` is null for the present route, `last_at` its last trace so far."""


class PathRoutesOut(Schema):
    """The routes of a path that reach into [since, until), and those of the reverse path, if there is any."""

    path_id: int
    reverse_path_id: int | None
    since: datetime
    until: datetime
    routes: list[RoutePeriodOut]
    reverse_routes: list[RoutePeriodOut]


@with_fields_of(RouteChange)
class RouteChangeOut(Schema):
    """A change of the route of a flow: after `last_before_at`, and before or at `at`, the first trace that shows it."""


@with_fields_of(StoredRoute)
class RouteOut(Schema):
    """A route of a path; `number` counts those of the path. `last_at` is its last trace."""


class BlockOut(Schema):
    """Consecutive hops of both routes, with the first and the last TTL on each side, null for an empty side."""

    kind: BlockKind
    before: list[str | None]
    after: list[str | None]
    before_ttls: tuple[int, int] | None
    after_ttls: tuple[int, int] | None


class RouteDiffOut(Schema):
    """Two routes side by side, in blocks of hops; a silent hop agrees with every address."""

    before: RouteOut
    after: RouteOut
    blocks: list[BlockOut]


@with_fields_of(MplsEntry)
class MplsOut(Schema):
    """An entry of a label stack, topmost first."""


@with_fields_of(TraceHop, mpls=list[MplsOut])
class HopOut(Schema):
    """A hop of a trace. `rtts_ms` has an entry for each probe, null without a reply; `is_inferred` hops were probed for
    another path in the same round. `error` ended the trace; `others` are routers of other flows."""


@with_fields_of(StoredTrace, hops=list[HopOut])
class TraceOut(Schema):
    """A trace, without hops unless the outcome is `measured`. `route_id` is null where no router replied."""


class TraceRequestOut(Schema):
    """A trace that the agent at the source of a path is asked for."""

    path_id: int
    asked_at: datetime


@with_fields_of(Passage)
class PassageOut(Schema):
    """A path through a router: at this TTL of a route, in the period in which a flow was on it."""


@router.get(
    "/paths/{int:path_id}/routes",
    response={200: PathRoutesOut, 404: ProblemOut, 422: ProblemOut},
    summary="Routes of a path and of its reverse path, with the periods of each",
)
def get_routes(request: HttpRequest, path_id: int, between: Query[Range]) -> dict[str, object]:
    path = _path(path_id)
    since, until = between.resolve_at(timezone.now())
    reverse = Path.objects.in_use().filter(source=path.destination_id, destination=path.source_id).first()
    periods = routes_between([path_id] if reverse is None else [path_id, reverse.pk], since, until)
    return {
        "path_id": path_id,
        "reverse_path_id": None if reverse is None else reverse.pk,
        "since": since,
        "until": until,
        "routes": [period for period in periods if period.path_id == path_id],
        "reverse_routes": [period for period in periods if period.path_id != path_id],
    }


@router.get(
    "/paths/{int:path_id}/traces",
    response={200: list[TraceOut], 404: ProblemOut, 422: ProblemOut},
    summary="Traces of a path with their hops, failed ones included",
)
def list_traces(request: HttpRequest, path_id: int, between: Query[Range]) -> list[StoredTrace]:
    _path(path_id)
    since, until = between.resolve_at(timezone.now())
    if until - since > LONGEST_TRACES:
        raise HttpError(422, f"traces are given for {LONGEST_TRACES.days} days at most: ask for a shorter time")
    return traces_between(path_id, since, until)


@router.get(
    "/paths/{int:path_id}/traces/{at}",
    response={200: list[TraceOut], 404: ProblemOut, 422: ProblemOut},
    summary="The trace of a path that began at a time; more where several flows were traced",
)
def get_traces(request: HttpRequest, path_id: int, at: Moment) -> list[StoredTrace]:
    _path(path_id)
    traces = traces_at(path_id, at)
    if not traces:
        raise HttpError(404, f"no trace of path {path_id} began at {at.isoformat()}")
    return traces


@router.post(
    "/paths/{int:path_id}/on-demand-traces",
    response={201: list[TraceRequestOut], 404: ProblemOut, 422: ProblemOut, 429: ProblemOut},
    summary="Trace a path now, in both directions",
    description=f"Agents take it up with their next plan, within {TAKE_UP_S} s; the traces then have the reason "
    "`on_demand`. 429 with Retry-After above the rate limit of the user, or if the path was traced on demand just now.",
)
def trace_now(request: HttpRequest, path_id: int, response: HttpResponse) -> Status[object]:
    path = Path.objects.with_hosts().filter(pk=path_id).first()
    if path is None:
        raise HttpError(404, f"there is no path {path_id}; /api/v1/paths lists them")
    try:
        requests = ask(path, request.user.get_username(), timezone.now())
    except TracesTooOften as error:
        response["Retry-After"] = str(error.wait_s)
        return Status(429, {"detail": str(error)})
    except TracesRefused as error:
        raise HttpError(422, str(error)) from error
    return Status(201, requests)


@router.get(
    "/route-changes",
    response={200: list[RouteChangeOut], 422: ProblemOut},
    summary="Changes of route on all paths, or on a path",
)
def list_changes(
    request: HttpRequest, between: Query[Range], path_id: Annotated[int, Field(ge=1, le=2**31 - 1)] | None = None
) -> list[RouteChange]:
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
    blocks = diff(routes[before].route, routes[after].route)
    return {"before": routes[before], "after": routes[after], "blocks": blocks}


@router.get(
    "/paths-through",
    response={200: list[PassageOut], 422: ProblemOut},
    summary="Paths through the router with an address",
)
def list_paths_through(
    request: HttpRequest, between: Query[Range], address: Annotated[str, Field(max_length=64)]
) -> list[Passage]:
    try:
        router_address = ip_address(address)
    except ValueError as error:
        raise HttpError(422, f"address={address!r} is not an IP address") from error
    return paths_through(str(router_address), *between.resolve_at(timezone.now()))


def _path(path_id: int) -> Path:
    path = Path.objects.filter(id=path_id).first()
    if path is None:
        raise HttpError(404, f"there is no path {path_id}; /api/v1/paths lists them")
    return path
