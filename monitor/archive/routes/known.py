"""Read the routes of paths as the state that `monitor.analysis.routes.timeline` advances."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime

from monitor.analysis.routes.compare import RouteHops, trimmed
from monitor.analysis.routes.timeline import (
    Flow,
    FlowPeriod,
    KnownHops,
    RouteTrace,
    Timeline,
    TimelineRoute,
)
from monitor.archive.statements import run_statement, statement
from monitor.prepared import array_text, run_prepared

PeriodKey = tuple[Flow, datetime]


@dataclass(slots=True)
class PresentRoutes:
    """Present period of each flow of a path, with its identifier."""

    periods: dict[Flow, FlowPeriod] = field(default_factory=dict)
    ids: dict[Flow, int] = field(default_factory=dict)


@dataclass(slots=True)
class StoredPeriod:
    row_id: int
    route_id: int
    period: FlowPeriod

    def before(self, at: datetime) -> FlowPeriod:
        """The period as it was just before a time."""
        period = self.period
        last_at = period.last_at if period.last_at < at else period.since
        return FlowPeriod(period.flow, period.since, last_at, period.shown.before(at))


@dataclass(slots=True)
class StoredRoutes:
    """Stored routes and periods of a path that a trace from `since` on can change."""

    since: datetime
    routes: list[TimelineRoute] = field(default_factory=list)
    # that reach or follow `since`, by flow and begin
    periods: dict[PeriodKey, StoredPeriod] = field(default_factory=dict)
    # from `since` on, with their routes' identifiers
    traces: list[tuple[RouteTrace, int]] = field(default_factory=list)

    def before(self) -> Timeline:
        reaching = (stored for (_, begun_at), stored in self.periods.items() if begun_at < self.since)
        return Timeline({stored.period.flow: stored.before(self.since) for stored in reaching})

    def routes_before(self, begun_at: datetime) -> list[TimelineRoute]:
        """Routes of periods begun before a time, with all they showed. These periods must have been read."""
        routes = {route.row_id: route.before(begun_at) for route in self.routes if route.first_at < begun_at}
        for (_, since), stored in self.periods.items():
            if since < begun_at:
                routes[stored.route_id].known.add(stored.period.shown)
        return list(routes.values())

    def ended_periods(self, begun_at: datetime) -> list[FlowPeriod]:
        return [
            replace(stored.period)
            for (_, since), stored in self.periods.items()
            if since >= begun_at and stored.period.until is not None and stored.period.until < self.since
        ]


def present_routes(path_ids: Collection[int]) -> dict[int, PresentRoutes]:
    wanted = {"path_ids": array_text(path_ids)}
    rows = run_prepared(statement("present_routes"), wanted, is_binary=True).fetchall()
    present: dict[int, PresentRoutes] = defaultdict(PresentRoutes)
    routes: dict[int, TimelineRoute] = {}
    for path_id, protocol, number, period_id, since, last_at, learned_at, reached_at, route_id, *rest in rows:
        if route_id not in routes:
            routes[route_id] = _route(route_id, *rest)
        flow = Flow(protocol, number)
        shown = _shown(routes[route_id], learned_at, reached_at)
        period = FlowPeriod(flow, since, last_at, shown, route=routes[route_id])
        present[path_id].periods[flow] = period
        present[path_id].ids[flow] = period_id
    return present


def stored_routes(since_of: Mapping[int, datetime]) -> dict[int, StoredRoutes]:
    stored = {path_id: StoredRoutes(since) for path_id, since in since_of.items()}
    late = {"path_ids": list(since_of), "since": list(since_of.values()), "first": min(since_of.values())}
    by_row: dict[int, TimelineRoute] = {}
    for path_id, row_id, *rest in run_prepared(
        statement("routes_of_paths"), {"path_ids": array_text(since_of)}, is_binary=True
    ).fetchall():
        by_row[row_id] = _route(row_id, *rest)
        stored[path_id].routes.append(by_row[row_id])
    read_periods(stored, since_of)
    for path_id, at, protocol, flow_number, route_id, length, unknown_ttls, reached in run_statement(
        "traces_since", **late
    )[1]:
        route = traced_route(by_row[route_id].known.hops, length, unknown_ttls, reached=reached)
        stored[path_id].traces.append((RouteTrace(at, Flow(protocol, flow_number), route), route_id))
    return stored


def read_periods(stored: Mapping[int, StoredRoutes], since_of: Mapping[int, datetime]) -> None:
    """Add unread periods that reach or follow a time."""
    times = {"path_ids": array_text(since_of), "since": array_text(since_of.values())}
    routes = {route.row_id: route for path_id in since_of for route in stored[path_id].routes}
    for row in run_prepared(statement("periods_reaching"), times, is_binary=True).fetchall():
        path_id, protocol, flow_number, row_id, route_id, since, last_at, until, *learned = row
        flow = Flow(protocol, flow_number)
        period = FlowPeriod(flow, since, last_at, _shown(routes[route_id], *learned), until, routes[route_id])
        stored[path_id].periods.setdefault((flow, since), StoredPeriod(row_id, route_id, period))


def traced_route(hops: list[str | None], length: int, unknown_ttls: list[int] | None, *, reached: bool) -> RouteHops:
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
    return TimelineRoute(number, first_at, KnownHops(hops, learned_at, reached_at), row_id)


def _shown(route: TimelineRoute, learned_at: list[datetime | None] | None, reached_at: datetime | None) -> KnownHops:
    known = route.known
    if learned_at is None:
        return KnownHops(list(known.hops), list(known.learned_at), known.reached_at)
    hops = [hop if learned is not None else None for hop, learned in zip(known.hops, learned_at, strict=False)]
    return KnownHops(hops, learned_at, reached_at)
