"""List of paths, worst first."""

from __future__ import annotations

from typing import Any

from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import render
from django.utils import timezone
from django.views.decorators.http import require_safe

from monitor.mesh.models import Mesh
from monitor.overview.wide.losses import PathChoice, load_path_list
from monitor.overview.wide.places import SitePlaces, load_places
from monitor.web.pages.grid.cells import measure_of_grid
from monitor.web.pages.grid.choices import LONGEST_NAME
from monitor.web.pages.grid.worst import rows_of
from monitor.web.request import parameters
from monitor.web.request.grid_choices import chosen_packet_bytes, unknown_as_404

EVERY, BAD = "", "bad"


@require_safe
def paths_page(request: HttpRequest) -> HttpResponse:
    """Order by open incident, trouble, then loss."""
    now = timezone.now()
    places = load_places(more_than=0)
    choice = _chosen(request, places)
    wanted = request.GET.get("paths", EVERY)
    if wanted not in (EVERY, BAD):
        raise Http404(f"paths={wanted}: choose {BAD}, or none for all")
    context: dict[str, Any] = {"mesh": Mesh.objects.first(), "now": now, "choice": choice, "places": places}
    if places is None:
        return render(request, "pages/paths/paths.html", context)
    with unknown_as_404():
        shown = load_path_list(
            places,
            choice,
            chosen_packet_bytes(request),
            now,
            limit=parameters.PAGE_ROWS,
            offset=parameters.offset(request),
        )
    grid = shown.grid
    sizes = [(f"{size} B", size) for size in grid.packet_sizes]
    of_paths = [("all", EVERY), ("in trouble", BAD)]
    context |= {
        "grid": grid,
        "shown": shown,
        "rows": rows_of(grid, measure_of_grid(grid), grid.figures),
        "sheet": parameters.sheet(request, len(grid.figures), total=shown.total),
        "sizes": parameters.options(request, "size", sizes, grid.packet_bytes),
        "of_paths": parameters.options(request, "paths", of_paths, wanted),
        "kept_fields": [(name, request.GET[name]) for name in ("size", "paths") if name in request.GET],
    }
    return render(request, "pages/paths/paths.html", context)


def _chosen(request: HttpRequest, places: SitePlaces | None) -> PathChoice:
    ends = [parameters.text(request, name) for name in ("from", "to")]
    for end in ends:
        if end is not None and (places is None or end not in places.names):
            raise Http404(f"{end}: choose from {', '.join(() if places is None else places.names)}")
    name = (parameters.text(request, "name") or "").strip().lower()[:LONGEST_NAME]
    return PathChoice(ends[0], ends[1], name, only_bad=request.GET.get("paths") == BAD)
