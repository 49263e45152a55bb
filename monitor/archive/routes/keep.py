"""Keep the routes of paths while traces are stored, in any order and any number of times.

In: new traces of a batch, within its transaction; deliveries of a site, and so all traces of a path, come one after
the other. Out: the route of each, and the tables `route` and `path_route`, which are always as if all traces had come
in order of time: a trace that is older than others is followed from its time on, together with the stored traces.
Most traces confirm the present route of their flow and cost one update for the whole batch.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.db import connection

from monitor.analysis.routes.compare import is_compatible
from monitor.analysis.routes.timeline import FlowPeriod, RouteTrace, Timeline, TimelineRoute
from monitor.archive.models import PathRoute as PathRouteRow
from monitor.archive.models import Route as RouteRow
from monitor.archive.routes.known import PresentRoutes, StoredRoutes, present_routes, stored_routes
from monitor.archive.statements import statement
from monitor.prepared import array_text, run_prepared

PathTrace = tuple[int, RouteTrace]


def keep_routes(traces: Sequence[PathTrace]) -> list[int | None]:
    """Store the routes of these new traces; returns the identifier of the route of each, None without a hop."""
    places: dict[int, list[int]] = defaultdict(list)
    for place, (path_id, trace) in enumerate(traces):
        if not trace.route.is_unknown:
            places[path_id].append(place)
    present = present_routes(places)
    route_ids: list[int | None] = [None] * len(traces)
    last_at: dict[int, datetime] = {}
    changing: dict[int, list[int]] = {}
    for path_id, of_path in places.items():
        of_path.sort(key=lambda place: traces[place][1].order)
        followed = [traces[place][1] for place in of_path]
        confirmed = _confirmed(present.get(path_id), followed)
        if confirmed is None:
            changing[path_id] = of_path
            continue
        for place, trace, period in zip(of_path, followed, confirmed, strict=True):
            route_ids[place] = period.route.row_id
            last_at[present[path_id].ids[trace.flow]] = period.last_at
    if last_at:
        moved = {"ids": array_text(last_at), "last_at": list(last_at.values())}
        run_prepared(statement("move_last_traces"), moved)
    if changing:
        since_of = {path_id: traces[of_path[0]][1].at for path_id, of_path in changing.items()}
        followed_paths = [
            _follow(path_id, stored, [traces[place][1] for place in changing[path_id]])
            for path_id, stored in stored_routes(since_of).items()
        ]
        _store_routes(followed_paths)
        _store_periods(followed_paths)
        _move_traces(followed_paths)
        for path in followed_paths:
            for place, route_id in zip(changing[path.path_id], path.new_route_ids(), strict=True):
                route_ids[place] = route_id
    return route_ids


def _confirmed(present: PresentRoutes | None, traces: Sequence[RouteTrace]) -> list[FlowPeriod] | None:
    """The present period of each trace's flow, if all traces are on its route and tell nothing new of it; else None."""
    if present is None:
        return None
    periods = []
    newest = present.newest
    for trace in traces:
        period = present.periods.get(trace.flow)
        if period is None or trace.at < period.since or not is_compatible(trace.route, period.route.route):
            return None
        is_newest = newest is None or trace.order > newest
        if not period.route.knew(trace.route, trace.at) and not (is_newest and _adds_nothing(period.route, trace)):
            return None
        periods.append(period)
    for trace, period in zip(traces, periods, strict=True):
        period.last_at = max(period.last_at, trace.at)
    return periods


def _adds_nothing(route: TimelineRoute, trace: RouteTrace) -> bool:
    """Whether the route, as it is now, knows everything that a trace shows. Right for the newest trace alone: for an
    older one the route may not have known it yet."""
    seen = trace.route
    return (
        len(seen.hops) <= len(route.hops)
        and (route.reached_at is not None or not seen.reached)
        and all(address is None or known is not None for address, known in zip(seen.hops, route.hops, strict=False))
    )


@dataclass(frozen=True, slots=True)
class _FollowedPath:
    """The stored routes of a path, its timeline with the new traces, and the route of each trace. New routes get their
    identifiers when they are stored."""

    path_id: int
    stored: StoredRoutes
    timeline: Timeline
    new: Sequence[RouteTrace]
    route_of: Mapping[int, TimelineRoute]

    def new_route_ids(self) -> list[int | None]:
        """The route of each new trace."""
        return [self.route_of[id(trace)].row_id for trace in self.new]


def _follow(path_id: int, stored: StoredRoutes, new: Sequence[RouteTrace]) -> _FollowedPath:
    """Follow the new traces with the stored ones from the first of them on."""
    timeline = stored.before()
    traces = sorted([*(trace for trace, _ in stored.traces), *new], key=lambda trace: trace.order)
    routes = timeline.follow(traces)
    route_of = {id(trace): route for trace, route in zip(traces, routes, strict=True) if route is not None}
    return _FollowedPath(path_id, stored, timeline, new, route_of)


def _store_routes(paths: Sequence[_FollowedPath]) -> None:
    """Store the routes, those of all paths that are new at once, and set `row_id` of all. A new route keeps the
    identifier of a stored one that it replaces."""
    added: list[tuple[TimelineRoute, RouteRow]] = []
    for path in paths:
        stored = path.stored
        replaced = [route for route in stored.routes if route.first_at >= stored.since]
        for route in path.timeline.routes:
            if route.row_id is None:
                same = next((old for old in replaced if is_compatible(old.route, route.route)), None)
                if same is not None:
                    route.row_id = same.row_id
                    replaced.remove(same)
        if replaced:
            RouteRow.objects.filter(pk__in=[route.row_id for route in replaced]).delete()
        before: Mapping[int | None, TimelineRoute] = {route.row_id: route for route in stored.routes}
        for route in path.timeline.routes:
            fields = {
                "number": route.number,
                "hops": route.hops,
                "learned_at": route.learned_at,
                "reached_at": route.reached_at,
                "first_at": route.first_at,
            }
            if route.row_id is None:
                added.append((route, RouteRow(path_id=path.path_id, **fields)))
            elif any(getattr(before[route.row_id], name) != value for name, value in fields.items()):
                RouteRow.objects.filter(pk=route.row_id).update(**fields)
    RouteRow.objects.bulk_create(row for _, row in added)
    for route, row in added:
        route.row_id = row.pk


def _store_periods(paths: Sequence[_FollowedPath]) -> None:
    """Store the periods: those that no longer exist are deleted first, then the ended ones, so that a flow never has
    two at present."""
    added = []
    for path in paths:
        stored = path.stored.periods
        periods = {
            (period.flow, period.since): period for period in [*path.timeline.ended, *path.timeline.present.values()]
        }
        gone = [row_id for key, (row_id, _) in stored.items() if key not in periods]
        if gone:
            PathRouteRow.objects.filter(pk__in=gone).delete()
        for key, period in periods.items():
            fields = {"route_id": period.route.row_id, "last_at": period.last_at, "until": period.until}
            if key not in stored:
                flow = {"protocol": period.flow.protocol, "flow": period.flow.number}
                added.append(PathRouteRow(path_id=path.path_id, since=period.since, **flow, **fields))
                continue
            row_id, old = stored[key]
            if (old.route.row_id, old.last_at, old.until) != tuple(fields.values()):
                PathRouteRow.objects.filter(pk=row_id).update(**fields)
    PathRouteRow.objects.bulk_create(added)


def _move_traces(paths: Sequence[_FollowedPath]) -> None:
    """Give stored traces that are on other routes now their identifiers."""
    moved = [
        (path, trace)
        for path in paths
        for trace, route_id in path.stored.traces
        if path.route_of[id(trace)].row_id != route_id
    ]
    if moved:
        _run(
            "move_traces",
            path_ids=[path.path_id for path, _ in moved],
            measured_at=[trace.at for _, trace in moved],
            protocols=[trace.flow.protocol for _, trace in moved],
            flows=[trace.flow.number for _, trace in moved],
            route_ids=[path.route_of[id(trace)].row_id for path, trace in moved],
        )


def _run(name: str, **parameters: Any) -> None:
    with connection.cursor() as cursor:
        cursor.execute(statement(name), parameters)
