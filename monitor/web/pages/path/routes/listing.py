"""Routes of a path, then of its reverse, newest first, with selecting queries."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import groupby

from django.http import Http404, HttpRequest, QueryDict

from monitor.analysis.routes.compare import RouteHops
from monitor.archive.queries.routes.periods import RoutePeriod
from monitor.routes.places import HopName
from monitor.web.pages.routes.parts import UNKNOWN_HOPS

LARGEST_ID = 2**63 - 1
MOST_SELECTED = 2
# Colours of routes; the label of each band has its number too.
PALETTE = 6


@dataclass(frozen=True, slots=True)
class RouteRow:
    """`query` selects or drops the route, as `action` says."""

    id: int
    path_id: int
    number: int
    is_reverse: bool
    route: RouteHops
    since: datetime
    last_at: datetime
    periods: int
    is_current: bool
    as_path: str
    query: str
    action: str
    is_selected: bool

    @property
    def direction(self) -> str:
        return "reverse" if self.is_reverse else "forward"

    @property
    def style(self) -> str:
        return route_style(self.number, self.is_reverse)

    @property
    def hops_text(self) -> str:
        hops, silent = len(self.route.hops), self.route.hops.count(None)
        text = f"{hops} hop{'' if hops == 1 else 's'}"
        text += f", {silent} unknown" if silent else ""
        return text if self.route.reached else f"{text}, destination not reached"


def route_style(number: int, is_reverse: bool) -> str:
    # Directions begin at different colours.
    return f"route-{(number - 1 + (PALETTE // 2 if is_reverse else 0)) % PALETTE}"


def selected_ids(request: HttpRequest) -> list[int]:
    given = list(dict.fromkeys(request.GET.getlist("route")))
    for text in given:
        if not (text.isascii() and text.isdigit() and len(text) <= 19 and 1 <= int(text) <= LARGEST_ID):
            raise Http404(f"route={text[:40]}: give the id of a route, as the list of routes has it")
    if len(given) > MOST_SELECTED:
        raise Http404("route: select two routes at most")
    return [int(text) for text in given]


def route_rows(
    request: HttpRequest,
    path_id: int,
    periods: Sequence[RoutePeriod],
    selected: Sequence[int],
    names: Mapping[str, HopName],
) -> list[RouteRow]:
    by_route = sorted(periods, key=lambda period: (period.route_id, period.since))
    rows = []
    for route_id, group in groupby(by_route, key=lambda period: period.route_id):
        of_route = list(group)
        newest = max(of_route, key=lambda period: period.last_at)
        rows.append(
            RouteRow(
                id=route_id,
                path_id=newest.path_id,
                number=newest.number,
                is_reverse=newest.path_id != path_id,
                route=newest.route,
                since=of_route[0].since,
                last_at=newest.last_at,
                periods=len(of_route),
                is_current=any(period.until is None for period in of_route),
                as_path=as_path(newest.hops, names),
                query=toggled(request, selected, route_id),
                action="hide" if route_id in selected else "compare" if selected else "hops",
                is_selected=route_id in selected,
            )
        )
    return sorted(rows, key=lambda row: (row.is_reverse, -row.last_at.timestamp(), row.number))


def as_path(hops: Iterable[str | None], names: Mapping[str, HopName]) -> str:
    """Text such as `AS 20965 GEANT → (unknown) → AS 513 CERN`, with silent hops between; empty if no AS is known."""
    texts: list[str] = []
    is_after_gap = False
    for hop in hops:
        text = None if hop is None or hop not in names else names[hop].as_text
        if text is None:
            is_after_gap = is_after_gap or hop is None
            continue
        if not texts or text != texts[-1]:
            texts += [UNKNOWN_HOPS, text] if texts and is_after_gap else [text]
        is_after_gap = False
    return " → ".join(texts)


def toggled(request: HttpRequest, selected: Sequence[int], route_id: int) -> str:
    """Select or drop the route; a third replaces the second."""
    if route_id in selected:
        left = [other for other in selected if other != route_id]
    else:
        left = [*selected[: MOST_SELECTED - 1], route_id]
    return with_routes(request, left)


def with_routes(request: HttpRequest, route_ids: Iterable[int]) -> str:
    query: QueryDict = request.GET.copy()
    query["tab"] = "routes"
    query.setlist("route", [str(route_id) for route_id in route_ids])
    return query.urlencode()
