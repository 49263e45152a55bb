"""Throughput tests page: each path's tests with their limit."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.utils import timezone
from django.views.decorators.http import require_safe

from monitor.analysis.transfer import Verdict
from monitor.archive.queries import for_reports
from monitor.archive.queries.for_reports import TransferVerdict
from monitor.archive.queries.throughput.series import PathThroughput, on_demand_counts, throughput_summaries
from monitor.archive.scheduled_settings import scheduled_paths
from monitor.mesh.models import Mesh, Path
from monitor.overview.grid import HistoryPeriod
from monitor.web import trends
from monitor.web.labels import not_counted
from monitor.web.pages.first_run import tests_wait
from monitor.web.request import parameters
from monitor.web.request.parameters import Option
from monitor.web.request.window import ShownPeriod, shown_period

MOST_ROWS = 500
_VERDICTS = {Verdict.BOTTLENECK_QUEUE: "bottleneck (queue)"}


@dataclass(frozen=True, slots=True)
class PathRow:
    path: Path
    tests: PathThroughput
    verdict: TransferVerdict | None  # None where no test could be diagnosed

    @property
    def failed(self) -> int:
        return self.tests.tests - self.tests.measured - self.tests.not_run

    @property
    def order(self) -> tuple[bool, float, int]:
        median = self.tests.throughput_median_bps
        return median is not None, median or 0.0, self.path.pk


@require_safe
def throughput_page(request: HttpRequest) -> HttpResponse:
    now = timezone.now()
    shown = shown_period(request, now)
    rows = _rows(shown)
    verdict = parameters.choice(request, "limit", Verdict, Verdict.UNDETERMINED) if request.GET.get("limit") else None
    chosen = [row for row in rows if verdict is None or (row.verdict is not None and row.verdict.verdict == verdict)]
    context = {
        "mesh": Mesh.objects.first(),
        "now": now,
        "shown": shown,
        "rows": chosen[:MOST_ROWS],
        "swept": {path_id for _, path_id in scheduled_paths()},
        "trends": trends.of_tests([row.path.pk for row in chosen[:MOST_ROWS]], now),
        "left_out": max(0, len(chosen) - MOST_ROWS),
        "verdict": verdict,
        "waits": tests_wait(now) if not rows and shown.period is not None else [],
        "paths": len(rows),
        "tests": sum(row.tests.tests for row in rows),
        "not_counted": not_counted(_on_demand(shown)),
        "failed": sum(row.failed for row in rows),
        "not_run": sum(row.tests.not_run for row in rows),
        "periods": parameters.options(
            request, "period", [(period, period) for period in HistoryPeriod], shown.period, without=("since", "until")
        ),
        "verdicts": _verdicts(request, rows, verdict),
    }
    return render(request, "pages/throughput/throughput.html", context)


def _rows(shown: ShownPeriod) -> list[PathRow]:
    summaries = throughput_summaries(shown.since, shown.until)
    ids = [summary.path_id for summary in summaries]
    paths = Path.objects.with_hosts().in_bulk(ids)
    verdicts = {transfer.path_id: transfer for transfer in for_reports.transfer_verdicts(shown.since, shown.until, ids)}
    rows = [
        PathRow(paths[summary.path_id], summary, verdicts.get(summary.path_id))
        for summary in summaries
        if summary.path_id in paths
    ]
    return sorted(rows, key=lambda row: row.order)


def _on_demand(shown: ShownPeriod) -> int:
    counts = on_demand_counts(shown.since, shown.until)
    return sum(counts[path_id] for path_id in Path.objects.in_use().filter(id__in=counts).values_list("id", flat=True))


def _verdicts(request: HttpRequest, rows: list[PathRow], chosen: Verdict | None) -> list[Option]:
    counts = Counter(row.verdict.verdict for row in rows if row.verdict is not None)
    labelled: list[tuple[str, object]] = [(f"all {len(rows)}", "")]
    labelled += [
        (f"{_VERDICTS.get(verdict, verdict)} {counts[verdict]}", verdict) for verdict in Verdict if counts[verdict]
    ]
    return parameters.options(request, "limit", labelled, chosen or "")
