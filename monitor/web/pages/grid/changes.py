"""Grid refreshes as JSON: cells changed since a page's version."""

from __future__ import annotations

import json

from django.http import Http404, HttpRequest, HttpResponse, JsonResponse
from django.utils import timezone
from django.views.decorators.http import require_safe

from monitor.overview.path_figures import worst
from monitor.web.pages.grid import contents, drawn, matrix
from monitor.web.pages.grid.cells import sentence
from monitor.web.pages.grid.places import shows_sites
from monitor.web.request import parameters
from monitor.web.request.grid_choices import load_grid_between


@require_safe
def grid_changes(request: HttpRequest) -> HttpResponse:
    """Cells changed since the version `since`, by position. `all`: the version is too old; `reload`: rows or columns
    changed. 304 without a change."""
    if not shows_sites(request):
        raise Http404("this grid has too many sites for a row and a column each")
    shown = contents.load_contents(request, timezone.now())
    cells = shown.cells()
    version = shown.version(cells)
    since = (parameters.text(request, "since") or "")[:80]
    etag = f'"{version}"'
    if version in (since, _etag_of(request)):
        return HttpResponse(status=304, headers={"ETag": etag})
    answer: dict[str, object] = {"version": version}
    if since.partition("-")[0] != version.partition("-")[0]:
        answer["reload"] = True
    else:
        changed = contents.changed_since(since, cells)
        contents.remember(version, cells)
        if changed is not None:
            answer["cells"] = changed
        elif shown.is_drawn:
            answer |= {"all": True, **drawn.states_and_marks(cells)}
        else:
            answer |= {"all": True, "cells": dict(enumerate(cells))}
    body = json.dumps(answer, separators=(",", ":"), ensure_ascii=False)
    return HttpResponse(body, content_type="application/json; charset=utf-8", headers={"ETag": etag})


@require_safe
def grid_cell(request: HttpRequest) -> HttpResponse:
    source, destination = parameters.text(request, "source") or "", parameters.text(request, "destination") or ""
    grid = load_grid_between(request, (source, destination), timezone.now())
    if not grid.figures:
        raise Http404(f"no path from {source} to {destination} is measured")
    path = worst(grid.metric, grid.figures)
    more = "" if len(grid.figures) == 1 else f"; the worst of {len(grid.figures)} paths"
    said = sentence(grid, path) + more
    return JsonResponse({"sentence": said, "address": f"/paths/{path.path_id}/?{matrix.query(grid)}"})


def _etag_of(request: HttpRequest) -> str:
    # Version of `If-None-Match`; compression makes an ETag weak.
    return request.headers.get("If-None-Match", "").removeprefix("W/").strip('"')
