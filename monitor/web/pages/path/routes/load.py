"""Load routes of the path page: details are of selected routes, else each direction's newest."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from django.http import HttpRequest
from django.utils.safestring import SafeString

from monitor.archive.queries.routes.flow_effects import newest_flow_effects
from monitor.archive.queries.routes.periods import RoutePeriod, TraceGap, routes_between, trace_gaps
from monitor.archive.queries.routes.traces import SHORTEST, StoredTrace, traces_between
from monitor.routes.places import of_addresses, sources
from monitor.web.charts.marks import TimeAxis
from monitor.web.charts.routes import Lane, RouteBand, route_strip
from monitor.web.pages.path.load import PathView
from monitor.web.pages.path.routes.difference import RouteComparison, compare_routes
from monitor.web.pages.path.routes.hops import HopTable, addresses_of, hop_table
from monitor.web.pages.path.routes.listing import RouteRow, route_rows, selected_ids
from monitor.web.request import times
from probes.trace.spec import FlowEffect

# Longest time of traces in a table of hops: the newest day along the route.
LONGEST_TABLE = timedelta(days=1)
# A route is shown for this long after its newest trace.
HOLD = timedelta(minutes=30)
# Longest time shown in which gaps between traces are looked for; in a longer one they would hardly be visible.
LONGEST_GAPS = timedelta(days=35)
# Lanes of a direction; flows with the most traces first.
MOST_LANES = 3


@dataclass(frozen=True, slots=True)
class FlowLine:
    """Whether load balancing changes RTT or loss."""

    direction: str
    text: str | None  # None if not measured
    grounds: str = ""  # statistics
    at: datetime | None = None


@dataclass(frozen=True, slots=True)
class PathRoutesView:
    strip: SafeString
    rows: tuple[RouteRow, ...]
    tables: tuple[HopTable, ...]
    comparison: RouteComparison | None
    has_as: bool
    has_selection: bool
    hidden_flows: int  # flows without a lane
    sources: tuple[str, ...]  # origin of the AS names, with date
    balancing: tuple[FlowLine, ...] = ()

    @property
    def has_reverse(self) -> bool:
        return any(row.is_reverse for row in self.rows)


def load_routes(request: HttpRequest, view: PathView) -> PathRoutesView:
    """Raises `Http404` for an invalid selection."""
    selected = selected_ids(request)
    path_ids = [view.path.pk] + ([] if view.reverse_path_id is None else [view.reverse_path_id])
    window = TimeAxis(view.charts.begins_at or view.since, view.until)
    periods = routes_between(path_ids, window.since, window.until)
    if not periods:
        return PathRoutesView(SafeString(""), (), (), None, False, False, 0, ())
    selected = [route_id for route_id in selected if any(period.route_id == route_id for period in periods)]
    detailed = _detailed(periods, path_ids, selected)
    traces = {period.route_id: _traces(period, window) for period in detailed}
    addresses = {hop for period in periods for hop in period.hops if hop is not None}
    names = of_addresses(sorted(addresses.union(*(addresses_of(of_route) for of_route in traces.values()))))
    rows = route_rows(request, view.path.pk, periods, selected, names)
    by_id = {row.id: row for row in rows}
    is_short = window.until - window.since <= LONGEST_GAPS
    gaps = trace_gaps(path_ids, window.since, window.until, HOLD) if is_short else []
    lanes, hidden = _lanes(periods, path_ids, by_id, window, gaps)
    has_as = any(name.asn is not None for name in names.values())
    return PathRoutesView(
        strip=route_strip(lanes, window),
        rows=tuple(rows),
        tables=tuple(hop_table(by_id[route_id], of_route, names) for route_id, of_route in traces.items()),
        comparison=compare_routes([by_id[route_id] for route_id in selected], names),
        has_as=has_as,
        has_selection=bool(selected),
        hidden_flows=hidden,
        sources=tuple(str(table) for table in sources()) if has_as else (),
        balancing=_balancing(path_ids, {period.path_id for period in periods}, window.until),
    )


def _balancing(path_ids: Sequence[int], traced: Collection[int], until: datetime) -> tuple[FlowLine, ...]:
    newest = newest_flow_effects(path_ids, until)
    lines = []
    for path_id in path_ids:
        direction = "forward" if path_id == path_ids[0] else "reverse"
        if path_id in newest:
            effect = newest[path_id].effect
            lines.append(FlowLine(direction, effect.text, _grounds(effect), newest[path_id].at))
        elif path_id in traced:
            lines.append(FlowLine(direction, None))
    return tuple(lines)


def _grounds(effect: FlowEffect) -> str:
    tests = [
        (name, value, critical)
        for name, value, critical in (
            ("RTT: Kruskal-Wallis H", effect.rtt_statistic, effect.rtt_critical),
            ("loss: χ²", effect.loss_statistic if effect.lost else None, effect.loss_critical),
        )
        if value is not None and critical is not None
    ]
    return "; ".join(f"{name} {value:.1f}, critical value {critical:.1f}" for name, value, critical in tests)


def _detailed(periods: Sequence[RoutePeriod], path_ids: Sequence[int], selected: Sequence[int]) -> list[RoutePeriod]:
    newest = sorted(periods, key=lambda period: period.last_at, reverse=True)
    if selected:
        return [next(period for period in newest if period.route_id == route_id) for route_id in selected]
    each = (next((period for period in newest if period.path_id == path_id), None) for path_id in path_ids)
    return [period for period in each if period is not None]


def _traces(period: RoutePeriod, window: TimeAxis) -> list[StoredTrace]:
    until = min(period.last_at + SHORTEST, window.until)
    since = max(window.since, until - LONGEST_TABLE)
    if since >= until:
        return []
    traces = traces_between(period.path_id, since, until)
    return [trace for trace in traces if trace.route_id == period.route_id]


def _lanes(
    periods: Sequence[RoutePeriod],
    path_ids: Sequence[int],
    rows: Mapping[int, RouteRow],
    window: TimeAxis,
    gaps: Sequence[TraceGap],
) -> tuple[list[Lane], int]:
    lanes, hidden = [], 0
    for path_id in path_ids:
        by_flow = defaultdict(list)
        for period in periods:
            if period.path_id == path_id:
                by_flow[period.protocol, period.flow].append(period)
        packed: list[list[RoutePeriod]] = []
        for of_flow in sorted(by_flow.values(), key=_length, reverse=True):
            free = next((lane for lane in packed if not _overlap(lane, of_flow)), None)
            if free is None:
                packed.append(list(of_flow))
            else:
                free += of_flow
        hidden += len(packed[MOST_LANES:])
        for place, lane in enumerate(packed[:MOST_LANES]):
            name = "" if place else "forward" if path_id == path_ids[0] else "reverse"
            lanes.append(
                Lane(name, [band for period in lane for band in _bands(period, rows[period.route_id], window, gaps)])
            )
    return lanes, hidden


def _length(of_flow: Sequence[RoutePeriod]) -> timedelta:
    return sum((period.last_at - period.since for period in of_flow), timedelta())


def _overlap(lane: Sequence[RoutePeriod], of_flow: Sequence[RoutePeriod]) -> bool:
    return any(period.since <= other.last_at and other.since <= period.last_at for period in lane for other in of_flow)


def _bands(period: RoutePeriod, row: RouteRow, window: TimeAxis, gaps: Sequence[TraceGap]) -> Iterator[RouteBand]:
    flow, since = (period.path_id, period.protocol, period.flow), period.since
    for gap in gaps:
        if (gap.path_id, gap.protocol, gap.flow) == flow and since <= gap.since and gap.until <= period.last_at:
            yield _band(replace(period, since=since, last_at=gap.since, until=gap.until), row, window)
            since = gap.until
    yield _band(replace(period, since=since), row, window)


def _band(period: RoutePeriod, row: RouteRow, window: TimeAxis) -> RouteBand:
    until = min(period.last_at + HOLD, window.until) if period.until is None else period.until
    return RouteBand(
        since=period.since,
        last_at=period.last_at,
        until=max(until, period.last_at),
        style=row.style,
        label=str(row.number),
        title=_title(period, row, until),
        query=row.query,
        is_selected=row.is_selected,
    )


def _title(period: RoutePeriod, row: RouteRow, until: datetime) -> str:
    end = "" if period.until is None else f", next trace {times.minute(until)}"
    parts = [f"{row.direction} route {row.number}: {row.hops_text}", row.as_path]
    parts.append(f"{times.span(period.since, period.last_at)}{end}")
    return "\n".join(part for part in parts if part)
