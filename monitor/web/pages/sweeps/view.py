"""Pages of sweeps."""

from __future__ import annotations

from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import render
from django.utils import timezone
from django.views.decorators.http import require_safe

from monitor.archive import throughput_sweeps
from monitor.archive.scheduled_settings import scheduled_paths
from monitor.mesh.models import Path
from monitor.web.pages.sweeps.load import sweep_view

SHOWN = 100


@require_safe
def sweeps_page(request: HttpRequest) -> HttpResponse:
    rows = scheduled_paths()
    paths = Path.objects.with_hosts().in_bulk([path_id for _, path_id in rows])
    context = {
        "scheduled": [(name, paths[path_id]) for name, path_id in rows if path_id in paths],
        "sweeps": throughput_sweeps.newest(SHOWN, scheduled=False),
    }
    return render(request, "pages/sweeps/sweeps.html", context)


@require_safe
def sweep_page(request: HttpRequest, sweep_id: int) -> HttpResponse:
    now = timezone.now()
    sweep = throughput_sweeps.load(sweep_id, now)
    if sweep is None:
        raise Http404(f"There is no sweep {sweep_id}; /sweeps/ lists those that there are.")
    context = {"view": sweep_view(sweep), "now": now}
    return render(request, "pages/sweeps/sweep.html", context)
