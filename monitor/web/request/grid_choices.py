"""The choices of pages that show a grid: metric, period, packet size, group, comparison."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from django.http import Http404, HttpRequest

from monitor.overview import measures
from monitor.overview.grid import ComparedPeriod, Grid, GridPeriod, UnknownChoice, load_grid
from monitor.overview.measures import MEASURES
from monitor.web.request import parameters

SHOWN: list[tuple[str, Any]] = [
    ("value", ""),
    ("vs last week", ComparedPeriod.WEEK),
    ("vs last year", ComparedPeriod.YEAR),
]
ENDS = ("since", "until", "zone")
GRID_PERIODS = (GridPeriod.NOW, GridPeriod.HOUR, GridPeriod.DAY, GridPeriod.WEEK)


def load_chosen_grid(request: HttpRequest, now: datetime) -> Grid:
    """The grid selected by the query string. Raises Http404 for an unknown choice."""
    period = parameters.choice(request, "period", GridPeriod, GridPeriod.NOW)
    try:
        return load_grid(
            _metric(request).metric,
            period,
            now,
            packet_bytes=chosen_packet_bytes(request),
            group=request.GET.get("group") or None,
            against=_against(request),
        )
    except UnknownChoice as error:
        raise Http404(str(error)) from error


def _against(request: HttpRequest) -> ComparedPeriod | None:
    return (
        parameters.choice(request, "against", ComparedPeriod, ComparedPeriod.WEEK)
        if request.GET.get("against")
        else None
    )


def _metric(request: HttpRequest) -> measures.MetricChoice:
    return parameters.choice(request, "metric", measures.MetricChoice, measures.MetricChoice.LOSS)


def chosen_packet_bytes(request: HttpRequest) -> int | None:
    """Packet size in the address, None without one. Raises Http404 if it is not a whole number."""
    given = request.GET.get("size")
    if given is None:
        return None
    if not (given.isascii() and given.isdigit() and len(given) <= 5):
        raise Http404(f"size={given}: give bytes of ICMP payload as a whole number, like size=100")
    return int(given)


def options_of_grid(request: HttpRequest, grid: Grid) -> dict[str, list[parameters.Option]]:
    """The rows of choices of a page that shows a grid."""
    metrics: list[tuple[str, Any]] = [(MEASURES[choice.metric].short, choice) for choice in measures.MetricChoice]
    return {
        "metrics": parameters.options(request, "metric", metrics, _metric(request)),
        "periods": parameters.options(request, "period", [(period, period) for period in GRID_PERIODS], grid.period),
        "sizes": parameters.options(
            request, "size", [(f"{size} B", size) for size in grid.packet_sizes], grid.packet_bytes
        ),
        "groups": _group_options(request, grid),
        "shown": parameters.options(request, "against", SHOWN, grid.against or ""),
    }


def _group_options(request: HttpRequest, grid: Grid) -> list[parameters.Option]:
    """All groups together, then each; nothing to choose where there is only one."""
    if len(grid.groups) < 2:
        return []
    labelled: list[tuple[str, Any]] = [("all groups", ""), *((name, name) for name in grid.groups)]
    return parameters.options(request, "group", labelled, grid.group or "")
