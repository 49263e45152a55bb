from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from urllib.parse import urlencode

from django.http import Http404, HttpRequest, HttpResponse, JsonResponse
from django.shortcuts import render
from django.utils import timezone
from django.views.decorators.http import require_safe

from monitor.archive.upkeep import freshness
from monitor.mesh.models import Path
from monitor.overview.annotations.compared import compared_annotations
from monitor.overview.grid import HistoryPeriod, UnknownChoice
from monitor.overview.moments import in_bounds
from monitor.overview.path_now import load_path_now
from monitor.overview.recurring_hours import path_congestion
from monitor.web.charts.compiled import compiled
from monitor.web.charts.marks import CHANGE_SIGNS, change_style
from monitor.web.charts.smoke import LOSS_STEP_LABELS
from monitor.web.pages.first_run import path_waits
from monitor.web.pages.grid.present import PathPresent, path_present
from monitor.web.pages.incidents.operate import may_operate
from monitor.web.pages.path.drawing import chart_specs
from monitor.web.pages.path.load import PathView, load_chart, load_path
from monitor.web.pages.path.on_demand import on_demand_of
from monitor.web.pages.path.other_tests.annotate import AnnotationForm
from monitor.web.pages.path.other_tests.links import load_links
from monitor.web.pages.path.routes.load import load_routes
from monitor.web.pages.path.settings import load_settings
from monitor.web.request import parameters
from monitor.web.request.grid_choices import ENDS, chosen_packet_bytes
from monitor.web.request.window import minute, shown_period, time_links


class PathTab(StrEnum):
    """Values are parts of addresses."""

    TESTS = "tests"
    DIRECTIONS = "directions"
    ROUTES = "routes"
    SETTINGS = "settings"
    ESTIMATE = "estimate"
    INCIDENTS = "incidents"
    CHANGES = "changes"
    LEDGER = "ledger"
    DOWNLOAD = "download"

    @property
    def label(self) -> str:
        return _LABELS[self]


_LABELS = {
    PathTab.TESTS: "Throughput tests",
    PathTab.DIRECTIONS: "Directions",
    PathTab.ROUTES: "Routes",
    PathTab.SETTINGS: "Best settings",
    PathTab.ESTIMATE: "Expected throughput",
    PathTab.INCIDENTS: "Incidents",
    PathTab.CHANGES: "Changes",
    PathTab.LEDGER: "Scheduled vs completed",
    PathTab.DOWNLOAD: "Download",
}


@dataclass(frozen=True, slots=True)
class TabLink:
    tab: PathTab
    query: str
    count: int | None

    @property
    def template(self) -> str:
        return f"pages/path/tabs/_{self.tab}.html"


@require_safe
def path_page(request: HttpRequest, path_id: int) -> HttpResponse:
    now = timezone.now()
    tab = parameters.choice(request, "tab", PathTab, PathTab.TESTS)
    shown = shown_period(request, now)
    with _not_found(path_id):
        view = load_path(path_id, shown, chosen_packet_bytes(request), _test_at(request))
    routes = load_routes(request, view)
    settings = load_settings(path_id, now, timezone.get_current_timezone())
    if tab in absent_tabs(view, len(routes.rows), len(settings)):
        tab = PathTab.TESTS
    is_awaited = view.is_empty and shown.period is not None
    fresh = freshness.load()
    context = {
        "view": view,
        "fresh": fresh,
        "present": _present(view, now),
        "routes": routes,
        "settings": settings,
        "links": load_links(view.path, now),
        "congestion": path_congestion(view.path, now, timezone.get_current_timezone()).sentences,
        "on_demand": on_demand_of(request, view.path, now),
        "now": now,
        "query": urlencode(parameters.kept(request), doseq=True),
        "periods": parameters.options(
            request, "period", [(period, period) for period in HistoryPeriod], shown.period, without=ENDS
        ),
        "ends": (minute(shown.since), minute(shown.until)),
        "change_keys": [(kind, sign, change_style(kind)) for kind, sign in CHANGE_SIGNS.items()],
        "waits": path_waits(view.path, view.packet_bytes, shown.since, now) if is_awaited else [],
        "time_links": time_links(request, shown, now),
        "tabs": tab_links(request, view, len(routes.rows), len(settings)),
        "tab": tab,
        "annotations": compared_annotations(path_id, view.packet_bytes, shown.since, shown.until, now),
        "may_operate": may_operate(request),
        "annotation_form": AnnotationForm(view.path) if may_operate(request) else None,
        "loss_steps": [(f"loss-step-{number}", label) for number, label in enumerate(LOSS_STEP_LABELS)],
        "kept": [("size", view.packet_bytes), ("tab", tab)],
        "sizes": parameters.options(
            request, "size", [(f"{size} B", size) for size in view.packet_sizes], view.packet_bytes
        ),
    }
    return render(request, "pages/path/path.html", context)


@require_safe
def charts_json(request: HttpRequest, path_id: int) -> JsonResponse:
    with _not_found(path_id):
        data = load_chart(path_id, shown_period(request, timezone.now()), chosen_packet_bytes(request))
    charts = {name: compiled(spec) for name, spec in chart_specs(data).items()}
    return JsonResponse(charts, json_dumps_params={"separators": (",", ":"), "ensure_ascii": False})


def _present(view: PathView, now: datetime) -> PathPresent | None:
    if view.path.retired_at is not None:
        return None
    return path_present(load_path_now(view.path.pk, view.packet_bytes, now))


@contextmanager
def _not_found(path_id: int) -> Iterator[None]:
    try:
        yield
    except Path.DoesNotExist as error:
        raise Http404(f"There is no path {path_id}; the grid links to those that there are.") from error
    except UnknownChoice as error:
        raise Http404(str(error)) from error


def _test_at(request: HttpRequest) -> datetime | None:
    given = request.GET.get("test")
    if given is None:
        return None
    try:
        at = datetime.fromisoformat(given)
        if at.tzinfo is not None:
            return in_bounds(at)
    except ValueError as error:
        raise Http404(f"test={given}: give when it began, like test=2026-11-21T12:00:00Z") from error
    raise Http404(f"test={given}: add the time zone, like test=2026-11-21T12:00:00Z")


def tab_links(request: HttpRequest, view: PathView, routes: int, sweeps: int) -> list[TabLink]:
    counts = {PathTab.ROUTES: routes, PathTab.INCIDENTS: len(view.incidents), PathTab.CHANGES: len(view.changes)}
    return [
        TabLink(tab, urlencode({**dict(request.GET.lists()), "tab": tab}, doseq=True), counts.get(tab))
        for tab in PathTab
        if tab not in absent_tabs(view, routes, sweeps)
    ]


def absent_tabs(view: PathView, routes: int, sweeps: int) -> set[PathTab]:
    """Tabs to leave out: directions without STAMP, routes without traces, settings without a scheduled sweep."""
    there = {
        PathTab.DIRECTIONS: view.directions is not None,
        PathTab.ROUTES: routes > 0,
        PathTab.SETTINGS: sweeps > 0,
    }
    return {tab for tab, is_there in there.items() if not is_there}
