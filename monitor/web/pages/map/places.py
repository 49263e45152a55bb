"""Map of many sites: a line for each two groups or regions with trouble."""

from __future__ import annotations

from collections import defaultdict
from datetime import datetime
from typing import Any
from urllib.parse import urlencode

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render

from monitor.archive.queries.metrics import Metric
from monitor.mesh.models import Mesh, Site
from monitor.overview.grid import GridSite
from monitor.overview.measures import MetricFormat
from monitor.overview.path_figures import badness
from monitor.overview.wide.losses import PairCell, PlaceGrid
from monitor.overview.wide.places import SitePlaces
from monitor.web.pages.grid import legend
from monitor.web.pages.grid.cells import CHECK_SIGN, INCIDENT_SIGN, cell_style, measure_of_grid
from monitor.web.pages.grid.places import cell_query, load_chosen_places, pair_sentence, totals
from monitor.web.pages.map.world_map import LineText, draw_map
from monitor.web.request import parameters
from monitor.web.request.grid_choices import options_of_metric

# Of a map with a line for each pair of sites.
MOST_CELLS = 100 * 100
# Of the groups; these are far apart, and more lines are a tangle.
MOST_LINES = 60


def map_of_places(request: HttpRequest, places: SitePlaces, now: datetime) -> HttpResponse:
    shown = load_chosen_places(request, places, now)
    grid, measure = shown.grid, measure_of_grid(shown.grid)
    rows = list(Site.objects.in_use().values_list("id", "name", "title", "latitude_deg", "longitude_deg"))
    lines = _lines(shown, measure)
    drawn = lines[-MOST_LINES:]
    ends = {name for line in drawn for name in line.ends}
    named = [GridSite(site_id, name, title) for site_id, name, title, _, _ in rows if name in ends]
    at = {name: (latitude, longitude) for _, name, _, latitude, longitude in rows}
    sizes = [(f"{size} B", size) for size in grid.packet_sizes]
    context: dict[str, Any] = {
        "mesh": Mesh.objects.first(),
        "now": now,
        "shown": shown,
        "grid": grid,
        "title": measure.title,
        "kind": places.kind,
        "only_trouble": shown.counts_bad,
        "metrics": options_of_metric(request),
        "sizes": parameters.options(request, "size", sizes, grid.packet_bytes),
        "map": draw_map(named, at, drawn, len(lines)),
        "legend": legend.legend(grid, measure),
        **totals(shown),
    }
    return render(request, "pages/map/places.html", context)


def _lines(shown: PlaceGrid, measure: MetricFormat) -> list[LineText]:
    grid, names = shown.grid, shown.places.names
    between: dict[frozenset[int], list[tuple[int, int]]] = defaultdict(list)
    for ends in shown.cells:
        between[frozenset(ends)].append(ends)
    lines = []
    for both in between.values():
        if shown.counts_bad and not any(_has_trouble(shown.cells[ends]) for ends in both):
            continue
        ordered = sorted(both, key=lambda ends: _order(grid.metric, shown.cells[ends]), reverse=True)
        source, to = ordered[0]
        cell = shown.cells[source, to]
        troubled = any(shown.cells[ends].with_incident for ends in both)
        quiet_sign = CHECK_SIGN if cell.worst.is_in_trouble else ""
        text = LineText(
            ends=(cell.worst.source, cell.worst.destination),
            style=cell_style(grid, measure, cell.worst) + (" incident" if troubled else ""),
            sentence="; ".join(pair_sentence(shown, *ends) for ends in ordered),
            address=f"?{urlencode({'from': names[source], 'to': names[to], **cell_query(grid)})}",
            sign=INCIDENT_SIGN if troubled else quiet_sign,
        )
        lines.append((troubled, _order(grid.metric, cell), text))
    return [text for _, _, text in sorted(lines, key=lambda line: line[:2])]


def _order(metric: Metric, cell: PairCell) -> tuple[bool, tuple[int, float, int]]:
    return cell.worst.is_in_trouble, badness(metric, cell.worst)


def _has_trouble(cell: PairCell) -> bool:
    return cell.bad > 0 or cell.with_incident > 0 or cell.measured == 0
