"""Map page."""

from __future__ import annotations

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.utils import timezone
from django.views.decorators.http import require_safe

from monitor.archive.queries.operation.deliveries import agent_contacts
from monitor.mesh.models import Mesh, Site
from monitor.overview.measures import MEASURES
from monitor.overview.wide.places import MOST_SITES, load_places
from monitor.web.pages.first_run import first_run
from monitor.web.pages.grid import legend, matrix
from monitor.web.pages.grid.cells import measure_of_grid
from monitor.web.pages.grid.places import reverse_query, shows_places
from monitor.web.pages.map import world_map
from monitor.web.pages.map.places import MOST_CELLS, map_of_places
from monitor.web.request.grid_choices import chosen_places, load_chosen_grid, options_of_grid


@require_safe
def map_page(request: HttpRequest) -> HttpResponse:
    now = timezone.now()
    rows = Site.objects.in_use().values_list("id", "latitude_deg", "longitude_deg")
    where = {key: (latitude, longitude) for key, latitude, longitude in rows}
    places = load_places() if len(where) > MOST_SITES else None
    if places is not None and shows_places(request, places, MOST_CELLS):
        return map_of_places(request, places, now)
    grid = load_chosen_grid(request, now)
    context = {
        "mesh": Mesh.objects.first(),
        "grid": grid,
        "now": now,
        "title": MEASURES[grid.metric].title,
        **options_of_grid(request, grid),
        "map": world_map.world_map(grid, where, matrix.query(grid)),
        "between": chosen_places(request),
        "reverse_query": reverse_query(request),
        "legend": legend.legend(grid, measure_of_grid(grid)),
        "first_run": first_run(agent_contacts(), now) if grid.newest_measured_at is None else None,
    }
    return render(request, "pages/map/map.html", context)
