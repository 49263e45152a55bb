"""Routes of paths: over a period, at a moment, through a router, and their changes.

In: path ids and aware times, half open. Out: records. A flow of a path is on one route at a time; where load is
balanced, flows of a path are on different routes at the same time. A flow whose traces ended is on its last route:
`last_at` tells until when that was seen.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from monitor.analysis.routes.compare import RouteHops
from monitor.archive.statements import check_period, columns, optional_list, records, run_statement, select


@dataclass(frozen=True, slots=True)
class StoredRoute:
    """A route of a path, its `number` among those of the path. `hops` are addresses from TTL 1 on, None if never seen;
    the last is the destination where it was `reached`."""

    id: int
    path_id: int
    number: int
    hops: list[str | None]
    reached: bool
    first_at: datetime
    last_at: datetime | None

    @property
    def route(self) -> RouteHops:
        return RouteHops(tuple(self.hops), self.reached)


@dataclass(frozen=True, slots=True)
class RoutePeriod:
    """A period in which a flow was on a route: from its first trace there to the first on another, None for the present
    route. `last_at` is its last trace there, once it has ended the last that contradicts the next; `flow` is None where
    the traces had none."""

    path_id: int
    protocol: str
    flow: int | None
    since: datetime
    last_at: datetime
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
    """A pause in the traces of a flow, from the trace before it to the one after: the route is not known."""

    path_id: int
    protocol: str
    flow: int | None
    since: datetime
    until: datetime


@dataclass(frozen=True, slots=True)
class RouteChange:
    """A change of the route of a flow: after `last_before_at`, the last trace that contradicts the one at `at`, and by
    that, the first on the route after.

    `before_since` is the first trace after the change before it, `after_until` that of the change after it; None
    without such a change.
    """

    path_id: int
    protocol: str
    flow: int | None
    last_before_at: datetime
    at: datetime
    before_id: int
    before_hops: list[str | None]
    before_reached: bool
    after_id: int
    after_hops: list[str | None]
    after_reached: bool
    before_since: datetime | None
    after_until: datetime | None

    @property
    def before(self) -> RouteHops:
        return RouteHops(tuple(self.before_hops), self.before_reached)

    @property
    def after(self) -> RouteHops:
        return RouteHops(tuple(self.after_hops), self.after_reached)


@dataclass(frozen=True, slots=True)
class Passage:
    """A route that has a router at `ttl`, in the period in which a flow was on it."""

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
    """The periods of these paths that reach into a period, by path, flow and time."""
    check_period(since, until)
    return select(RoutePeriod, "routes_between", path_ids=list(path_ids), since=since, until=until)


def trace_gaps(path_ids: Sequence[int], since: datetime, until: datetime, least: timedelta) -> list[TraceGap]:
    """The pauses of at least this length between traces in a period, by path, flow and time."""
    check_period(since, until)
    return select(TraceGap, "trace_gaps", path_ids=list(path_ids), since=since, until=until, least=least)


def routes_at(path_ids: Sequence[int], at: datetime) -> dict[int, RoutePeriod]:
    """The route of each path at a moment: of several flows, that which was traced last before it. Paths without a trace
    by then are left out."""
    return {period.path_id: period for period in select(RoutePeriod, "routes_at", path_ids=list(path_ids), at=at)}


def changes_between(since: datetime, until: datetime, path_ids: Sequence[int] | None = None) -> list[RouteChange]:
    """The changes of route that began in a period, in order of time; of all paths by default."""
    check_period(since, until)
    return select(RouteChange, "route_changes", since=since, until=until, path_ids=optional_list(path_ids))


def paths_through(address: str, since: datetime, until: datetime) -> list[Passage]:
    """The periods within a period in which paths went through the router with this address, by path and time."""
    return paths_through_any([address], since, until)


def paths_through_any(addresses: Sequence[str], since: datetime, until: datetime) -> list[Passage]:
    """As `paths_through`, for any of these addresses: each route with the first of them on it."""
    check_period(since, until)
    return select(Passage, "paths_through", addresses=list(addresses), since=since, until=until)


def stored_routes(route_ids: Sequence[int]) -> dict[int, StoredRoute]:
    """Routes by their identifiers; those that do not exist are left out."""
    names, rows = run_statement("stored_routes", columns(StoredRoute), ids=list(route_ids))
    return {route.id: route for route in records(StoredRoute, names, rows)}
