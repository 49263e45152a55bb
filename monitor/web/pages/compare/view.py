"""Page that compares paths on a time axis."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any
from urllib.parse import urlencode

from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect
from django.shortcuts import render
from django.urls import reverse
from django.utils import timezone
from django.views.decorators.http import require_safe

from monitor.archive.queries.paths import measured_packet_sizes, path_series
from monitor.archive.queries.throughput.series import throughput_series
from monitor.mesh.models import Mesh, Path, Site
from monitor.overview.grid import HistoryPeriod, UnknownChoice, choose_packet_bytes
from monitor.web.charts.compare import MOST_PATHS, ComparedMetric, PathData, compare_chart
from monitor.web.charts.marks import Spec, TimeAxis
from monitor.web.charts.series import pool
from monitor.web.pages.first_run import still_waiting
from monitor.web.pages.path.chart_data import axis_since, hours_of
from monitor.web.request import parameters
from monitor.web.request.grid_choices import ENDS
from monitor.web.request.parameters import Option
from monitor.web.request.window import MOST_BARS, ShownPeriod, minute, shown_period

DEFAULT = (ComparedMetric.RTT, ComparedMetric.LOSS)
KEPT = ("period", *ENDS, "size")


@dataclass(frozen=True, slots=True)
class ComparisonChart:
    metric: ComparedMetric
    spec: Spec


@dataclass(frozen=True, slots=True)
class ComparedPath:
    path: Path
    style: str
    without: str


@require_safe
def compare_page(request: HttpRequest) -> HttpResponse:
    now = timezone.now()
    paths = _paths(request)
    added = _added(request, paths)
    if added:
        return HttpResponseRedirect(f"{reverse('compare')}?{_address(request, [*paths, *added][:MOST_PATHS])}")
    shown = shown_period(request, now)
    metrics = _metrics(request)
    sizes = tuple(measured_packet_sizes())
    try:
        size = choose_packet_bytes(sizes, parameters.number(request, "size"))
    except UnknownChoice as error:
        raise Http404(str(error)) from error
    data = [_load(path.pk, size, shown) for path in paths]
    since = min(
        (
            axis_since(path.pk, shown.since, shown.until, of_path.series, of_path.tests)
            for path, of_path in zip(paths, data, strict=True)
        ),
        default=shown.since,
    )
    window = TimeAxis(since, shown.until)
    length_s = (shown.until - since).total_seconds()
    drawn = [
        # Of hours or less, loss has the steps of the RTT beside it.
        of_path
        if length_s <= MOST_BARS * of_path.series.step_s
        else replace(of_path, pooled=pool(of_path.series, replace(shown, since=since).bar_s))
        for of_path in data
    ]
    context = {
        "mesh": Mesh.objects.first(),
        "now": now,
        "shown": shown,
        "ends": (minute(shown.since), minute(shown.until)),
        "lines": [
            ComparedPath(path, f"path-{place}", _address(request, [other for other in paths if other is not path]))
            for place, path in enumerate(paths)
        ],
        "figures": [ComparisonChart(metric, compare_chart(metric, drawn, window)) for metric in metrics]
        if drawn
        else [],
        "first_run": None if sizes else still_waiting(now),
        "metrics": [_toggle(request, paths, metrics, metric) for metric in ComparedMetric],
        "periods": _links(request, paths, "period", [(period, period) for period in HistoryPeriod], shown.period),
        "sizes": _links(request, paths, "size", [(f"{size_bytes} B", size_bytes) for size_bytes in sizes], size),
        "sites": list(Site.objects.in_use().values_list("name", flat=True)),
        "kept": _kept(request, paths),
        "kept_but_ends": [
            pair for pair in _kept(request, paths) if pair[0] not in ("period", "since", "until", "zone")
        ],
        "most": MOST_PATHS,
    }
    return render(request, "pages/compare/compare.html", context)


def _paths(request: HttpRequest) -> list[Path]:
    given = list(dict.fromkeys(request.GET.getlist("path")))
    if len(given) > MOST_PATHS:
        raise Http404(f"{len(given)} paths: {MOST_PATHS} at most can be told apart")
    numbers = [int(text) if text.isascii() and text.isdigit() and len(text) <= 10 else 0 for text in given]
    by_number = Path.objects.with_hosts().in_bulk(numbers)
    for text, number in zip(given, numbers, strict=True):
        if number not in by_number:
            raise Http404(f"There is no path {text}; the grid links to those that there are.")
    return [by_number[number] for number in numbers]


def _added(request: HttpRequest, paths: Sequence[Path]) -> list[Path]:
    source, destination = parameters.text(request, "from"), parameters.text(request, "to")
    if source is None and destination is None:
        return []
    matches = Path.objects.in_use().filter(source__site__name=source, destination__site__name=destination)
    between = list(matches.order_by("family"))
    if not between:
        raise Http404(f"There is no path from {source or '?'} to {destination or '?'}; choose two sites of the grid.")
    drawn = {path.pk for path in paths}
    return [path for path in between if path.pk not in drawn]


def _metrics(request: HttpRequest) -> tuple[ComparedMetric, ...]:
    given = request.GET.getlist("metric")
    try:
        wanted = {ComparedMetric(name) for name in given}
    except ValueError as error:
        raise Http404(f"metric={','.join(given)}: choose among {', '.join(ComparedMetric)}") from error
    return tuple(metric for metric in ComparedMetric if metric in wanted) or DEFAULT


def _load(path_id: int, packet_bytes: int, shown: ShownPeriod) -> PathData:
    series = path_series(path_id, packet_bytes, shown.since, shown.until)
    return PathData(
        series=series,
        # Pooled later, when the common time axis is known.
        pooled=series,
        hours=hours_of(series, shown.since, shown.until),
        tests=throughput_series(path_id, shown.since, shown.until),
    )


def _kept(request: HttpRequest, paths: Sequence[Path]) -> list[tuple[str, object]]:
    pairs: list[tuple[str, object]] = [("path", path.pk) for path in paths]
    pairs += [("metric", name) for name in request.GET.getlist("metric")]
    return pairs + [(name, request.GET[name]) for name in KEPT if request.GET.get(name)]


def _address(request: HttpRequest, paths: Sequence[Path]) -> str:
    return urlencode(_kept(request, paths))


def _links(
    request: HttpRequest, paths: Sequence[Path], name: str, labelled: list[tuple[str, Any]], chosen: object
) -> list[Option]:
    dropped = {name, *ENDS} if name == "period" else {name}
    kept = [pair for pair in _kept(request, paths) if pair[0] not in dropped]
    return [Option(label, urlencode([*kept, (name, value)]), chosen=value == chosen) for label, value in labelled]


def _toggle(
    request: HttpRequest, paths: Sequence[Path], shown: Sequence[ComparedMetric], metric: ComparedMetric
) -> Option:
    wanted = [other for other in ComparedMetric if (other in shown) != (other is metric)]
    kept = [pair for pair in _kept(request, paths) if pair[0] != "metric"]
    return Option(metric.label, urlencode([*kept, *(("metric", other) for other in wanted)]), chosen=metric in shown)
