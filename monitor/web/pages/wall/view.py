"""The wall screen, `/?wall=1`: sentence, open incidents and grid on a whole screen, without anything to click."""

from __future__ import annotations

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.utils import timezone

from monitor.alerts.evidence.words import since
from monitor.archive.upkeep import freshness
from monitor.mesh.models import Mesh
from monitor.overview.mesh_state import load_mesh_state
from monitor.web.pages.grid.cells import measure_of_grid
from monitor.web.pages.wall.drawing import grid_svg
from monitor.web.request.grid_choices import load_chosen_grid

EVERY_S = 10
SHOWN_INCIDENTS = 6
THEMES = ("dark", "light")


def wants_wall(request: HttpRequest) -> bool:
    return request.GET.get("wall") == "1"


def wall_page(request: HttpRequest) -> HttpResponse:
    """The grid that the address chooses, for a wall screen; dark, unless ?theme=light."""
    now = timezone.now()
    theme = request.GET.get("theme")
    grid = load_chosen_grid(request, now)
    measure = measure_of_grid(grid)
    fresh = freshness.load()
    state = load_mesh_state(fresh, now, grid)
    context = {
        "mesh": Mesh.objects.first(),
        "now": now,
        "every_s": EVERY_S,
        "theme": theme if theme in THEMES else THEMES[0],
        "state": state,
        "incidents": [(incident, since(incident)) for incident in state.incidents[:SHOWN_INCIDENTS]],
        "more": max(0, len(state.incidents) - SHOWN_INCIDENTS),
        "stale": fresh.stale_at(now),
        "title": measure.title,
        "grid": grid,
        "svg": grid_svg(grid, measure, f"{measure.title} from each site (rows) to each site (columns)")
        if grid.sources
        else "",
    }
    return render(request, "pages/wall/wall.html", context)
