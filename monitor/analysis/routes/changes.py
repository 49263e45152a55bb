"""Changes of route, told apart from load balancing.

In: traces in order of time, each with its flow identifier. Routers that balance load send different flows along
different routes, each flow always along the same. So the state of a path is a map from flow to route, and the route has
changed only where that map breaks. Out: segments of traces under the same map, and the changes between them.

The method is of Shao, Rougier, Paris, Devienne and Viste, "One-to-One Matching of RTT and Path Changes" (ITC 29, 2017,
arXiv 1709.04819), with silent hops as unknown: forward inclusion, backward extension, split and merge.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from monitor.analysis.routes.compare import RouteHops, is_compatible, merge

FlowMap = Mapping[int, RouteHops]

CYCLES = 2
"""A complete map is prevalent from this many traces times the number of flows."""
LEAST_SPLIT = 2
"""Traces of the shortest part of a segment that is split off for agreeing with a prevalent map."""


@dataclass(frozen=True, slots=True)
class FlowTrace:
    """A trace at a moment with the flow identifier of all its probes."""

    at: datetime
    flow: int
    route: RouteHops


@dataclass(frozen=True, slots=True)
class Segment:
    """Consecutive traces, by index of the first and the last, under the same map from flow to route."""

    first: int
    last: int
    routes: FlowMap

    @property
    def length(self) -> int:
        return self.last - self.first + 1


@dataclass(frozen=True, slots=True)
class SegmentChange:
    """A change of the route of `flow`, from `before` to `after`.

    It happened after the trace at `earliest`, the last that contradicts the map after the change, and by the trace at
    `latest`, the first that contradicts the map before it. `at` is the first trace of the new segment.
    """

    at: datetime
    earliest: datetime
    latest: datetime
    flow: int
    before: RouteHops
    after: RouteHops


def find_changes(traces: Sequence[FlowTrace]) -> list[SegmentChange]:
    """Changes of route, in order of time. Where the routes of several flows change, the first that shows it counts."""
    changes: list[SegmentChange] = []
    parts = segments(traces)
    current: Segment | None = None
    for part in parts:
        if current is None:
            current = part
            continue
        broken = _broken(current.routes, part.routes)
        if not broken:
            current = Segment(current.first, part.last, _united(current.routes, part.routes))
            continue
        changes.append(_change(traces, current, part, broken))
        current = part
    return changes


def segments(traces: Sequence[FlowTrace]) -> list[Segment]:
    """Segments after all three steps, in order of time."""
    flows = len({trace.flow for trace in traces})
    if flows < 2:
        return include_forward(traces)
    return split_and_merge(traces, extend_backward(traces, include_forward(traces), flows), flows)


def include_forward(traces: Sequence[FlowTrace]) -> list[Segment]:
    """Segments that end with the first trace that contradicts their map."""
    parts: list[Segment] = []
    first, routes = 0, dict[int, RouteHops]()
    for place, trace in enumerate(traces):
        if not _agrees(trace, routes):
            parts.append(Segment(first, place - 1, routes))
            first, routes = place, {}
        _include(trace, routes)
    if traces:
        parts.append(Segment(first, len(traces) - 1, routes))
    return parts


def extend_backward(traces: Sequence[FlowTrace], parts: Sequence[Segment], flows: int) -> list[Segment]:
    """Segments of prevalent maps begin as early as traces agree with them.

    Forward inclusion leaves the first traces of a new map in the old segment as long as their flows do not show it.
    """
    extended = list(parts)
    for place in range(len(extended) - 1):
        part, following = extended[place : place + 2]
        if not (_is_prevalent(following, flows) and following.length > part.length):
            continue
        first = following.first
        while first > part.first and _agrees(traces[first - 1], following.routes):
            first -= 1
        if first < following.first:
            extended[place] = _segment(traces, part.first, first - 1)
            extended[place + 1] = _segment(traces, first, following.last)
    return extended


def split_and_merge(traces: Sequence[FlowTrace], parts: Sequence[Segment], flows: int) -> list[Segment]:
    """Short segments split where a part of them agrees with a prevalent map, and joined with what agrees too.

    So a single deviating trace is a segment of its own and not the beginning of a long one.
    """
    prevalent = [part.routes for part in parts if _is_prevalent(part, flows)]
    split: list[Segment] = []
    for part in parts:
        inner = _longest_agreeing(traces, part, prevalent) if LEAST_SPLIT < part.length < CYCLES * flows else None
        if inner is None:
            split.append(part)
            continue
        bounds = [(part.first, inner[0] - 1), inner, (inner[1] + 1, part.last)]
        split.extend(_segment(traces, first, last) for first, last in bounds if first <= last)
    merged: list[Segment] = []
    for part in split:
        joined = _joined(traces, merged[-1], part, prevalent, flows) if merged else None
        if joined is None:
            merged.append(part)
        else:
            merged[-1] = joined
    return merged


def _joined(
    traces: Sequence[FlowTrace], part: Segment, following: Segment, prevalent: Sequence[FlowMap], flows: int
) -> Segment | None:
    if max(part.length, following.length) >= CYCLES * flows or _broken(part.routes, following.routes):
        return None
    joined = _segment(traces, part.first, following.last)
    return joined if any(not _broken(joined.routes, routes) for routes in prevalent) else None


def _longest_agreeing(
    traces: Sequence[FlowTrace], part: Segment, prevalent: Sequence[FlowMap]
) -> tuple[int, int] | None:
    """The longest run of traces within the segment that agree with a single prevalent map."""
    longest: tuple[int, int] | None = None
    for routes in prevalent:
        first = part.first
        for place in range(part.first, part.last + 2):
            if place <= part.last and _agrees(traces[place], routes):
                continue
            length = place - first
            if length >= LEAST_SPLIT and (longest is None or length > longest[1] - longest[0] + 1):
                longest = first, place - 1
            first = place + 1
    return None if longest == (part.first, part.last) else longest


def _is_prevalent(part: Segment, flows: int) -> bool:
    return part.length >= CYCLES * flows and len(part.routes) == flows


def _agrees(trace: FlowTrace, routes: FlowMap) -> bool:
    return trace.flow not in routes or is_compatible(routes[trace.flow], trace.route)


def _include(trace: FlowTrace, routes: dict[int, RouteHops]) -> None:
    mapped = routes.get(trace.flow)
    routes[trace.flow] = trace.route if mapped is None else merge(mapped, trace.route)


def _segment(traces: Sequence[FlowTrace], first: int, last: int) -> Segment:
    routes: dict[int, RouteHops] = {}
    for trace in traces[first : last + 1]:
        _include(trace, routes)
    return Segment(first, last, routes)


def _broken(before: FlowMap, after: FlowMap) -> list[int]:
    """The flows with other routes in both maps."""
    return [flow for flow in before.keys() & after.keys() if not is_compatible(before[flow], after[flow])]


def _united(before: FlowMap, after: FlowMap) -> FlowMap:
    both = dict(before)
    for flow, route in after.items():
        both[flow] = merge(before[flow], route) if flow in before else route
    return both


def _change(traces: Sequence[FlowTrace], before: Segment, after: Segment, broken: Sequence[int]) -> SegmentChange:
    def contradicting(places: range, routes: FlowMap) -> int | None:
        return next((place for place in places if not _agrees(traces[place], routes)), None)

    earliest = contradicting(range(before.last, before.first - 1, -1), after.routes)
    latest = contradicting(range(after.first, after.last + 1), before.routes)
    earliest = before.first if earliest is None else earliest
    latest = after.last if latest is None else latest
    flow = traces[latest].flow if traces[latest].flow in broken else broken[0]
    return SegmentChange(
        traces[after.first].at, traces[earliest].at, traces[latest].at, flow, before.routes[flow], after.routes[flow]
    )
