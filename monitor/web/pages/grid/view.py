from __future__ import annotations

from datetime import datetime
from typing import Any
from urllib.parse import urlencode

from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import render
from django.utils import timezone
from django.views.decorators.http import require_safe

from monitor.mesh.models import Mesh
from monitor.overview.wide.places import SitePlaces, load_places
from monitor.web.pages.first_run import first_run
from monitor.web.pages.grid import drawn, legend, matrix
from monitor.web.pages.grid.below import below_grid
from monitor.web.pages.grid.choices import options_of_view
from monitor.web.pages.grid.contents import GridContents, load_contents, remember
from monitor.web.pages.grid.kept_view import in_kept_view, without_kept_view
from monitor.web.pages.grid.places import reverse_query, wide_page
from monitor.web.pages.grid.worst import worst_rows
from monitor.web.pages.wall.view import wall_page, wants_wall
from monitor.web.request import parameters
from monitor.web.request.grid_choices import chosen_places, options_of_grid

DENSE_FROM_SITES = 16


@require_safe
def grid_page(request: HttpRequest) -> HttpResponse:
    """First page; with ?wall=1 for a wall screen."""
    if wants_wall(request):
        return wall_page(request)
    now = timezone.now()
    places = load_places()
    wide = None if places is None else wide_page(request, places, now)
    if wide is not None:
        return wide
    try:
        return in_kept_view(request) or _grid_page(request, places, now)
    except Http404:
        again = without_kept_view(request)
        if again is None:
            raise
        return again


def _grid_page(request: HttpRequest, places: SitePlaces | None, now: datetime) -> HttpResponse:
    shown = load_contents(request, now)
    grid, measure = shown.grid, shown.measure
    words = legend.legend(grid, measure)
    has_few_signs = not (shown.is_drawn or shown.is_compact or shown.is_list)
    options = {
        **options_of_grid(request, grid),
        **options_of_view(request, shown.view, is_compact=shown.is_compact, may_choose=not shown.is_drawn),
    }
    below = below_grid(now, len(grid.open_incidents))
    context = {
        "mesh": Mesh.objects.first(),
        "grid": grid,
        "now": now,
        "period_words": legend.period_words(grid),
        "title": measure.title,
        **options,
        "of_view": _of_view(options),
        "shown": shown,
        "has_cells": "parts" not in request.GET,
        "worst": worst_rows(shown),
        **({} if "parts" in request.GET or shown.is_list else _cells(shown, words)),
        "legend": legend.shown_entries(words, grid, measure) if has_few_signs else words,
        "dense": len(shown.layout.columns) >= DENSE_FROM_SITES,
        "address": urlencode(parameters.kept(request), doseq=True),
        "first_run": first_run(below["contacts"], now) if grid.newest_measured_at is None else None,
        "open_incidents": grid.open_incidents,
        **below,
        **_between(request, places),
    }
    return render(request, "pages/grid/grid.html", context)


def _of_view(options: dict[str, Any]) -> list[str]:
    """What else than the first is chosen behind "View"."""
    sizes = [option.label for option in options["sizes"] if option.chosen and len(options["sizes"]) > 1]
    others = (options[name][1:] for name in ("comparisons", "groups", "orders", "shown_paths"))
    return [*sizes, *(option.label for of in others for option in of if option.chosen)]


def _cells(shown: GridContents, words: list[legend.LegendEntry]) -> dict[str, Any]:
    cells = shown.cells()
    version = shown.version(cells)
    remember(version, cells)
    if shown.is_drawn:
        data = drawn.data_json(shown.layout, cells, version, words, shown.unfolding)
        return {"version": version, "drawn": data}
    heads = [(line, matrix.line_link(line, shown.unfolding)) for line in shown.layout.columns]
    body = matrix.body_html(shown.layout, cells, shown.unfolding)
    return {"version": version, "heads": heads, "body": body}


def _between(request: HttpRequest, places: SitePlaces | None) -> dict[str, Any]:
    between = chosen_places(request)
    if between is None:
        return {}
    source, to = between
    return {
        "between": between,
        "place_kind": "group" if places is None else places.kind,
        "reverse_query": reverse_query(request),
        "list_query": urlencode({"from": source, "to": to}),
    }
