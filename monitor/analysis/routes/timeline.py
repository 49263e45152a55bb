"""Follow the routes of each flow of a path through its traces: periods on one route, and the distinct routes.

A trace is compared with its own flow alone, silent hops as unknown (Shao and others, "One-to-One Matching of RTT and
Path Changes", ITC 29, 2017).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from itertools import zip_longest
from typing import NamedTuple

from monitor.analysis.routes.compare import RouteHops, is_compatible


class Flow(NamedTuple):
    """Packets that load balancers treat alike."""

    protocol: str
    number: int  # identifier of the flow in its protocol


@dataclass(frozen=True, slots=True)
class RouteTrace:
    at: datetime
    flow: Flow
    route: RouteHops

    @property
    def order(self) -> tuple[datetime, Flow]:
        return self.at, self.flow


@dataclass(slots=True)
class KnownHops:
    """Hops of a route known from compatible traces."""

    hops: list[str | None] = field(default_factory=list)
    learned_at: list[datetime | None] = field(default_factory=list)  # the first trace with each hop
    reached_at: datetime | None = None  # the first trace that reached the destination

    @property
    def route(self) -> RouteHops:
        return RouteHops(tuple(self.hops), self.reached_at is not None)

    def learn(self, route: RouteHops, at: datetime) -> None:
        """Fill in from a compatible trace, later than all before."""
        learned_at = [None if address is None else at for address in route.hops]
        self.add(KnownHops(list(route.hops), learned_at, at if route.reached else None))

    def add(self, other: KnownHops) -> None:
        """Fill in from compatible hops, with the earlier time of each."""
        both = zip_longest(self.hops, other.hops)
        self.hops = [mine if mine is not None else theirs for mine, theirs in both]
        times = zip_longest(self.learned_at, other.learned_at)
        self.learned_at = [_earlier(mine, theirs) for mine, theirs in times]
        self.reached_at = _earlier(self.reached_at, other.reached_at)

    def knows(self, route: RouteHops) -> bool:
        """Whether a compatible trace adds nothing."""
        return (
            len(route.hops) <= len(self.hops)
            and (self.reached_at is not None or not route.reached)
            and all(address is None or known is not None for address, known in zip(route.hops, self.hops, strict=False))
        )

    def knew(self, route: RouteHops, before: datetime) -> bool:
        """Whether a compatible trace shows only hops that were known before this time."""
        if len(route.hops) > len(self.hops) or (route.reached and not _is_before(self.reached_at, before)):
            return False
        return all(
            address is None or _is_before(learned_at, before)
            for address, learned_at in zip(route.hops, self.learned_at, strict=False)
        )

    def before(self, at: datetime) -> KnownHops:
        is_reached = _is_before(self.reached_at, at)
        hops = [
            hop if _is_before(learned, at) else None for hop, learned in zip(self.hops, self.learned_at, strict=True)
        ]
        while hops and hops[-1] is None and not is_reached:
            hops.pop()
        learned_at = [learned if hop is not None else None for hop, learned in zip(hops, self.learned_at, strict=False)]
        return KnownHops(hops, learned_at, self.reached_at if is_reached else None)


@dataclass(slots=True, eq=False)
class TimelineRoute:
    number: int  # in order of first traces on the path
    first_at: datetime
    known: KnownHops = field(default_factory=KnownHops)
    row_id: int | None = None  # in the archive; None for a new route

    def before(self, at: datetime) -> TimelineRoute:
        return TimelineRoute(self.number, self.first_at, self.known.before(at), self.row_id)


class Contradiction(NamedTuple):
    """Where a trace contradicts a known route: at hops, by their TTL, or in the place of the destination."""

    ttls: tuple[int, ...]
    at_end: bool


def find_contradiction(known: RouteHops, route: RouteHops) -> Contradiction:
    """Compare a trace's hops with those that earlier traces showed."""
    ttls = tuple(
        ttl
        for ttl, address in enumerate(known.hops, 1)
        if address is not None
        and (route.reached if ttl > len(route.hops) else route.hops[ttl - 1] not in (None, address))
    )
    at_end = len(route.hops) > len(known.hops) or (route.reached and len(route.hops) != len(known.hops))
    return Contradiction(ttls, at_end)


@dataclass(slots=True)
class Sightings:
    """The last trace of a period that showed each hop, and the last that reached the destination."""

    hops_at: list[datetime | None] = field(default_factory=list)
    reached_at: datetime | None = None

    def take(self, trace: RouteTrace) -> None:
        self.hops_at += [None] * (len(trace.route.hops) - len(self.hops_at))
        for place, address in enumerate(trace.route.hops):
            if address is not None:
                self.hops_at[place] = trace.at
        if trace.route.reached:
            self.reached_at = trace.at

    def last_against(self, contradiction: Contradiction) -> datetime | None:
        """When a trace last showed a contradicted hop, or the end; None if no trace that was followed did."""
        shown_at = [self.hops_at[ttl - 1] for ttl in contradiction.ttls if ttl <= len(self.hops_at)]
        if contradiction.at_end:
            shown_at.append(self.reached_at)
        return max((at for at in shown_at if at is not None), default=None)


@dataclass(slots=True, eq=False)
class FlowPeriod:
    """A flow's uninterrupted time on a route."""

    flow: Flow
    since: datetime  # first trace there
    # The last trace there; once ended, the last that contradicts the trace at `until`: the flow may have left before a
    # trace that was silent where the routes differ.
    last_at: datetime
    shown: KnownHops = field(default_factory=KnownHops)  # by its own traces
    until: datetime | None = None  # first trace elsewhere
    route: TimelineRoute | None = None
    sightings: Sightings = field(default_factory=Sightings)
    undated: Contradiction | None = None  # the contradiction that ended it, if no trace can date it

    def take(self, trace: RouteTrace) -> None:
        if not self.shown.knows(trace.route):
            self.shown.learn(trace.route, trace.at)
        self.sightings.take(trace)
        self.last_at = trace.at

    def end(self, trace: RouteTrace) -> None:
        self.until = trace.at
        contradiction = find_contradiction(self.shown.route, trace.route)
        contradicted_at = self.sightings.last_against(contradiction)
        if contradicted_at is None:
            self.undated = contradiction
        else:
            self.last_at = contradicted_at


@dataclass(slots=True)
class Timeline:
    """The current period of each flow of a path."""

    present: dict[Flow, FlowPeriod] = field(default_factory=dict)
    ended: list[FlowPeriod] = field(default_factory=list)  # while the traces were followed

    @property
    def periods(self) -> list[FlowPeriod]:
        return [*self.ended, *self.present.values()]

    def follow(self, traces: Iterable[RouteTrace]) -> list[FlowPeriod | None]:
        """Advance through traces in order, all later than those before. Returns the period of each; None for a trace
        without hops."""
        return [None if trace.route.is_unknown else self._advance(trace) for trace in traces]

    def _advance(self, trace: RouteTrace) -> FlowPeriod:
        period = self.present.get(trace.flow)
        if period is not None and not is_compatible(trace.route, period.shown.route):
            period.end(trace)
            self.ended.append(period)
            period = None
        if period is None:
            period = self.present[trace.flow] = FlowPeriod(trace.flow, trace.at, trace.at)
        period.take(trace)
        return period


def find_routes(earlier: Sequence[TimelineRoute], periods: Collection[FlowPeriod]) -> list[TimelineRoute]:
    """Give periods, in order of start, the first compatible route or a new one; return all routes by number. Fills in
    `earlier` routes."""
    routes = list(earlier)
    for period in sorted(periods, key=lambda period: (period.since, period.flow)):
        shown = period.shown.route
        route = next((route for route in routes if is_compatible(shown, route.known.route)), None)
        if route is None:
            number = routes[-1].number + 1 if routes else 1
            route = TimelineRoute(number, first_at=period.since)
            routes.append(route)
        route.known.add(period.shown)
        period.route = route
    return routes


def _earlier(first: datetime | None, second: datetime | None) -> datetime | None:
    return min((at for at in (first, second) if at is not None), default=None)


def _is_before(learned_at: datetime | None, at: datetime) -> bool:
    return learned_at is not None and learned_at < at
