"""The first page of a mesh of many sites: its groups, or regions, as rows and columns, each cell with the worst of the
paths between the two and the share of bad ones; a cell leads to the grid of their sites."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from html import escape
from typing import Any
from urllib.parse import urlencode

from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.shortcuts import render
from django.urls import reverse
from django.utils.safestring import SafeString, mark_safe

from monitor.analysis import figures
from monitor.mesh.models import Mesh, Site
from monitor.overview.wide.losses import BAD_RATIO, PairCell, PlaceGrid, load_place_grid
from monitor.overview.wide.places import SitePlaces, load_places
from monitor.web.pages.grid import legend
from monitor.web.pages.grid.below import below_grid
from monitor.web.pages.grid.cells import INCIDENT_SIGN, cell_style, cell_text, measure_of_grid, sentence
from monitor.web.pages.grid.matrix import LEFT_OUT
from monitor.web.request import parameters
from monitor.web.request.grid_choices import chosen_packet_bytes, chosen_places, unknown_as_404

MOST_PLACES = 40
"""Rows and columns; of more places those with the most bad paths are shown."""
MOST_CELLS = 300 * 300
"""Of a grid of sites."""
OF_LIST = ("from", "to", "group", "name", "paths")
OF_SITES = ("order", "fold", "group", "name", "paths", "cells", "metric", "period", "against")
"""Choices that only a grid of sites has."""


def wide_page(request: HttpRequest, places: SitePlaces, now: datetime) -> HttpResponse | None:
    """The page of a mesh of many sites; None where the address chooses a grid of sites that can be drawn."""
    number = _rows_and_columns(request, places)
    if number is not None and number <= MOST_CELLS:
        return None
    wants_list = request.GET.get("order") == "list" or any(request.GET.get(name) for name in OF_LIST)
    if wants_list or len(places.names) == 1:
        return HttpResponseRedirect(f"{reverse('paths')}?{_of_list(request)}")
    return _place_page(request, places, now)


def shows_sites(request: HttpRequest) -> bool:
    """Whether the address chooses a grid of sites that can be drawn."""
    places = load_places()
    number = 0 if places is None else _rows_and_columns(request, places)
    return number is not None and number <= MOST_CELLS


def _rows_and_columns(request: HttpRequest, places: SitePlaces) -> int | None:
    """Cells of the grid of sites that the address chooses; None if it chooses none and there are places to show."""
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
    """The choices of the address that the list of paths has too."""
    chosen = {name: request.GET[name] for name in ("from", "to", "name", "size") if request.GET.get(name)}
    if request.GET.get("group"):
        chosen |= {"from": request.GET["group"], "to": request.GET["group"]}
    return urlencode({**chosen, **({"paths": "bad"} if request.GET.get("paths") == "problems" else {})})


def _place_page(request: HttpRequest, places: SitePlaces, now: datetime) -> HttpResponse:
    with unknown_as_404():
        shown = load_place_grid(places, chosen_packet_bytes(request), now)
    grid = shown.grid
    measure = measure_of_grid(grid)
    numbers = _numbers_shown(shown)
    sizes = [(f"{size} B", size) for size in grid.packet_sizes]
    cells = shown.cells.values()
    context = {
        "mesh": Mesh.objects.first(),
        "now": now,
        "shown": shown,
        "grid": grid,
        "sizes": parameters.options(request, "size", sizes, grid.packet_bytes),
        "kind": places.kind,
        "sites": len(places.number_of),
        "paths": sum(cell.paths for cell in cells),
        "bad": sum(cell.bad for cell in cells),
        "unmeasured": sum(cell.paths - cell.measured for cell in cells),
        "with_incident": sum(cell.with_incident for cell in cells),
        "bad_words": figures.percent(BAD_RATIO),
        "heads": [(places.names[number], places.sites[number]) for number in numbers],
        "left_out": len(places.names) - len(numbers),
        "body": _body_html(shown, numbers, _cell_query(grid.packet_bytes)),
        "legend": legend.legend(grid, measure),
        **below_grid(now, len(grid.open_incidents)),
    }
    return render(request, "pages/grid/places.html", context)


def _numbers_shown(shown: PlaceGrid) -> list[int]:
    """The places with a row and a column: all in the order of their names, of too many those with most bad paths."""
    everything = range(len(shown.places.names))
    if len(everything) <= MOST_PLACES:
        return list(everything)
    bad = dict.fromkeys(everything, 0)
    for ends, cell in shown.cells.items():
        for number in set(ends):
            bad[number] += cell.bad
    return sorted(sorted(everything, key=lambda number: -bad[number])[:MOST_PLACES])


def _cell_query(packet_bytes: int | None) -> dict[str, Any]:
    return {"period": "hour", **({} if packet_bytes is None else {"size": packet_bytes})}


def _body_html(shown: PlaceGrid, numbers: Iterable[int], kept: dict[str, Any]) -> SafeString:
    """The rows of the table. All names from the mesh are escaped here."""
    names, rows = shown.places.names, []
    for source in numbers:
        cells = []
        for to in numbers:
            cell = shown.cells.get((source, to))
            query = urlencode({"from": names[source], "to": names[to], **kept})
            cells.append(LEFT_OUT if cell is None else _cell_html(shown, cell, names[source], names[to], query))
        rows.append(f'<tr><th scope="row">{escape(names[source])}</th>{"".join(cells)}</tr>')
    return mark_safe("\n".join(rows))


def _cell_html(shown: PlaceGrid, cell: PairCell, source: str, to: str, query: str) -> str:
    grid, worst = shown.grid, cell.worst
    style = cell_style(grid, measure_of_grid(grid), worst) + (" incident" if cell.with_incident else "")
    sign = f'<b class="sign" aria-hidden="true">{INCIDENT_SIGN}</b>' if cell.with_incident else ""
    unmeasured = cell.paths - cell.measured
    few = f"{cell.bad:,} of {cell.paths:,}" + (f", {unmeasured:,} –" if unmeasured else "")
    return (
        f'<td class="{style}"><a href="?{escape(query)}" aria-label="{escape(_said(shown, cell, source, to))}">'
        f"<span>{sign}{escape(cell_text(grid, worst))}<small>{few}</small></span></a></td>"
    )


def _said(shown: PlaceGrid, cell: PairCell, source: str, to: str) -> str:
    """The cell as a sentence."""
    verb = "loses" if cell.bad == 1 else "lose"
    paths = "path" if cell.paths == 1 else "paths"
    parts = [f"{source} to {to}: {cell.bad:,} of {cell.paths:,} {paths} {verb} {figures.percent(BAD_RATIO)} or more"]
    if cell.with_incident:
        parts.append(f"{cell.with_incident:,} with an open incident")
    if cell.paths > cell.measured:
        parts.append(f"{cell.paths - cell.measured:,} not measured")
    return f"{', '.join(parts)}; the worst: {sentence(shown.grid, cell.worst)}"
