"""Keep `route` and `path_route` while traces are stored, in any order and repeatedly, as if in time order.

Call within the batch's transaction, a path's traces sequentially.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from django.db import connection

from monitor.analysis.routes.compare import is_compatible
from monitor.analysis.routes.timeline import FlowPeriod, RouteTrace, Timeline, TimelineRoute, find_routes
from monitor.archive.models import PathRoute as PathRouteRow
from monitor.archive.models import Route as RouteRow
from monitor.archive.routes.known import PresentRoutes, StoredRoutes, present_routes, read_periods, stored_routes
from monitor.archive.statements import run_statement, statement
from monitor.prepared import array_text, run_prepared, text_array

PathTrace = tuple[int, RouteTrace]
NEVER = datetime.max.replace(tzinfo=UTC)


def keep_routes(traces: Sequence[PathTrace]) -> list[int | None]:
    """Store routes of new traces; return their identifiers, None without a hop."""
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
            route_ids[place] = _route(period).row_id
            last_at[present[path_id].ids[trace.flow]] = period.last_at
    if last_at:
        moved = {"ids": array_text(last_at), "last_at": list(last_at.values())}
        run_prepared(statement("move_last_traces"), moved)
    if changing:
        since_of = {path_id: traces[of_path[0]][1].at for path_id, of_path in changing.items()}
        stored = stored_routes(since_of)
        followed_paths = [
            _follow(path_id, stored[path_id], [traces[place][1] for place in places])
            for path_id, places in changing.items()
        ]
        _date_ends(followed_paths)
        if earlier := {path.path_id: path.found_from for path in followed_paths if path.found_from < path.stored.since}:
            read_periods(stored, earlier)
        for path in followed_paths:
            path.find_routes()
        _store_routes(followed_paths)
        _store_periods(followed_paths)
        _move_traces(followed_paths)
        for path in followed_paths:
            for place, trace in zip(changing[path.path_id], path.new, strict=True):
                route_ids[place] = path.route_id_of(trace)
    return route_ids


def _confirmed(present: PresentRoutes | None, traces: Sequence[RouteTrace]) -> list[FlowPeriod] | None:
    """Present periods, if all traces only confirm them; else None."""
    if present is None:
        return None
    periods = []
    for trace in traces:
        period = present.periods.get(trace.flow)
        if period is None or trace.at < period.since or not is_compatible(trace.route, period.shown.route):
            return None
        is_newest = trace.at > period.last_at
        if not (period.shown.knows(trace.route) if is_newest else period.shown.knew(trace.route, trace.at)):
            return None
        periods.append(period)
    for trace, period in zip(traces, periods, strict=True):
        period.last_at = max(period.last_at, trace.at)
    return periods


@dataclass(slots=True)
class _FollowedPath:
    """Stored routes of a path, and its timeline with new traces."""

    path_id: int
    stored: StoredRoutes
    timeline: Timeline
    new: Sequence[RouteTrace]
    period_of: Mapping[int, FlowPeriod]
    found_from: datetime  # begin of the first changed period: routes are found anew from there
    routes: list[TimelineRoute] = field(default_factory=list)
    periods: list[FlowPeriod] = field(default_factory=list)

    def find_routes(self) -> None:
        """Find routes and their periods; requires periods from `found_from` on."""
        self.routes = self.stored.routes_before(self.found_from)
        self.periods = [*self.stored.ended_periods(self.found_from), *self.timeline.periods]
        self.routes = find_routes(self.routes, [period for period in self.periods if period.since >= self.found_from])
        by_row = {route.row_id: route for route in self.routes}
        for period in self.periods:
            if period.since < self.found_from:
                period.route = by_row[self.stored.periods[period.flow, period.since].route_id]

    def route_id_of(self, trace: RouteTrace) -> int | None:
        return _route(self.period_of[id(trace)]).row_id


def _follow(path_id: int, stored: StoredRoutes, new: Sequence[RouteTrace]) -> _FollowedPath:
    timeline = stored.before()
    traces = sorted([*(trace for trace, _ in stored.traces), *new], key=lambda trace: trace.order)
    periods = timeline.follow(traces)
    period_of = {id(trace): period for trace, period in zip(traces, periods, strict=True) if period is not None}
    shown = {(period.flow, period.since): period.shown for period in timeline.periods}
    old = {key: before.period.shown for key, before in stored.periods.items()}
    changed = [key[1] for key in shown | old if shown.get(key) != old.get(key)]
    return _FollowedPath(path_id, stored, timeline, new, period_of, min(changed, default=NEVER))


def _date_ends(paths: Sequence[_FollowedPath]) -> None:
    """Find `last_at` of the ended periods that only traces before the new ones can date."""
    undated = [
        (path, period, period.undated) for path in paths for period in path.timeline.ended if period.undated is not None
    ]
    if not undated:
        return
    _, rows = run_statement(
        "last_against",
        path_ids=[path.path_id for path, _, _ in undated],
        protocols=[period.flow.protocol for _, period, _ in undated],
        flows=[period.flow.number for _, period, _ in undated],
        since=[period.since for _, period, _ in undated],
        before=[path.stored.since for path, _, _ in undated],
        taken_at=[period.last_at if period.last_at >= path.stored.since else None for path, period, _ in undated],
        ttls=[array_text(contradiction.ttls) for _, _, contradiction in undated],
        at_end=[contradiction.at_end for _, _, contradiction in undated],
    )
    for (_, period, _), (last_at,) in zip(undated, rows, strict=True):
        if last_at is not None:
            period.last_at = last_at


def _store_routes(paths: Sequence[_FollowedPath]) -> None:
    """Store the routes of all paths, and set `row_id` of all. A new route keeps the identifier of a stored one that it
    replaces."""
    added: list[tuple[int, TimelineRoute]] = []
    changed: list[TimelineRoute] = []
    gone: list[int] = []
    for path in paths:
        stored = path.stored
        replaced = [route for route in stored.routes if route.first_at >= path.found_from]
        before: Mapping[int | None, TimelineRoute] = {route.row_id: route for route in stored.routes}
        for route in path.routes:
            if route.row_id is None:
                same = next((old for old in replaced if is_compatible(old.known.route, route.known.route)), None)
                if same is not None:
                    route.row_id = same.row_id
                    replaced.remove(same)
            if route.row_id is None:
                added.append((path.path_id, route))
            elif _route_fields(before[route.row_id]) != _route_fields(route):
                changed.append(route)
        gone += [route.row_id for route in replaced if route.row_id is not None]
    if gone:
        RouteRow.objects.filter(pk__in=gone).delete()
    if changed:
        ids = [route.row_id for route in changed]
        run_prepared(statement("change_routes"), {"ids": ids, **_route_columns(changed)})
    if added:
        columns = _route_columns([route for _, route in added])
        path_ids = [path_id for path_id, _ in added]
        rows = run_prepared(statement("add_routes"), {"path_ids": path_ids, **columns}).fetchall()
        for (_, route), (row_id,) in zip(added, rows, strict=True):
            route.row_id = row_id


def _store_periods(paths: Sequence[_FollowedPath]) -> None:
    # Periods that no longer exist are deleted first, then come the ended ones, so that a flow never has two at present.
    kept: list[tuple[int, FlowPeriod]] = []
    gone = []
    for path in paths:
        stored = path.stored.periods
        keys = {(period.flow, period.since) for period in path.periods}
        gone += [old.row_id for key, old in stored.items() if key[1] >= path.stored.since and key not in keys]
        for period in path.periods:
            old = stored.get((period.flow, period.since))
            if old is None or _period_fields(period) != _period_fields(old.period):
                kept.append((path.path_id, period))
    if gone:
        PathRouteRow.objects.filter(pk__in=gone).delete()
    if not kept:
        return
    kept.sort(key=lambda of_path: of_path[1].until is None)
    parameters = {
        "path_ids": [path_id for path_id, _ in kept],
        "protocols": [period.flow.protocol for _, period in kept],
        "flows": [period.flow.number for _, period in kept],
        "since": [period.since for _, period in kept],
        "route_ids": [_route(period).row_id for _, period in kept],
        "last_at": [period.last_at for _, period in kept],
        "until": [period.until for _, period in kept],
        "learned_at": [array_text(period.shown.learned_at) for _, period in kept],
        "reached_at": [period.shown.reached_at for _, period in kept],
    }
    run_prepared(statement("keep_periods"), parameters)


def _move_traces(paths: Sequence[_FollowedPath]) -> None:
    moved = [
        (path, trace) for path in paths for trace, route_id in path.stored.traces if path.route_id_of(trace) != route_id
    ]
    if moved:
        _run(
            "move_traces",
            path_ids=[path.path_id for path, _ in moved],
            measured_at=[trace.at for _, trace in moved],
            protocols=[trace.flow.protocol for _, trace in moved],
            flows=[trace.flow.number for _, trace in moved],
            route_ids=[path.route_id_of(trace) for path, trace in moved],
        )
    earlier = [
        (path, period)
        for path in paths
        for period in path.periods
        if path.found_from <= period.since < path.stored.since
        and path.stored.periods[period.flow, period.since].route_id != _route(period).row_id
    ]
    if earlier:
        _run(
            "move_periods",
            path_ids=[path.path_id for path, _ in earlier],
            protocols=[period.flow.protocol for _, period in earlier],
            flows=[period.flow.number for _, period in earlier],
            since=[period.since for _, period in earlier],
            until=[min(period.until or path.stored.since, path.stored.since) for path, period in earlier],
            route_ids=[_route(period).row_id for _, period in earlier],
            first=min(period.since for _, period in earlier),
        )


def _route(period: FlowPeriod) -> TimelineRoute:
    if period.route is None:
        raise ValueError(f"the route of {period} has not been found")
    return period.route


def _route_fields(route: TimelineRoute) -> tuple[Any, ...]:
    return route.number, route.first_at, route.known


def _route_columns(routes: Sequence[TimelineRoute]) -> dict[str, list[Any]]:
    return {
        "numbers": [route.number for route in routes],
        "first_at": [route.first_at for route in routes],
        "hops": [text_array(route.known.hops) for route in routes],
        "learned_at": [array_text(route.known.learned_at) for route in routes],
        "reached_at": [route.known.reached_at for route in routes],
    }


def _period_fields(period: FlowPeriod) -> tuple[Any, ...]:
    shown = period.shown
    return _route(period).row_id, period.last_at, period.until, shown.learned_at, shown.reached_at


def _run(name: str, **parameters: Any) -> None:
    with connection.cursor() as cursor:
        cursor.execute(statement(name), parameters)
