"""The pages: the grid, a path, stored reports, and the chart bundle.

Views choose and pass on; what is shown is loaded in `monitor.api.grid` and `monitor.web.path_view`. One `now` a page.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any

from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import render
from django.utils import timezone
from django.views.decorators.http import require_safe

from monitor.alerts.queries import recent_incidents
from monitor.api.asked import in_bounds
from monitor.api.grid import Against, Grid, Period, UnknownChoice, load_grid
from monitor.archive import queries
from monitor.archive.queries import AgentContact
from monitor.mesh.models import Mesh, Path, Site
from monitor.reports.files import written_reports
from monitor.web import asked, bundle, calculator, matrix, measures, policy, world_map
from monitor.web.charts import CHANGE_SIGNS
from monitor.web.completeness_view import load_completeness
from monitor.web.first_run import first_run, path_waits, still_waiting
from monitor.web.measures import MEASURES
from monitor.web.path_view import load_path
from monitor.web.run_now import run_now_of
from monitor.web.shown import minute, shown_of
from monitor.web.site_view import load_site
from monitor.web.sites_view import LATE_AFTER, load_sites

CLOSED_INCIDENTS = 5
REFUSED_SHOWN = 20
YEAR_S = 365 * 86_400
SHOWN: list[tuple[str, Any]] = [("figures", ""), ("change in a week", Against.WEEK), ("in a year", Against.YEAR)]
ENDS = ("since", "until")
GRID_PERIODS = (Period.HOUR, Period.DAY, Period.WEEK)


class Days(StrEnum):
    """How many days the completeness page goes back."""

    WEEK = "7"
    FORTNIGHT = "14"
    MONTH = "30"


@dataclass(frozen=True, slots=True)
class AgentRow:
    """A monitoring site: its newest contact, None if it never delivered, and its results refused of late."""

    site: Site
    contact: AgentContact | None
    is_late: bool
    refused: int


@require_safe
def grid_page(request: HttpRequest) -> HttpResponse:
    """The first page: every path at a glance."""
    now = timezone.now()
    grid = _load_grid(request, now)
    contacts = queries.agent_contacts()
    refused = queries.newest_refused(REFUSED_SHOWN)
    context = {
        "mesh": Mesh.objects.first(),
        "grid": grid,
        "now": now,
        "title": MEASURES[grid.metric].title,
        **_grid_choices(request, grid),
        "body": matrix.body_html(grid),
        "counts": matrix.counts(grid),
        "legend": matrix.legend(grid),
        "dense": len(grid.destinations) >= matrix.DENSE_FROM_SITES,
        "first_run": first_run(contacts, now) if grid.newest_measured_at is None else None,
        "open_incidents": grid.open_incidents,
        "closed_incidents": [
            one for one in recent_incidents(CLOSED_INCIDENTS + len(grid.open_incidents)) if one.closed_at
        ][:CLOSED_INCIDENTS],
        "agents": _agent_rows(contacts, refused, now),
        "refused": refused,
        "reports": written_reports(),
    }
    return render(request, "web/grid.html", context)


@require_safe
def map_page(request: HttpRequest) -> HttpResponse:
    """The grid on a map of the world."""
    now = timezone.now()
    grid = _load_grid(request, now)
    rows = Site.objects.in_use().values_list("id", "latitude_deg", "longitude_deg")
    where = {key: (latitude, longitude) for key, latitude, longitude in rows}
    context = {
        "mesh": Mesh.objects.first(),
        "grid": grid,
        "now": now,
        "title": MEASURES[grid.metric].title,
        **_grid_choices(request, grid),
        "map": world_map.world_map(grid, where),
        "query": matrix.query(grid),
        "legend": matrix.legend(grid),
        "first_run": first_run(queries.agent_contacts(), now) if grid.newest_measured_at is None else None,
    }
    return render(request, "web/map.html", context)


@require_safe
def path_page(request: HttpRequest, path_id: int) -> HttpResponse:
    """One path over time."""
    now = timezone.now()
    shown = shown_of(request, now)
    try:
        view = load_path(path_id, shown, _size(request), _test_at(request))
    except Path.DoesNotExist as error:
        raise Http404(f"There is no path {path_id}; the grid links to those that there are.") from error
    except UnknownChoice as error:
        raise Http404(str(error)) from error
    is_awaited = view.is_empty and shown.period is not None
    context = {
        "view": view,
        "run_now": run_now_of(request, view.path, now),
        "now": now,
        "periods": asked.options(request, "period", [(one, one) for one in Period], shown.period, without=ENDS),
        "ends": (minute(shown.since), minute(shown.until)),
        "change_signs": CHANGE_SIGNS,
        "waits": path_waits(view.path, view.packet_bytes, shown.since, now) if is_awaited else [],
        "kept": [("size", view.packet_bytes)],
        "sizes": asked.options(request, "size", [(f"{size} B", size) for size in view.packet_sizes], view.packet_bytes),
        "bundle_version": bundle.bundle_version(),
    }
    return render(request, "web/path.html", context)


@require_safe
def completeness_page(request: HttpRequest) -> HttpResponse:
    """What was measured of the plan, and what came of that."""
    now = timezone.now()
    length = asked.choice(request, "days", Days, Days.WEEK)
    view = load_completeness(int(length), now)
    context = {
        "mesh": Mesh.objects.first(),
        "view": view,
        "first_run": None if view.measured else still_waiting(now),
        "lengths": asked.options(request, "days", [(f"{one} days", one) for one in Days], length),
    }
    return render(request, "web/completeness.html", context)


@require_safe
def sites_page(request: HttpRequest) -> HttpResponse:
    """How each site's agent is."""
    now = timezone.now()
    view = load_sites(now)
    is_heard = any(card.report is not None for card in view.cards)
    context = {
        "mesh": Mesh.objects.first(),
        "view": view,
        "now": now,
        "first_run": None if is_heard else still_waiting(now),
    }
    return render(request, "web/sites.html", context)


@require_safe
def site_page(request: HttpRequest, name: str) -> HttpResponse:
    """One site: its agent, its paths both ways, its incidents."""
    now = timezone.now()
    shown = shown_of(request, now)
    try:
        view = load_site(name, shown, _size(request), now)
    except Site.DoesNotExist as error:
        raise Http404(f"There is no site {name}; /sites/ lists those that there are.") from error
    except UnknownChoice as error:
        raise Http404(str(error)) from error
    context = {
        "view": view,
        "now": now,
        "first_run": None if view.packet_sizes else still_waiting(now),
        "periods": asked.options(request, "period", [(one, one) for one in Period], shown.period, without=ENDS),
        "sizes": asked.options(request, "size", [(f"{size} B", size) for size in view.packet_sizes], view.packet_bytes),
    }
    return render(request, "web/site.html", context)


@require_safe
def calculator_page(request: HttpRequest) -> HttpResponse:
    """An estimate from figures typed in."""
    figures = calculator.Figures(request.GET if request.GET else None)
    context = {"form": figures, "answer": calculator.answer(figures)}
    return render(request, "web/calculator.html", context, status=422 if figures.errors else 200)


@require_safe
def report(request: HttpRequest, name: str) -> HttpResponse:
    """A weekly report as it was written; with `.pdf` behind its name, as a PDF."""
    for written in written_reports():
        if name == f"{written.week}.pdf" and written.pdf is not None:
            return HttpResponse(written.pdf.read_bytes(), content_type="application/pdf")
        if str(written.week) == name:
            response = HttpResponse(written.path.read_bytes(), content_type="text/html; charset=utf-8")
            response.headers[policy.HEADER] = policy.STORED_DOCUMENT
            return response
    raise Http404(f"There is no report {name}; `manage.py report weekly` writes last week's.")


@require_safe
def chart_bundle(request: HttpRequest, version: str) -> HttpResponse:
    """Vega and what belongs to it. The version is in the address, so it can be kept for ever."""
    if version != bundle.bundle_version():
        raise Http404(f"The chart bundle is of version {bundle.bundle_version()}.")
    response = HttpResponse(bundle.bundle_gzip(), content_type="text/javascript; charset=utf-8")
    response.headers["Content-Encoding"] = "gzip"
    response.headers["Cache-Control"] = f"public, max-age={YEAR_S}, immutable"
    return response


def _load_grid(request: HttpRequest, now: datetime) -> Grid:
    period = asked.choice(request, "period", Period, Period.DAY)
    try:
        return load_grid(
            _metric(request).metric,
            period,
            now,
            packet_bytes=_size(request),
            group=request.GET.get("group") or None,
            against=_against(request),
        )
    except UnknownChoice as error:
        raise Http404(str(error)) from error


def _against(request: HttpRequest) -> Against | None:
    return asked.choice(request, "against", Against, Against.WEEK) if request.GET.get("against") else None


def _metric(request: HttpRequest) -> measures.Choice:
    return asked.choice(request, "metric", measures.Choice, measures.Choice.LOSS)


def _size(request: HttpRequest) -> int | None:
    given = request.GET.get("size")
    if given is None:
        return None
    if not (given.isascii() and given.isdigit() and len(given) <= 5):
        raise Http404(f"size={given}: give bytes of ICMP payload as a whole number, like size=100")
    return int(given)


def _test_at(request: HttpRequest) -> datetime | None:
    """When the throughput test began that the page is to show in full."""
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


def _grid_choices(request: HttpRequest, grid: Grid) -> dict[str, list[asked.Option]]:
    """The rows of choices of a page that shows a grid."""
    metrics: list[tuple[str, Any]] = [(MEASURES[one.metric].short, one) for one in measures.Choice]
    return {
        "metrics": asked.options(request, "metric", metrics, _metric(request)),
        "periods": asked.options(request, "period", [(one, one) for one in GRID_PERIODS], grid.period),
        "sizes": asked.options(request, "size", [(f"{size} B", size) for size in grid.packet_sizes], grid.packet_bytes),
        "groups": _group_options(request, grid),
        "shown": asked.options(request, "against", SHOWN, grid.against or ""),
    }


def _group_options(request: HttpRequest, grid: Grid) -> list[asked.Option]:
    """All groups together, then each; nothing to choose where there is only one."""
    if len(grid.groups) < 2:
        return []
    labelled: list[tuple[str, Any]] = [("all groups", ""), *((name, name) for name in grid.groups)]
    return asked.options(request, "group", labelled, grid.group or "")


def _agent_rows(contacts: list[AgentContact], refused: list[queries.RefusedReport], now: datetime) -> list[AgentRow]:
    heard = {contact.site_id: contact for contact in contacts}
    counts = Counter(one.site_id for one in refused)
    sites = Site.objects.in_use().filter(has_agent=True)
    return [
        AgentRow(site, contact, contact is not None and now - contact.received_at > LATE_AFTER, counts[site.id])
        for site in sites
        for contact in (heard.get(site.id),)
    ]
