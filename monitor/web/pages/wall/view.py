"""Wall screen, `/?wall=1`."""

from __future__ import annotations

from dataclasses import replace

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.utils import timezone

from monitor.alerts.evidence.words import since
from monitor.archive.upkeep import freshness
from monitor.mesh.models import Mesh
from monitor.overview.grid import Grid, GridSite
from monitor.overview.mesh_state import load_mesh_state
from monitor.overview.wide.losses import PlaceGrid
from monitor.overview.wide.places import load_places
from monitor.web.pages.grid.cells import measure_of_grid
from monitor.web.pages.grid.places import load_chosen_places, numbers_shown, shows_places
from monitor.web.pages.wall.drawing import grid_svg
from monitor.web.request.grid_choices import load_chosen_grid

EVERY_S = 10
SHOWN_INCIDENTS = 6
THEMES = ("dark", "light")


def wants_wall(request: HttpRequest) -> bool:
    return request.GET.get("wall") == "1"


def wall_page(request: HttpRequest) -> HttpResponse:
    """Chosen grid, or groups of many sites; dark, unless ?theme=light."""
    now = timezone.now()
    theme = request.GET.get("theme")
    places = load_places()
    shown = load_chosen_places(request, places, now) if places is not None and shows_places(request, places) else None
    grid = load_chosen_grid(request, now) if shown is None else _of_places(shown)
    fresh = freshness.load()
    state = load_mesh_state(fresh, now)
    measure = measure_of_grid(grid)
    kind = "site" if shown is None else shown.places.kind
    context = {
        "mesh": Mesh.objects.first(),
        "now": now,
        "every_s": EVERY_S,
        "theme": theme if theme in THEMES else THEMES[0],
        "state": state,
        "incidents": [(incident, since(incident)) for incident in state.incidents[:SHOWN_INCIDENTS]],
        "more": max(0, len(state.incidents) - SHOWN_INCIDENTS),
        "stale": fresh.stale_at(now),
        "lacks_since": None if grid.is_now else fresh.summaries_lack_since(now),
        "title": measure.title,
        "grid": grid,
        "shown": shown,
        "svg": grid_svg(grid, measure, f"{measure.title} from each {kind} (rows) to each {kind} (columns)")
        if grid.sources
        else "",
    }
    return render(request, "pages/wall/wall.html", context)


def _of_places(shown: PlaceGrid) -> Grid:
    sites = {number: GridSite(number, shown.places.names[number], "") for number in numbers_shown(shown)}
    figures = [
        replace(cell.worst, source=sites[source].name, destination=sites[to].name, incident_id=cell.incident_id)
        for (source, to), cell in shown.cells.items()
        if source in sites and to in sites
    ]
    ends = tuple(sites.values())
    return replace(shown.grid, sources=ends, destinations=ends, figures=tuple(figures))
