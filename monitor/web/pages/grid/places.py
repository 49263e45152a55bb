"""First page of many sites: groups or regions as rows and columns."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from datetime import datetime
from html import escape
from typing import Any
from urllib.parse import urlencode

from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.shortcuts import render
from django.urls import reverse
from django.utils.safestring import SafeString, mark_safe

from monitor.alerts.incidents.queries import lasting_and_over
from monitor.analysis import figures
from monitor.archive.queries.metrics import Metric
from monitor.mesh.models import Mesh, Site
from monitor.overview.grid import Grid
from monitor.overview.measures import MetricChoice, MetricFormat
from monitor.overview.wide.losses import BAD_FROM, PairCell, PlaceGrid, load_place_grid
from monitor.overview.wide.places import SitePlaces, load_places
from monitor.web.pages.grid import legend
from monitor.web.pages.grid.below import below_grid
from monitor.web.pages.grid.cells import cell_style, cell_text, measure_of_grid, sentence, signs
from monitor.web.pages.grid.matrix import LEFT_OUT, marks_html
from monitor.web.request import parameters
from monitor.web.request.grid_choices import (
    chosen_metric,
    chosen_packet_bytes,
    chosen_places,
    options_of_metric,
    unknown_as_404,
)

# Rows and columns; of more places those with the most bad paths are shown.
MOST_PLACES = 40
# Of a grid of sites.
MOST_CELLS = 300 * 300
OF_LIST = ("from", "to", "group", "name", "paths")
# Choices that only a grid of sites has.
OF_SITES = ("order", "fold", "group", "name", "paths", "cells", "period", "against")


def wide_page(request: HttpRequest, places: SitePlaces, now: datetime) -> HttpResponse | None:
    """Return None where the address chooses a grid of sites that can be drawn."""
    if not shows_places(request, places):
        return None
    wants_list = request.GET.get("order") == "list" or any(request.GET.get(name) for name in OF_LIST)
    if wants_list or len(places.names) == 1:
        return HttpResponseRedirect(f"{reverse('paths')}?{_of_list(request)}")
    return _place_page(request, places, now)


def shows_sites(request: HttpRequest) -> bool:
    """Whether the address chooses a grid of sites that can be drawn."""
    places = load_places()
    return places is None or not shows_places(request, places)


def shows_places(request: HttpRequest, places: SitePlaces, most_cells: int | None = None) -> bool:
    """Whether the address chooses no grid of sites, or more than `most_cells`."""
    number = _rows_and_columns(request, places)
    return number is None or number > (MOST_CELLS if most_cells is None else most_cells)


def reverse_query(request: HttpRequest) -> str:
    """Query with source and destination exchanged; empty without them."""
    between = chosen_places(request)
    if between is None:
        return ""
    others = {name: values for name, values in parameters.kept(request).items() if name not in ("from", "to")}
    return urlencode({**others, "from": between[1], "to": between[0]}, doseq=True)


def _rows_and_columns(request: HttpRequest, places: SitePlaces) -> int | None:
    between = chosen_places(request)
    if between is not None:
        # An unknown name has no cell, and its grid tells which there are.
        return len(places.sites_of(between[0]) or ()) * len(places.sites_of(between[1]) or ())
    if request.GET.get("group"):
        return Site.objects.in_use().filter(groups__name=request.GET["group"], groups__retired_at=None).count() ** 2
    if len(places.names) > 1 and not any(name in request.GET for name in OF_SITES):
        return None
    return len(places.number_of) ** 2


def _of_list(request: HttpRequest) -> str:
    chosen = {name: request.GET[name] for name in ("from", "to", "name", "size") if request.GET.get(name)}
    if request.GET.get("group"):
        chosen |= {"from": request.GET["group"], "to": request.GET["group"]}
    return urlencode({**chosen, **({"paths": "bad"} if request.GET.get("paths") == "problems" else {})})


def load_chosen_places(request: HttpRequest, places: SitePlaces, now: datetime) -> PlaceGrid:
    """Raises Http404 for an unknown choice."""
    with unknown_as_404():
        return load_place_grid(places, chosen_packet_bytes(request), now, chosen_metric(request).metric)


def totals(shown: PlaceGrid) -> dict[str, Any]:
    cells = shown.cells.values()
    bad = sum(cell.bad for cell in cells)
    return {
        "sites": len(shown.places.number_of),
        "paths": sum(cell.paths for cell in cells),
        "bad": bad,
        "bad_words": _bad_words(shown, bad),
        "unmeasured": sum(cell.paths - cell.measured for cell in cells),
        "with_incident": sum(cell.with_incident for cell in cells),
        "over": len(lasting_and_over(shown.grid.open_incidents)[1]),
    }


def _bad_words(shown: PlaceGrid, number: int) -> str:
    if not shown.counts_bad:
        return ""
    metric, verb, bound = shown.grid.metric, ("is", "are"), "in trouble"
    if metric is Metric.UNREACHABILITY:
        verb, bound = ("was", "were"), f"unreachable for {figures.percent(BAD_FROM[metric])} of the time or more"
    elif metric is Metric.MOS:
        verb, bound = ("has", "have"), f"a MOS below {BAD_FROM[metric]:g}"
    return f"{verb[number != 1]} {bound}"


def _place_page(request: HttpRequest, places: SitePlaces, now: datetime) -> HttpResponse:
    shown = load_chosen_places(request, places, now)
    grid = shown.grid
    measure = measure_of_grid(grid)
    numbers = numbers_shown(shown)
    sizes = [(f"{size} B", size) for size in grid.packet_sizes]
    context = {
        "mesh": Mesh.objects.first(),
        "now": now,
        "shown": shown,
        "grid": grid,
        "title": measure.title,
        "metrics": options_of_metric(request),
        "sizes": parameters.options(request, "size", sizes, grid.packet_bytes),
        "kind": places.kind,
        **totals(shown),
        "bad_of_many": _bad_words(shown, 2),
        "heads": [(places.names[number], places.sites[number]) for number in numbers],
        "left_out": len(places.names) - len(numbers),
        "body": _body_html(shown, measure, numbers),
        "legend": legend.legend(grid, measure),
        **below_grid(now, len(grid.open_incidents)),
    }
    return render(request, "pages/grid/places.html", context)


def numbers_shown(shown: PlaceGrid) -> list[int]:
    everything = range(len(shown.places.names))
    if len(everything) <= MOST_PLACES:
        return list(everything)
    bad = dict.fromkeys(everything, 0)
    for ends, cell in shown.cells.items():
        for number in set(ends):
            bad[number] += cell.bad
    return sorted(sorted(everything, key=lambda number: -bad[number])[:MOST_PLACES])


def cell_query(grid: Grid) -> dict[str, Any]:
    size = {} if grid.packet_bytes is None else {"size": grid.packet_bytes}
    metric = {choice.metric: choice for choice in MetricChoice}[grid.metric]
    return {"period": grid.period, **size, **({} if metric is MetricChoice.LOSS else {"metric": metric})}


def _body_html(shown: PlaceGrid, measure: MetricFormat, numbers: Iterable[int]) -> SafeString:
    # All names from the mesh are escaped here.
    names, kept, rows = shown.places.names, cell_query(shown.grid), []
    for source in numbers:
        cells = []
        for to in numbers:
            query = urlencode({"from": names[source], "to": names[to], **kept})
            is_there = (source, to) in shown.cells
            cells.append(_cell_html(shown, measure, source, to, query) if is_there else LEFT_OUT)
        rows.append(f'<tr><th scope="row">{escape(names[source])}</th>{"".join(cells)}</tr>')
    return mark_safe("\n".join(rows))


def _cell_html(shown: PlaceGrid, measure: MetricFormat, source: int, to: int, query: str) -> str:
    grid, cell = shown.grid, shown.cells[source, to]
    style = cell_style(grid, measure, cell.worst) + (" incident" if cell.with_incident else "")
    marks = marks_html(pair_signs(grid, cell))
    unmeasured = cell.paths - cell.measured
    few = f"{cell.bad:,} of {cell.paths:,}" if shown.counts_bad else f"{cell.paths:,}"
    few += f", {unmeasured:,} –" if unmeasured else ""
    return (
        f'<td class="{style}"><a href="?{escape(query)}" aria-label="{escape(pair_sentence(shown, source, to))}">'
        f"<span>{marks}{escape(cell_text(grid, cell.worst))}<small>{few}</small></span></a></td>"
    )


def pair_signs(grid: Grid, cell: PairCell) -> Iterator[tuple[str, str]]:
    """Signs of the worst path, and of an open incident on any."""
    return signs(grid, replace(cell.worst, incident_id=cell.incident_id))


def pair_sentence(shown: PlaceGrid, source: int, to: int) -> str:
    cell, names = shown.cells[source, to], shown.places.names
    paths = f"{cell.paths:,} {'path' if cell.paths == 1 else 'paths'}"
    many = f"{cell.bad:,} of {paths} {_bad_words(shown, cell.bad)}" if shown.counts_bad else paths
    parts = [f"{names[source]} to {names[to]}: {many}"]
    if cell.with_incident:
        parts.append(f"{cell.with_incident:,} with an open incident")
    if cell.paths > cell.measured:
        parts.append(f"{cell.paths - cell.measured:,} not measured")
    return f"{', '.join(parts)}; the worst: {sentence(shown.grid, cell.worst)}"
