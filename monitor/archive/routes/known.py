"""Read the routes of paths from the archive as the state that `monitor.analysis.routes.timeline` advances."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from datetime import datetime

from monitor.analysis.routes.compare import RouteHops, trimmed
from monitor.analysis.routes.timeline import Flow, FlowPeriod, RouteTrace, Timeline, TimelineRoute
from monitor.archive.statements import run_statement, statement
from monitor.prepared import array_text, run_prepared


@dataclass(slots=True)
class PresentRoutes:
    """The present period of each flow of a path, with its identifier."""

    periods: dict[Flow, FlowPeriod] = field(default_factory=dict)
    ids: dict[Flow, int] = field(default_factory=dict)

    @property
    def newest(self) -> tuple[datetime, Flow] | None:
        """The last trace of the path, in the order of traces."""
        return max(((period.last_at, flow) for flow, period in self.periods.items()), default=None)


@dataclass(slots=True)
class StoredRoutes:
    """The stored routes and periods of a path, as far as a trace from `since` on can change them.

    `periods` are those that reach `since` or begin later, by flow and beginning, with their identifiers; `traces` those
    from `since` on, with the identifiers of their routes.
    """

    since: datetime
    routes: list[TimelineRoute] = field(default_factory=list)
    periods: dict[tuple[Flow, datetime], tuple[int, FlowPeriod]] = field(default_factory=dict)
    last_before: dict[tuple[Flow, datetime], datetime] = field(default_factory=dict)
    traces: list[tuple[RouteTrace, int]] = field(default_factory=list)

    def before(self) -> Timeline:
        """The state just before `since`."""
        routes = {route.row_id: route.before(self.since) for route in self.routes if route.first_at < self.since}
        timeline = Timeline(list(routes.values()))
        for (flow, begun_at), (_, period) in self.periods.items():
            if begun_at < self.since:
                route = routes[period.route.row_id]
                last_at = self.last_before.get((flow, begun_at), begun_at)
                timeline.present[flow] = FlowPeriod(flow, route, begun_at, last_at)
        return timeline


def present_routes(path_ids: Collection[int]) -> dict[int, PresentRoutes]:
    """The present periods of these paths; paths without a trace are left out."""
    wanted = {"path_ids": array_text(path_ids)}
    rows = run_prepared(statement("present_routes"), wanted, is_binary=True).fetchall()
    present: dict[int, PresentRoutes] = defaultdict(PresentRoutes)
    routes: dict[int, TimelineRoute] = {}
    for path_id, protocol, number, period_id, since, last_at, route_id, *rest in rows:
        if route_id not in routes:
            routes[route_id] = _route(route_id, *rest)
        flow = Flow(protocol, number)
        present[path_id].periods[flow] = FlowPeriod(flow, routes[route_id], since, last_at)
        present[path_id].ids[flow] = period_id
    return present


def stored_routes(since_of: Mapping[int, datetime]) -> dict[int, StoredRoutes]:
    """What is stored of each of these paths from a time on."""
    stored = {path_id: StoredRoutes(since) for path_id, since in since_of.items()}
    late = {"path_ids": list(since_of), "since": list(since_of.values()), "first": min(since_of.values())}
    by_row: dict[int, TimelineRoute] = {}
    for path_id, row_id, *rest in run_statement("routes_of_paths", path_ids=list(since_of))[1]:
        by_row[row_id] = _route(row_id, *rest)
        stored[path_id].routes.append(by_row[row_id])
    for row in run_statement("periods_reaching", path_ids=late["path_ids"], since=late["since"])[1]:
        path_id, protocol, flow_number, period_id, route_id, since, last_at, until, last_before = row
        flow = Flow(protocol, flow_number)
        period = FlowPeriod(flow, by_row[route_id], since, last_at, until)
        stored[path_id].periods[flow, since] = period_id, period
        if last_before is not None:
            stored[path_id].last_before[flow, since] = last_before
    for path_id, at, protocol, flow_number, route_id, length, unknown_ttls, reached in run_statement(
        "traces_since", **late
    )[1]:
        route = traced_route(by_row[route_id].hops, length, unknown_ttls, reached=reached)
        stored[path_id].traces.append((RouteTrace(at, Flow(protocol, flow_number), route), route_id))
    return stored


def traced_route(hops: list[str | None], length: int, unknown_ttls: list[int] | None, *, reached: bool) -> RouteHops:
    """The hops that a trace of this length saw of its route."""
    unknown = frozenset(unknown_ttls or ())
    seen = [hop if ttl not in unknown else None for ttl, hop in enumerate(hops[:length], 1)]
    return trimmed(seen, reached=reached)


def _route(
    row_id: int,
    number: int,
    first_at: datetime,
    hops: list[str | None],
    learned_at: list[datetime | None],
    reached_at: datetime | None,
) -> TimelineRoute:
    return TimelineRoute(number, first_at, hops, learned_at, reached_at, row_id)
