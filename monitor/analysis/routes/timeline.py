"""Follow the routes of a path through its traces, in order of time.

In: traces of a path, each with its flow. Out: the distinct routes of the path, and the periods in which each flow took
them. A flow stays on its route while its traces are compatible with it; else it takes the first route of the path that
is compatible, or a new one. Load balancing over flows is no change of any flow.

Each hop of a route has the time from which it is known. So the state at any time in the past can be restored,
and a trace that comes late need only be followed from its own time on.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime
from typing import NamedTuple

from monitor.analysis.routes.compare import RouteHops, is_compatible


class Flow(NamedTuple):
    """Packets that load balancers treat alike: a protocol, and the flow's identifier in it."""

    protocol: str
    number: int


@dataclass(frozen=True, slots=True)
class RouteTrace:
    """The route that a trace of a flow showed at a time."""

    at: datetime
    flow: Flow
    route: RouteHops

    @property
    def order(self) -> tuple[datetime, Flow]:
        return self.at, self.flow


@dataclass(slots=True, eq=False)
class TimelineRoute:
    """A route of a path, filled in by its traces. `number` is its place among those of the path, in order of their
    first traces; `learned_at` the time of the trace from which each hop is known, `reached_at` that for the
    destination; `row_id` its identifier in the archive, None for a new route."""

    number: int
    first_at: datetime
    hops: list[str | None] = field(default_factory=list)
    learned_at: list[datetime | None] = field(default_factory=list)
    reached_at: datetime | None = None
    row_id: int | None = None

    @property
    def route(self) -> RouteHops:
        return RouteHops(tuple(self.hops), self.reached_at is not None)

    def learn(self, route: RouteHops, at: datetime) -> bool:
        """Fill in from a compatible route; returns whether anything was new."""
        is_new = False
        more = len(route.hops) - len(self.hops)
        if more > 0:
            self.hops += [None] * more
            self.learned_at += [None] * more
        for place, address in enumerate(route.hops):
            if address is not None and self.hops[place] is None:
                self.hops[place], self.learned_at[place], is_new = address, at, True
        if route.reached and self.reached_at is None:
            self.reached_at, is_new = at, True
        return is_new or more > 0

    def knew(self, route: RouteHops, before: datetime) -> bool:
        """Whether everything that a compatible route has was known before this time."""
        if len(route.hops) > len(self.hops) or (route.reached and not _is_before(self.reached_at, before)):
            return False
        return all(
            address is None or _is_before(learned_at, before)
            for address, learned_at in zip(route.hops, self.learned_at, strict=False)
        )

    def before(self, at: datetime) -> TimelineRoute:
        """This route with what was known of it before a time."""
        is_reached = _is_before(self.reached_at, at)
        hops = [
            hop if _is_before(learned, at) else None for hop, learned in zip(self.hops, self.learned_at, strict=True)
        ]
        while hops and hops[-1] is None and not is_reached:
            hops.pop()
        learned_at = [learned if hop is not None else None for hop, learned in zip(hops, self.learned_at, strict=False)]
        reached_at = self.reached_at if is_reached else None
        return TimelineRoute(self.number, self.first_at, hops, learned_at, reached_at, self.row_id)


@dataclass(slots=True, eq=False)
class FlowPeriod:
    """A flow's uninterrupted time on a route: its first trace there, its last, and the first on the next route."""

    flow: Flow
    route: TimelineRoute
    since: datetime
    last_at: datetime
    until: datetime | None = None


@dataclass(slots=True)
class Timeline:
    """The routes of a path by number, and the period that each flow is in;
    `ended` are periods that ended while the traces were followed."""

    routes: list[TimelineRoute] = field(default_factory=list)
    present: dict[Flow, FlowPeriod] = field(default_factory=dict)
    ended: list[FlowPeriod] = field(default_factory=list)

    def follow(self, traces: Iterable[RouteTrace]) -> list[TimelineRoute | None]:
        """Advance through traces in order of time, all later than those before. Returns the route of each; None for
        a trace that shows no hop."""
        return [None if trace.route.is_unknown else self._advance(trace) for trace in traces]

    def _advance(self, trace: RouteTrace) -> TimelineRoute:
        period = self.present.get(trace.flow)
        if period is None or not is_compatible(trace.route, period.route.route):
            if period is not None:
                period.until = trace.at
                self.ended.append(period)
            period = FlowPeriod(trace.flow, self._route_of(trace), trace.at, trace.at)
            self.present[trace.flow] = period
        period.route.learn(trace.route, trace.at)
        period.last_at = trace.at
        return period.route

    def _route_of(self, trace: RouteTrace) -> TimelineRoute:
        for route in self.routes:
            if is_compatible(trace.route, route.route):
                return route
        number = self.routes[-1].number + 1 if self.routes else 1
        route = TimelineRoute(number, first_at=trace.at)
        self.routes.append(route)
        return route


def _is_before(learned_at: datetime | None, at: datetime) -> bool:
    return learned_at is not None and learned_at < at
