""" "Trace this path now": the request of an operator, and the state of the newest on-demand traces of a path.

An agent takes a request up with its plan; its trace is a result like any other, with the reason `on_demand`. So the
state is known from the request, until the trace is stored.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum

from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import reverse
from django.utils import timezone
from django.views.decorators.http import require_POST

from monitor.api.incidents import user_name
from monitor.archive.queries.routes.periods import stored_routes
from monitor.archive.queries.routes.traces import SHORTEST, StoredTrace, traces_between
from monitor.mesh.models import Path, TraceRequest
from monitor.mesh.schedule.on_demand_traces import TAKE_UP_S
from monitor.overview.on_demand.traces import TracesRefused, TracesTooOften, ask
from monitor.web.labels import outcome_label
from monitor.web.pages.incidents.operate import refusal
from monitor.web.request.paths import path_or_404
from probes.contract import Outcome
from probes.trace.spec import TraceReason

PLAN_EVERY_S = 10
"""Interval at which agents ask for their plan."""
DELIVERED_BY_S = 300
"""A trace takes a minute at most; its delivery is retried."""


class TraceState(StrEnum):
    """The state of an on-demand trace."""

    WAITING = "waiting"
    FETCHED = "fetched"
    MEASURED = "measured"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class TraceProgress:
    """An on-demand trace of a direction. `route_id` is None unless it is measured and showed a router."""

    path: Path
    asked_at: datetime
    state: TraceState
    status: str
    route_id: int | None = None

    @property
    def name(self) -> str:
        return f"{self.path.source.site} → {self.path.destination.site}"

    @property
    def is_running(self) -> bool:
        return self.state in (TraceState.WAITING, TraceState.FETCHED)

    @property
    def has_failed(self) -> bool:
        return self.state is TraceState.FAILED


@require_POST
def trace_now(request: HttpRequest, path_id: int) -> HttpResponse:
    """Trace the path in both directions, and redirect to the page that shows the progress."""
    path = path_or_404(path_id)
    back = f"{reverse('path', args=[path_id])}#test-now"
    try:
        ask(path, user_name(request), timezone.now())
    except TracesTooOften as error:
        return refusal(request, str(error), 429, back)
    except TracesRefused as error:
        return refusal(request, str(error), 422, back)
    return HttpResponseRedirect(back)


def trace_progress(path_id: int, now: datetime, since: datetime) -> tuple[TraceProgress, ...]:
    """The newest traces of a path that somebody asked for since a time, its own direction first; empty without any."""
    asked = TraceRequest.objects.filter(reason=TraceReason.ON_DEMAND, asked_at__gt=since)
    newest = asked.filter(path=path_id).order_by("-asked_at").select_related(*_HOSTS).first()
    if newest is None:
        return ()
    ends = {"path__source": newest.path.destination_id, "path__destination": newest.path.source_id}
    back = asked.filter(**ends, asked_at=newest.asked_at).select_related(*_HOSTS)
    return tuple(_progress(row, now) for row in (newest, *back))


_HOSTS = ("path__source__site", "path__destination__site")


def _progress(row: TraceRequest, now: datetime) -> TraceProgress:
    trace = next(
        (trace for trace in _since(row, now) if trace.reason == TraceReason.ON_DEMAND),
        None,
    )
    if trace is not None:
        return _ended(row, trace)
    site, age_s = row.path.source.site, (now - row.asked_at).total_seconds()
    state = TraceState.FETCHED if row.fetched_at is not None else TraceState.WAITING
    if row.fetched_at is not None:
        status = f"the agent of {site} has the request"
        if age_s > DELIVERED_BY_S:
            state, status = TraceState.FAILED, f"no result received from the agent of {site}"
    elif age_s < PLAN_EVERY_S:
        status = f"waiting for the agent of {site}, which asks every {PLAN_EVERY_S} s"
    elif age_s <= TAKE_UP_S:
        status = f"the agent of {site} is late"
    else:
        state, status = TraceState.FAILED, f"the agent of {site} did not take it up"
    return TraceProgress(row.path, row.asked_at, state, status)


def _since(row: TraceRequest, now: datetime) -> Sequence[StoredTrace]:
    """The traces of its path after the request; the clock of the agent may be a little slow."""
    since = row.asked_at - timedelta(seconds=2)
    until = min(now, row.asked_at + timedelta(seconds=DELIVERED_BY_S)) + SHORTEST
    return traces_between(row.path_id, since, until) if since < until else ()


def _ended(row: TraceRequest, trace: StoredTrace) -> TraceProgress:
    if trace.outcome != Outcome.MEASURED:
        detail = f": {trace.detail}" if trace.detail else ""
        return TraceProgress(row.path, row.asked_at, TraceState.FAILED, f"{outcome_label(trace.outcome)}{detail}")
    route = None if trace.route_id is None else stored_routes([trace.route_id]).get(trace.route_id)
    hops = f"{len(trace.hops)} hop{'' if len(trace.hops) == 1 else 's'}"
    parts = [hops if route is None else f"route {route.number}, {hops}"]
    if not trace.reached:
        parts.append(f"destination {trace.detail or 'not reached'}")
    return TraceProgress(row.path, row.asked_at, TraceState.MEASURED, ", ".join(parts), trace.route_id)
