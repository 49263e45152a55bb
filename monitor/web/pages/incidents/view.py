"""Pages of incidents, silences, maintenance and activity."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any

from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect
from django.shortcuts import render
from django.urls import reverse
from django.utils import timezone
from django.views.decorators.http import require_http_methods, require_safe

from monitor.accounts.roles import Action, needs
from monitor.alerts.incidents import listing
from monitor.alerts.incidents import quiet as quiet_times
from monitor.alerts.incidents.actions import ActionRefused, scope_of
from monitor.alerts.incidents.listing import StateFilter
from monitor.alerts.models import Incident, QuietPeriod, Severity
from monitor.analysis import figures
from monitor.api.incidents import status_of, user_name
from monitor.mesh.models import Mesh
from monitor.web import trends
from monitor.web.pages.first_run import still_waiting
from monitor.web.pages.incidents import operate
from monitor.web.pages.incidents.load import load_incident, load_list
from monitor.web.request import parameters

PAST_SHOWN = 25
QUIET_SHOWN = 200


@dataclass(frozen=True, slots=True)
class QuietRow:
    quiet: QuietPeriod
    standing: quiet_times.QuietState
    next_time: tuple[datetime, datetime] | None
    scope: str
    again: str


class ListPeriod(StrEnum):
    DAY = "day"
    WEEK = "week"
    MONTH = "month"
    EVER = "ever"


_WITHIN = {ListPeriod.DAY: timedelta(days=1), ListPeriod.WEEK: timedelta(days=7), ListPeriod.MONTH: timedelta(days=30)}


@require_safe
def incidents_page(request: HttpRequest) -> HttpResponse:
    now = timezone.now()
    which = parameters.choice(request, "state", StateFilter, StateFilter.OPEN)
    within = parameters.choice(request, "last", ListPeriod, ListPeriod.EVER)
    wanted = listing.IncidentFilter(
        which=which,
        severity=parameters.text(request, "severity"),
        site=parameters.text(request, "site"),
        group=parameters.text(request, "group"),
        path_id=parameters.number(request, "path"),
        since=None if within is ListPeriod.EVER else now - _WITHIN[within],
    )
    try:
        view = load_list(wanted, parameters.offset(request), parameters.PAGE_ROWS)
    except listing.UnknownFilter as error:
        raise Http404(str(error)) from error
    states: list[tuple[str, Any]] = [(f"{state} {view.counted.number(state)}", state) for state in StateFilter]
    severities: list[tuple[str, Any]] = [("any", ""), *((str(level), level.value) for level in reversed(Severity))]
    context = {
        "mesh": Mesh.objects.first(),
        "now": now,
        "view": view,
        "trends": trends.of_incidents(view.rows, now),
        "first_run": None if view.rows else still_waiting(now),
        "asked": wanted,
        "which": which,
        "is_narrowed": wanted != listing.IncidentFilter(which=which),
        "states": parameters.options(request, "state", states, which),
        "severities": parameters.options(request, "severity", severities, wanted.severity or ""),
        "lasts": parameters.options(
            request,
            "last",
            [("all time" if length is ListPeriod.EVER else length, length) for length in ListPeriod],
            within,
        ),
        "sheet": parameters.sheet(request, len(view.rows), total=view.counted.number(which)),
        "may_operate": operate.may_operate(request),
    }
    return render(request, "pages/incidents/incidents.html", context)


@require_safe
def incident_page(request: HttpRequest, incident_id: int) -> HttpResponse:
    now = timezone.now()
    try:
        view = load_incident(incident_id, parameters.number(request, "path"), now)
    except Incident.DoesNotExist as error:
        raise Http404(f"There is no incident {incident_id}; the list of incidents has those that there are.") from error
    may_operate = operate.may_operate(request)
    context = {
        "view": view,
        "now": now,
        "may_operate": may_operate,
        "silence_form": operate.SilenceForm(paths=view.paths[:20], sites=view.sites) if may_operate else None,
        "comment_form": operate.CommentForm() if may_operate else None,
    }
    return render(request, "pages/incidents/incident.html", context)


@require_http_methods(["GET", "HEAD", "POST"])
def maintenance_page(request: HttpRequest) -> HttpResponse:
    """Show silences and maintenance; a POST plans maintenance."""
    form = None
    if request.method == "POST":
        form = operate.MaintenanceForm(request.POST, paths=operate.posted_paths(request.POST.get("scope", "")))
        if form.is_valid():
            try:
                form.make(user_name(request), timezone.now())
                return HttpResponseRedirect(reverse("maintenance"))
            except ActionRefused as error:
                form.add_error(None, f"{error}.")
    return _maintenance(request, form)


@require_http_methods(["GET", "HEAD", "POST"])
@needs(Action.OPERATE)
def maintenance_change_page(request: HttpRequest, quiet_id: int) -> HttpResponse:
    quiet = (
        QuietPeriod.objects.select_related("site", "group", "path__source", "path__destination")
        .filter(pk=quiet_id, kind=QuietPeriod.Kind.MAINTENANCE)
        .first()
    )
    if quiet is None:
        raise Http404(f"There is no maintenance {quiet_id}.")
    posted = request.POST if request.method == "POST" else None
    form, status = operate.maintenance_form_of(quiet, posted), 200
    if posted is not None:
        status = 422
        if form.is_valid():
            try:
                form.change(quiet_id, user_name(request), timezone.now())
                return HttpResponseRedirect(reverse("maintenance"))
            except ActionRefused as error:
                form.add_error(None, f"{error}.")
                status = status_of(error)
    return render(request, "pages/incidents/maintenance_change.html", {"quiet": quiet, "form": form}, status=status)


@require_safe
@needs(Action.OPERATE)
def audit_page(request: HttpRequest) -> HttpResponse:
    offset = parameters.offset(request)
    who, incident_id = parameters.text(request, "who"), parameters.number(request, "incident")
    rows = listing.audit_records(who=who, incident_id=incident_id, offset=offset, limit=parameters.PAGE_ROWS + 1)
    shown = rows[: parameters.PAGE_ROWS]
    context = {
        "mesh": Mesh.objects.first(),
        "rows": shown,
        "who": who,
        "incident_id": incident_id,
        "sheet": parameters.sheet(request, len(shown), more=len(rows) > len(shown)),
    }
    return render(request, "pages/incidents/audit.html", context)


def _maintenance(request: HttpRequest, form: operate.MaintenanceForm | None) -> HttpResponse:
    now = timezone.now()
    may_operate = operate.may_operate(request)
    lasting = listing.quiet_times(now=now, limit=QUIET_SHOWN)
    past = [quiet for quiet in listing.quiet_times(limit=QUIET_SHOWN) if quiet not in lasting][:PAST_SHOWN]
    rows = [_row(quiet, now) for quiet in lasting]
    chosen = operate.posted_paths(f"path:{request.GET.get('path', '')}")
    context = {
        "mesh": Mesh.objects.first(),
        "now": now,
        "maintenance": [row for row in rows if row.quiet.kind == QuietPeriod.Kind.MAINTENANCE],
        "silences": [row for row in rows if row.quiet.kind == QuietPeriod.Kind.SILENCE],
        "past": [_row(quiet, now) for quiet in past],
        "may_operate": may_operate,
        "form": (form or operate.MaintenanceForm(paths=chosen, initial=_begin(request, now))) if may_operate else None,
        "silence_form": operate.SilenceForm(paths=chosen, initial=_begin(request, now), auto_id="silence_%s")
        if may_operate
        else None,
    }
    return render(request, "pages/incidents/maintenance.html", context, status=422 if form is not None else 200)


def _row(quiet: QuietPeriod, now: datetime) -> QuietRow:
    again = "" if quiet.every_s is None else f"every {figures.duration(quiet.every_s)}"
    return QuietRow(
        quiet, quiet_times.quiet_state(quiet, now), quiet_times.next_time(quiet, now), str(scope_of(quiet)), again
    )


def _begin(request: HttpRequest, now: datetime) -> dict[str, object]:
    start = (now + timedelta(hours=1)).replace(minute=0, second=0, microsecond=0)
    named = [f"{kind}:{request.GET[kind]}" for kind in ("path", "site", "group") if request.GET.get(kind)]
    times: dict[str, object] = {"starts_at": start, "ends_at": start + timedelta(hours=1)}
    return times | ({"scope": named[0]} if named else {})
