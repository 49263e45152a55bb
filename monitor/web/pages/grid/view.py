"""The first page: every path at a glance."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from urllib.parse import urlencode

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.utils import timezone
from django.views.decorators.http import require_safe

from monitor.agents.late_agents import is_late
from monitor.alerts.incidents.queries import recent_incidents
from monitor.archive.queries.operation.deliveries import AgentContact, RefusedReport, agent_contacts, newest_refused
from monitor.mesh.models import Mesh, Site
from monitor.reports.files import next_report_at, written_reports
from monitor.web.pages.first_run import first_run
from monitor.web.pages.grid import drawn, legend, matrix
from monitor.web.pages.grid.choices import options_of_view
from monitor.web.pages.grid.contents import GridContents, load_contents, remember
from monitor.web.pages.grid.worst import worst_rows
from monitor.web.pages.wall.view import wall_page, wants_wall
from monitor.web.request import parameters
from monitor.web.request.grid_choices import options_of_grid

CLOSED_INCIDENTS = 5
REFUSED_SHOWN = 20
DENSE_FROM_SITES = 16
MOST_AGENTS = 20
"""Agents with a row each; of more, only those with a problem have a row, up to as many."""


@dataclass(frozen=True, slots=True)
class AgentRow:
    """A monitoring site: its newest contact (None if it never reported) and the number of recently rejected results."""

    site: Site
    contact: AgentContact | None
    is_late: bool
    refused: int

    @property
    def has_problem(self) -> bool:
        return self.contact is None or self.is_late or self.contact.dropped > 0 or self.refused > 0


@require_safe
def grid_page(request: HttpRequest) -> HttpResponse:
    """The first page: every path at a glance; with ?wall=1 for a wall screen."""
    if wants_wall(request):
        return wall_page(request)
    now = timezone.now()
    shown = load_contents(request, now)
    grid, measure = shown.grid, shown.measure
    words = legend.legend(grid, measure)
    contacts = agent_contacts()
    refused = newest_refused(REFUSED_SHOWN)
    agents = _agent_rows(contacts, refused, now)
    problems = [row for row in agents if row.has_problem]
    reports = written_reports()
    context = {
        "mesh": Mesh.objects.first(),
        "grid": grid,
        "now": now,
        "period_words": legend.period_words(grid),
        "title": measure.title,
        **options_of_grid(request, grid),
        **options_of_view(request, shown.view, is_compact=shown.is_compact, may_choose=not shown.is_drawn),
        "shown": shown,
        "has_cells": "parts" not in request.GET,
        "worst": worst_rows(shown),
        **({} if "parts" in request.GET or shown.is_list else _cells(shown, words)),
        "counts": legend.counts(grid),
        "legend": words,
        "dense": len(shown.layout.columns) >= DENSE_FROM_SITES,
        "address": urlencode(parameters.kept(request), doseq=True),
        "first_run": first_run(contacts, now) if grid.newest_measured_at is None else None,
        "open_incidents": grid.open_incidents,
        "closed_incidents": [
            incident for incident in recent_incidents(CLOSED_INCIDENTS + len(grid.open_incidents)) if incident.closed_at
        ][:CLOSED_INCIDENTS],
        "agents": agents if len(agents) <= MOST_AGENTS else problems[:MOST_AGENTS],
        "agent_count": len(agents),
        "agent_problems": len(problems),
        "refused": refused,
        "reports": reports,
        "next_report_at": None if reports else next_report_at(now),
    }
    return render(request, "pages/grid/grid.html", context)


def _cells(shown: GridContents, words: list[legend.LegendEntry]) -> dict[str, Any]:
    """The cells of the matrix, as a table or for the script that draws them, and their version."""
    cells = shown.cells()
    version = shown.version(cells)
    remember(version, cells)
    if shown.is_drawn:
        data = drawn.data_json(shown.layout, cells, version, words, shown.unfolding)
        return {"version": version, "drawn": data}
    heads = [(line, matrix.line_link(line, shown.unfolding)) for line in shown.layout.columns]
    body = matrix.body_html(shown.layout, cells, shown.unfolding)
    return {"version": version, "heads": heads, "body": body}


def _agent_rows(contacts: list[AgentContact], refused: list[RefusedReport], now: datetime) -> list[AgentRow]:
    heard = {contact.site_id: contact for contact in contacts}
    counts = Counter(report.site_id for report in refused)
    sites = Site.objects.in_use().filter(has_agent=True)
    return [
        AgentRow(site, contact, contact is not None and is_late(now - contact.received_at), counts[site.id])
        for site in sites
        for contact in (heard.get(site.id),)
    ]
