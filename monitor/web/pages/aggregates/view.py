"""Pages of aggregate tests, and of a run."""

from __future__ import annotations

from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import render
from django.utils import timezone
from django.views.decorators.http import require_safe

from monitor.api.throughput.aggregates import members_csv
from monitor.archive.queries.throughput.aggregates import aggregate_result, aggregate_results
from monitor.mesh.models import Measurement, Mesh
from monitor.overview.grid import HistoryPeriod
from monitor.web.pages.aggregates.run_now import test_now_of
from monitor.web.request import parameters
from monitor.web.request.window import shown_period

MOST_ROWS = 300


@require_safe
def aggregates_page(request: HttpRequest) -> HttpResponse:
    now = timezone.now()
    shown = shown_period(request, now)
    runs = aggregate_results(shown.since, shown.until, MOST_ROWS + 1)
    context = {
        "mesh": Mesh.objects.first(),
        "shown": shown,
        "test_now": test_now_of(request, now),
        "runs": runs[:MOST_ROWS],
        "has_more": len(runs) > MOST_ROWS,
        "is_planned": not runs and Measurement.objects.in_use().filter(test__kind="aggregate").exists(),
        "periods": parameters.options(
            request, "period", [(period, period) for period in HistoryPeriod], shown.period, without=("since", "until")
        ),
    }
    return render(request, "pages/aggregates/aggregates.html", context)


@require_safe
def aggregates_csv(request: HttpRequest) -> HttpResponse:
    shown = shown_period(request, timezone.now())
    return members_csv(shown.since, shown.until)


@require_safe
def aggregate_page(request: HttpRequest, aggregate_id: int) -> HttpResponse:
    run = aggregate_result(aggregate_id)
    if run is None:
        raise Http404(f"There is no aggregate test {aggregate_id}; /aggregates/ lists those that there are.")
    return render(request, "pages/aggregates/aggregate.html", {"mesh": Mesh.objects.first(), "run": run})
