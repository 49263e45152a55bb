"""The block "Test this path now" of a path page: its form for operators, the replies to on-demand pings while they
arrive, and the progress of an on-demand throughput test and of on-demand traces.

A script (static/web/on_demand.js) polls `progress`, whose HTML is that of the page: without scripts a reload shows the
same.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from datetime import datetime, timedelta

from django.db import transaction
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect, JsonResponse
from django.template.loader import render_to_string
from django.urls import reverse
from django.utils import timezone
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_POST, require_safe

from monitor.analysis import figures
from monitor.api.incidents import user_name
from monitor.archive.queries.throughput import on_demand as outcomes
from monitor.archive.queries.throughput.on_demand import OnDemand, TestState
from monitor.mesh.models import Path
from monitor.mesh.schedule import on_demand, on_demand_pings
from monitor.mesh.schedule.on_demand import NoFreeSlot, OnDemandError
from monitor.mesh.schedule.on_demand_pings import PingsRefused, PingsRunning
from monitor.mesh.schedule.ping_runs import PingRunState, PingsState, RunState, latest_pings
from monitor.overview.on_demand.pings import PingsTooOften, ask
from monitor.web.labels import outcome_label
from monitor.web.pages.incidents.operate import may_operate, problems, refusal
from monitor.web.pages.path.run_now import SettingsForm
from monitor.web.pages.path.trace_now import PLAN_EVERY_S, TraceProgress, trace_progress
from monitor.web.request.paths import path_or_404

SHOWN_FOR = timedelta(hours=1)
PINGS_FIRST_S = 20
"""Lead of a throughput test that begins after the pings: 10 s for the plan, 7 s for the pings, and a reserve."""
STEP, HEIGHT, MARGIN, LOST_ROW = 12, 44, 6, 12
"""Geometry of a strip, in units of its own; lost requests have a row below the replies."""
SMALLEST_SCALE = 0.1
"""Smallest extent of a strip, of its maximum RTT: noise of less is not magnified."""


@dataclass(frozen=True, slots=True)
class Dot:
    """A request in a strip: `kind` is `reply`, `lost`, `awaited` or `unsent`."""

    kind: str
    x: float
    y: float
    title: str


@dataclass(frozen=True, slots=True)
class ReplyScale:
    """The RTTs at the lower and upper edge of both strips; None without replies."""

    low_ms: float | None = None
    high_ms: float | None = None

    def y(self, rtt_ms: float) -> float:
        bottom = HEIGHT - MARGIN - LOST_ROW
        if self.low_ms is None or self.high_ms is None or self.high_ms <= self.low_ms:
            return float(bottom)
        return round(bottom - (bottom - MARGIN) * (rtt_ms - self.low_ms) / (self.high_ms - self.low_ms), 1)


@dataclass(frozen=True, slots=True)
class DirectionProgress:
    """A direction of on-demand pings as the page shows it. `status` changes with its state only, `figures` with each
    reply."""

    run: PingRunState
    status: str
    figures: str
    dots: tuple[Dot, ...]
    scale: ReplyScale

    @property
    def name(self) -> str:
        return f"{self.run.path.source.site} → {self.run.path.destination.site}"

    @property
    def has_failed(self) -> bool:
        return self.run.state is RunState.ENDED and not self.run.is_measured

    @property
    def width(self) -> int:
        return 2 * MARGIN + STEP * self.run.count

    @property
    def height(self) -> int:
        return HEIGHT


@dataclass(frozen=True, slots=True)
class OnDemandProgress:
    """The newest on-demand pings, throughput test and traces of a path within the last hour, None without any."""

    pings: PingsState | None
    directions: tuple[DirectionProgress, ...]
    throughput: OnDemand | None
    traces: tuple[TraceProgress, ...]
    now: datetime

    @property
    def is_running(self) -> bool:
        runs = self.pings is not None and self.pings.is_running
        runs = runs or any(trace.is_running for trace in self.traces)
        return runs or (self.throughput is not None and self.throughput.state is not TestState.ENDED)

    @property
    def slot_in_s(self) -> int:
        """Seconds until the throughput test begins."""
        return 0 if self.throughput is None else max(0, round((self.throughput.starts_at - self.now).total_seconds()))

    @property
    def duration_s(self) -> int:
        """Length of the throughput test, without its set-up."""
        return 0 if self.throughput is None else int(self.throughput.parameters.get("duration_s", 0))

    @property
    def elapsed_s(self) -> int:
        """Seconds that the throughput test has run."""
        if self.throughput is None:
            return 0
        since_s = math.floor((self.now - self.throughput.starts_at).total_seconds())
        return min(max(since_s, 0), self.duration_s)

    @property
    def announcement(self) -> str:
        """For screen readers: changes with the state, not with each reply."""
        said = []
        for direction in self.directions:
            is_measured = direction.run.state is RunState.ENDED and direction.run.is_measured
            said.append(f"{direction.name}: {direction.figures if is_measured else direction.status}.")
        if self.throughput is not None:
            said.append(f"Throughput test {self.throughput.state}.")
        said += [f"Trace {trace.name}: {trace.status}." for trace in self.traces]
        return " ".join(said)


@dataclass(frozen=True, slots=True)
class OnDemandBlock:
    """`form` is None without permission, and where the path cannot be tested; `can_throughput` is whether a throughput
    test is possible too, `needs_operator` whether only the permission is missing."""

    form: SettingsForm | None
    can_throughput: bool
    progress: OnDemandProgress
    needs_operator: bool
    may_operate: bool = False

    @property
    def is_shown(self) -> bool:
        has_progress = any((self.progress.pings, self.progress.throughput, self.progress.traces))
        return self.form is not None or self.needs_operator or has_progress


def on_demand_of(request: HttpRequest, path: Path, now: datetime) -> OnDemandBlock:
    """The form, and the newest on-demand test of a path."""
    can_ping, may_ask = on_demand_pings.fault_of(path) is None, may_operate(request)
    return OnDemandBlock(
        form=SettingsForm() if can_ping and may_ask else None,
        can_throughput=on_demand.fault_of(path) is None,
        progress=_progress(path.pk, now),
        needs_operator=can_ping and not may_ask,
        may_operate=may_ask,
    )


@require_POST
def test_now(request: HttpRequest, path_id: int) -> HttpResponse:
    """Ping the path, then run a throughput test if asked for, and redirect to the page that shows the progress."""
    path, now = path_or_404(path_id), timezone.now()
    back = f"{reverse('path', args=[path_id])}#test-now"
    form = SettingsForm(request.POST) if request.POST.get("throughput") else None
    if form is not None and not form.is_valid():
        return refusal(request, problems(form), 422, back)
    try:
        with transaction.atomic():
            ask(path, user_name(request), now)
            if form is not None:
                on_demand.ask(path, form.settings, by=user_name(request), now=now, lead_s=PINGS_FIRST_S)
    except PingsTooOften as error:
        return refusal(request, str(error), 429, back)
    except (PingsRefused, OnDemandError) as error:
        return refusal(request, str(error), 409 if isinstance(error, PingsRunning | NoFreeSlot) else 422, back)
    return HttpResponseRedirect(back)


@require_safe
@never_cache
def progress(request: HttpRequest, path_id: int) -> JsonResponse:
    """The progress as JSON: its HTML, the announcement for screen readers, and whether anything still runs."""
    state = _progress(path_or_404(path_id).pk, timezone.now())
    html = render_to_string("pages/path/_on_demand_progress.html", {"progress": state}, request)
    return JsonResponse({"html": html, "announcement": state.announcement, "is_running": state.is_running})


def _progress(path_id: int, now: datetime) -> OnDemandProgress:
    pings = latest_pings(path_id, now, now - SHOWN_FOR)
    runs = () if pings is None else pings.runs
    scale = _scale([rtt_ms for run in runs for rtt_ms in run.replies_ms])
    age_s = 0.0 if pings is None else (now - pings.asked_at).total_seconds()
    return OnDemandProgress(
        pings=pings,
        directions=tuple(
            DirectionProgress(run, _status(run, age_s), _figures(run), tuple(_dots(run, scale)), scale)
            for run in sorted(runs, key=lambda run: run.path.pk != path_id)
        ),
        throughput=outcomes.latest(path_id, now, now - SHOWN_FOR),
        traces=trace_progress(path_id, now, now - SHOWN_FOR),
        now=now,
    )


def _status(run: PingRunState, age_s: float) -> str:
    site = run.path.source.site
    if run.state is RunState.WAITING:
        if age_s < PLAN_EVERY_S:
            return f"waiting for the agent of {site}, which asks every {PLAN_EVERY_S} s"
        return f"the agent of {site} is late"
    if run.state is RunState.FETCHED:
        return f"the agent of {site} has the request"
    if run.state is RunState.RUNNING:
        return "running"
    if run.is_measured:
        return "done" if run.detail is None else f"done; {run.detail}"
    label = outcome_label(run.outcome or "")
    return label if run.detail is None else f"{label}: {run.detail}"


def _figures(run: PingRunState) -> str:
    """The running figures; empty before the first request was sent."""
    if run.sent == 0:
        return ""
    loss = f" ({figures.percent(run.lost / run.sent)})" if run.lost and run.state is RunState.ENDED else ""
    rtt = ""
    if run.rtt_median_ms is not None:
        least, median = figures.milliseconds(run.rtt_min_ms), figures.milliseconds(run.rtt_median_ms)
        rtt = f"; RTT minimum {least}, median {median}"
    return f"{run.sent} of {run.count} sent, {run.lost} lost{loss}{rtt}"


def _scale(rtts_ms: list[float]) -> ReplyScale:
    if not rtts_ms:
        return ReplyScale()
    high_ms = max(rtts_ms)
    return ReplyScale(min(min(rtts_ms), (1 - SMALLEST_SCALE) * high_ms), high_ms)


def _dots(run: PingRunState, scale: ReplyScale) -> list[Dot]:
    dots = []
    floor = HEIGHT - MARGIN
    for number in range(run.count):
        x = MARGIN + STEP * (number + 0.5)
        if number >= run.sent:
            dots.append(Dot("unsent", x, floor, ""))
            continue
        rtt_ms = run.rtts_ms[number]
        if rtt_ms is not None:
            dots.append(Dot("reply", x, scale.y(rtt_ms), f"request {number + 1}: {figures.milliseconds(rtt_ms)}"))
        elif number in run.awaited:
            dots.append(Dot("awaited", x, floor, f"request {number + 1}: no reply yet"))
        else:
            dots.append(Dot("lost", x, floor, f"request {number + 1}: lost"))
    return dots
