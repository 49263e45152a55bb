"""CSV downloads of a path, with a column for each field of their record. Times are UTC, figures unrounded in the units
of their names, outcomes in the words of the pages; unknown values are empty."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from django.http import Http404, HttpRequest, HttpResponse
from django.utils import timezone
from django.views.decorators.http import require_safe

from monitor.alerts.incidents.queries import incidents_of_path
from monitor.api.freshness import date_summaries
from monitor.archive.kinds import RESULT_KINDS
from monitor.archive.queries.directions import DirectionPoint, RawDirection, direction_series, raw_directions
from monitor.archive.queries.kind_series import kind_series
from monitor.archive.queries.paths import RawBurst, SeriesPoint, path_series, raw_bursts
from monitor.archive.queries.routes.periods import RoutePeriod, routes_between
from monitor.archive.queries.throughput.series import ThroughputPoint, throughput_series
from monitor.archive.upkeep.freshness import series_lacks_since
from monitor.mesh.models import Path
from monitor.overview.changes import PathChange, changes_of
from monitor.overview.csv_text import csv_text, names_of, values_of
from monitor.overview.grid import UnknownChoice, measured_packet_bytes
from monitor.web.request import parameters
from monitor.web.request.paths import path_or_404
from monitor.web.request.window import shown_period


@require_safe
def series_csv(request: HttpRequest, path_id: int) -> HttpResponse:
    path, now = path_or_404(path_id), timezone.now()
    shown, size = shown_period(request, now), _size(request)
    series = path_series(path_id, size, shown.since, shown.until)
    constant = {"step_s": series.step_s, "packet_bytes": size}
    answer = _answer(f"{_name(path)}-{size}-bytes", SeriesPoint, series.points, constant)
    date_summaries(answer, series_lacks_since(shown.since, shown.until, now))
    return answer


@require_safe
def bursts_csv(request: HttpRequest, path_id: int) -> HttpResponse:
    """Export at most a day; RTTs are in sending order, empty if lost."""
    path = path_or_404(path_id)
    shown, size = shown_period(request, timezone.now()), _size(request)
    if not shown.has_bursts:
        raise Http404("Single bursts are given for a day at most: choose a shorter time.")
    bursts = raw_bursts(path_id, shown.since, shown.until, packet_bytes=size)
    return _answer(f"{_name(path)}-{size}-bytes-bursts", RawBurst, bursts, {})


@require_safe
def directions_csv(request: HttpRequest, path_id: int) -> HttpResponse:
    path, now = path_or_404(path_id), timezone.now()
    shown = shown_period(request, now)
    series = direction_series(path_id, shown.since, shown.until)
    answer = _answer(f"{_name(path)}-directions", DirectionPoint, series.points, {"step_s": series.step_s})
    date_summaries(answer, series_lacks_since(shown.since, shown.until, now))
    return answer


@require_safe
def stamp_csv(request: HttpRequest, path_id: int) -> HttpResponse:
    """Export at most a day, also cycles not measured."""
    path = path_or_404(path_id)
    shown = shown_period(request, timezone.now())
    if not shown.has_bursts:
        raise Http404("Single cycles are given for a day at most: choose a shorter time.")
    return _answer(f"{_name(path)}-stamp", RawDirection, raw_directions(path_id, shown.since, shown.until), {})


@require_safe
def tests_csv(request: HttpRequest, path_id: int) -> HttpResponse:
    path = path_or_404(path_id)
    shown = shown_period(request, timezone.now())
    tests = throughput_series(path_id, shown.since, shown.until)
    return _answer(f"{_name(path)}-throughput", ThroughputPoint, tests, {})


@require_safe
def results_csv(request: HttpRequest, path_id: int, kind: str) -> HttpResponse:
    """A row for each result of a kind of `monitor.archive.kinds`, failed ones included."""
    path = path_or_404(path_id)
    shown = shown_period(request, timezone.now())
    results = kind_series(kind, path_id, shown.since, shown.until)
    return _answer(f"{_name(path)}-{kind}", RESULT_KINDS[kind].point, results, {})


@require_safe
def changes_csv(request: HttpRequest, path_id: int) -> HttpResponse:
    path = path_or_404(path_id)
    shown, size = shown_period(request, timezone.now()), _size(request)
    incidents = incidents_of_path(path_id, shown.since, shown.until)
    changes = changes_of(path_id, size, shown.since, shown.until, incidents)
    return _answer(f"{_name(path)}-changes", PathChange, changes, {})


@require_safe
def routes_csv(request: HttpRequest, path_id: int) -> HttpResponse:
    """Rows have hops by TTL, empty if never seen."""
    path = path_or_404(path_id)
    shown = shown_period(request, timezone.now())
    periods = routes_between([path_id], shown.since, shown.until)
    return _answer(f"{_name(path)}-routes", RoutePeriod, periods, {})


def _size(request: HttpRequest) -> int:
    try:
        return measured_packet_bytes(parameters.number(request, "size"))
    except UnknownChoice as error:
        raise Http404(str(error)) from error


def _name(path: Path) -> str:
    return f"{path.source.site.name}-{path.destination.site.name}-ipv{path.family}"


def _answer(name: str, kind: type[Any], rows: Iterable[Any], constant: dict[str, int]) -> HttpResponse:
    text = csv_text([*names_of(kind), *constant], ([*values_of(row), *constant.values()] for row in rows))
    response = HttpResponse(text, content_type="text/csv; charset=utf-8")
    response.headers["Content-Disposition"] = f'attachment; filename="{name}.csv"'
    return response
