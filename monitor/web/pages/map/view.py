"""The map page: the grid on a map of the world."""

from __future__ import annotations

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.utils import timezone
from django.views.decorators.http import require_safe

from monitor.archive.queries.operation.deliveries import agent_contacts
from monitor.mesh.models import Mesh, Site
from monitor.overview.measures import MEASURES
from monitor.web.pages.first_run import first_run
from monitor.web.pages.grid import legend, matrix
from monitor.web.pages.grid.cells import measure_of_grid
from monitor.web.pages.map import world_map
from monitor.web.request.grid_choices import load_chosen_grid, options_of_grid


@require_safe
def map_page(request: HttpRequest) -> HttpResponse:
    """The grid on a map of the world."""
    now = timezone.now()
    grid = load_chosen_grid(request, now)
    rows = Site.objects.in_use().values_list("id", "latitude_deg", "longitude_deg")
    where = {key: (latitude, longitude) for key, latitude, longitude in rows}
    context = {
        "mesh": Mesh.objects.first(),
        "grid": grid,
        "now": now,
        "title": MEASURES[grid.metric].title,
        **options_of_grid(request, grid),
        "map": world_map.world_map(grid, where),
        "query": matrix.query(grid),
        "legend": legend.legend(grid, measure_of_grid(grid)),
        "first_run": first_run(agent_contacts(), now) if grid.newest_measured_at is None else None,
    }
    return render(request, "pages/map/map.html", context)
