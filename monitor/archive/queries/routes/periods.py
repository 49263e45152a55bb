"""Routes of paths over a period, at a moment, or through a router, and their changes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from monitor.analysis.routes.compare import RouteHops
from monitor.archive.statements import check_period, columns, optional_list, records, run_statement, select


@dataclass(frozen=True, slots=True)
class StoredRoute:
    id: int
    path_id: int
    number: int  # among the path's routes
    hops: list[str | None]  # addresses from TTL 1 on, None if never seen
    reached: bool  # whether the last hop is the destination
    first_at: datetime
    last_at: datetime | None

    @property
    def route(self) -> RouteHops:
        return RouteHops(tuple(self.hops), self.reached)


@dataclass(frozen=True, slots=True)
class RoutePeriod:
    """Period of a flow on a route, until its first trace on another."""

    path_id: int
    protocol: str
    flow: int | None  # None for traces without flows
    since: datetime
    last_at: datetime  # last trace there; once ended, the last that contradicts the next
    until: datetime | None
    route_id: int
    number: int
    hops: list[str | None]
    reached: bool

    @property
    def route(self) -> RouteHops:
        return RouteHops(tuple(self.hops), self.reached)


@dataclass(frozen=True, slots=True)
class TraceGap:
    """Pause between two traces of a flow, with an unknown route."""

    path_id: int
    protocol: str
    flow: int | None
    since: datetime
    until: datetime


@dataclass(frozen=True, slots=True)
class RouteChange:
    path_id: int
    protocol: str
    flow: int | None
    last_before_at: datetime  # last trace that contradicts the trace at `at`
    at: datetime  # first trace that shows the new route
    before_id: int
    before_hops: list[str | None]
    before_reached: bool
    after_id: int
    after_hops: list[str | None]
    after_reached: bool
    before_since: datetime | None  # first trace after the previous change, if any
    after_until: datetime | None  # first trace after the next change, if any

    @property
    def before(self) -> RouteHops:
        return RouteHops(tuple(self.before_hops), self.before_reached)

    @property
    def after(self) -> RouteHops:
        return RouteHops(tuple(self.after_hops), self.after_reached)


@dataclass(frozen=True, slots=True)
class Passage:
    """Route with a router at `ttl`, and a flow's period on it."""

    path_id: int
    route_id: int
    ttl: int
    address: str
    protocol: str
    flow: int | None
    since: datetime
    last_at: datetime
    until: datetime | None


def routes_between(path_ids: Sequence[int], since: datetime, until: datetime) -> list[RoutePeriod]:
    """Periods that overlap [since, until), by path, flow and time."""
    check_period(since, until)
    return select(RoutePeriod, "routes_between", path_ids=list(path_ids), since=since, until=until)


def trace_gaps(path_ids: Sequence[int], since: datetime, until: datetime, least: timedelta) -> list[TraceGap]:
    """Pauses of at least this length between traces, by path, flow and time."""
    check_period(since, until)
    return select(TraceGap, "trace_gaps", path_ids=list(path_ids), since=since, until=until, least=least)


def routes_at(path_ids: Sequence[int], at: datetime) -> dict[int, RoutePeriod]:
    """Route of each traced path at a moment; of several flows, the flow traced last."""
    return {period.path_id: period for period in select(RoutePeriod, "routes_at", path_ids=list(path_ids), at=at)}


def changes_between(since: datetime, until: datetime, path_ids: Sequence[int] | None = None) -> list[RouteChange]:
    """Route changes that began in a period, by time; of all paths by default."""
    check_period(since, until)
    return select(RouteChange, "route_changes", since=since, until=until, path_ids=optional_list(path_ids))


def paths_through(address: str, since: datetime, until: datetime) -> list[Passage]:
    return paths_through_any([address], since, until)


def paths_through_any(addresses: Sequence[str], since: datetime, until: datetime) -> list[Passage]:
    """As `paths_through`, with the first of these addresses on each route."""
    check_period(since, until)
    return select(Passage, "paths_through", addresses=list(addresses), since=since, until=until)


def stored_routes(route_ids: Sequence[int]) -> dict[int, StoredRoute]:
    names, rows = run_statement("stored_routes", columns(StoredRoute), ids=list(route_ids))
    return {route.id: route for route in records(StoredRoute, names, rows)}
