"""The pages of sweeps: which there are, and one of them."""

from __future__ import annotations

from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import render
from django.utils import timezone
from django.views.decorators.http import require_safe

from monitor.archive import throughput_sweeps
from monitor.web.charts import bundle
from monitor.web.pages.sweeps.load import sweep_view

SHOWN = 100


@require_safe
def sweeps_page(request: HttpRequest) -> HttpResponse:
    """The sweeps asked for last."""
    return render(request, "pages/sweeps/sweeps.html", {"sweeps": throughput_sweeps.newest(SHOWN)})


@require_safe
def sweep_page(request: HttpRequest, sweep_id: int) -> HttpResponse:
    """One sweep: heat map, knee, table."""
    now = timezone.now()
    found = throughput_sweeps.load(sweep_id, now)
    if found is None:
        raise Http404(f"There is no sweep {sweep_id}; /sweeps/ lists those that there are.")
    context = {"view": sweep_view(found), "now": now, "bundle_version": bundle.bundle_version()}
    return render(request, "pages/sweeps/sweep.html", context)
