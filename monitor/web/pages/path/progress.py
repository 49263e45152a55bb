"""Progress of a path's on-demand pings, traces and throughput test.

A trace is a result with the reason `on_demand`: until stored, its state is the request's.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta

from monitor.analysis import figures
from monitor.archive.queries.routes.periods import stored_routes
from monitor.archive.queries.routes.traces import SHORTEST, StoredTrace, traces_between
from monitor.archive.queries.throughput import on_demand as outcomes
from monitor.archive.queries.throughput.on_demand import OnDemand, TestState
from monitor.mesh.models import Path, PingRun, Site, TraceRequest
from monitor.mesh.models.on_demand import RequestState
from monitor.mesh.schedule.requests import COUNT, TRACES_TAKE_UP_S, latest_pings
from monitor.web.labels import outcome_label
from probes.contract import Outcome
from probes.trace.spec import TraceReason

SHOWN_FOR = timedelta(hours=1)
# Interval at which agents ask for their plan.
PLAN_EVERY_S = 10
# A trace takes a minute at most; its delivery is retried.
TRACE_DELIVERED_BY_S = 300
# Geometry of a strip, in units of its own; lost requests have a row below the replies.
STEP, HEIGHT, MARGIN, LOST_ROW = 12, 44, 6, 12
# Smallest extent of a strip, of its maximum RTT: noise of less is not magnified.
SMALLEST_SCALE = 0.1

_HOSTS = ("path__source__site", "path__destination__site")


@dataclass(frozen=True, slots=True)
class Dot:
    kind: str  # reply, lost, awaited or unsent
    x: float
    y: float
    title: str


@dataclass(frozen=True, slots=True)
class ReplyScale:
    """RTTs at the edges; None without replies."""

    low_ms: float | None = None
    high_ms: float | None = None

    def y(self, rtt_ms: float) -> float:
        bottom = HEIGHT - MARGIN - LOST_ROW
        if self.low_ms is None or self.high_ms is None or self.high_ms <= self.low_ms:
            return float(bottom)
        return round(bottom - (bottom - MARGIN) * (rtt_ms - self.low_ms) / (self.high_ms - self.low_ms), 1)


@dataclass(frozen=True, slots=True, kw_only=True)
class DirectionProgress:
    path: Path
    asked_at: datetime
    state: RequestState
    status: str
    has_failed: bool = False
    route_id: int | None = None  # of a trace that showed a router

    @property
    def name(self) -> str:
        return f"{self.path.source.site} → {self.path.destination.site}"


@dataclass(frozen=True, slots=True, kw_only=True)
class PingsProgress(DirectionProgress):
    """`status` changes with its state only, `figures` with each reply."""

    run: PingRun
    scale: ReplyScale

    @property
    def width(self) -> int:
        return 2 * MARGIN + STEP * COUNT

    @property
    def height(self) -> int:
        return HEIGHT

    @property
    def figures(self) -> str:
        """Running figures, empty before the first request."""
        run = self.run
        if run.sent == 0:
            return ""
        loss = f" ({figures.percent(run.lost / run.sent)})" if run.lost and run.state is RequestState.ENDED else ""
        rtt = ""
        if run.rtt_median_ms is not None:
            least, median = figures.milliseconds(run.rtt_min_ms), figures.milliseconds(run.rtt_median_ms)
            rtt = f"; RTT minimum {least}, median {median}"
        return f"{run.sent} of {COUNT} sent, {run.lost} lost{loss}{rtt}"

    @property
    def dots(self) -> Iterator[Dot]:
        floor = HEIGHT - MARGIN
        for number in range(COUNT):
            x, name = MARGIN + STEP * (number + 0.5), f"request {number + 1}"
            rtt_ms = self.run.rtts_ms[number] if number < self.run.sent else None
            if number >= self.run.sent:
                yield Dot("unsent", x, floor, "")
            elif rtt_ms is not None:
                yield Dot("reply", x, self.scale.y(rtt_ms), f"{name}: {figures.milliseconds(rtt_ms)}")
            elif number in self.run.awaited:
                yield Dot("awaited", x, floor, f"{name}: no reply yet")
            else:
                yield Dot("lost", x, floor, f"{name}: lost")


@dataclass(frozen=True, slots=True)
class OnDemandProgress:
    """A path's newest on-demand runs within the last hour, own direction first."""

    directions: tuple[PingsProgress, ...]
    throughput: OnDemand | None
    traces: tuple[DirectionProgress, ...]
    now: datetime

    @property
    def is_running(self) -> bool:
        runs = any(direction.state is not RequestState.ENDED for direction in (*self.directions, *self.traces))
        return runs or (self.throughput is not None and self.throughput.state is not TestState.ENDED)

    @property
    def slot_in_s(self) -> int:
        return 0 if self.throughput is None else max(0, round((self.throughput.starts_at - self.now).total_seconds()))

    @property
    def duration_s(self) -> int:
        """Length of the throughput test without set-up, 0 without a test."""
        return 0 if self.throughput is None else int(self.throughput.parameters.get("duration_s", 0))

    @property
    def elapsed_s(self) -> int:
        if self.throughput is None:
            return 0
        since_s = math.floor((self.now - self.throughput.starts_at).total_seconds())
        return min(max(since_s, 0), self.duration_s)

    @property
    def announcement(self) -> str:
        """It changes with the state, not with each reply."""
        said = []
        for direction in self.directions:
            said.append(f"{direction.name}: {direction.figures if direction.run.is_measured else direction.status}.")
        if self.throughput is not None:
            said.append(f"Throughput test {self.throughput.state}.")
        said += [f"Trace {trace.name}: {trace.status}." for trace in self.traces]
        return " ".join(said)


def progress_of(path_id: int, now: datetime) -> OnDemandProgress:
    pings = latest_pings(path_id, now, now - SHOWN_FOR)
    runs = [] if pings is None else sorted(pings.runs.all(), key=lambda run: run.path_id != path_id)
    scale = _scale([rtt_ms for run in runs for rtt_ms in run.replies_ms])
    return OnDemandProgress(
        directions=tuple(_pings(run, scale, now) for run in runs),
        throughput=outcomes.latest(path_id, now, now - SHOWN_FOR),
        traces=_traces(path_id, now),
        now=now,
    )


def _waiting(site: Site, state: RequestState, age_s: float) -> str:
    if state is RequestState.FETCHED:
        return f"the agent of {site} has the request"
    if age_s < PLAN_EVERY_S:
        return f"waiting for the agent of {site}, which asks every {PLAN_EVERY_S} s"
    return f"the agent of {site} is late"


def _outcome(outcome: str, detail: str | None) -> str:
    return f"{outcome_label(outcome)}: {detail}" if detail else outcome_label(outcome)


def _pings(run: PingRun, scale: ReplyScale, now: datetime) -> PingsProgress:
    if run.is_measured:
        status = f"done; {run.detail}" if run.detail else "done"
    elif run.outcome is not None:
        status = _outcome(run.outcome, run.detail)
    elif run.state is RequestState.RUNNING:
        status = "running"
    else:
        status = _waiting(run.path.source.site, run.state, (now - run.asked_at).total_seconds())
    has_failed = run.state is RequestState.ENDED and not run.is_measured
    return PingsProgress(
        path=run.path,
        asked_at=run.asked_at,
        state=run.state,
        status=status,
        has_failed=has_failed,
        run=run,
        scale=scale,
    )


def _scale(rtts_ms: list[float]) -> ReplyScale:
    if not rtts_ms:
        return ReplyScale()
    high_ms = max(rtts_ms)
    return ReplyScale(min(min(rtts_ms), (1 - SMALLEST_SCALE) * high_ms), high_ms)


def _traces(path_id: int, now: datetime) -> tuple[DirectionProgress, ...]:
    asked = TraceRequest.objects.filter(reason=TraceReason.ON_DEMAND, asked_at__gt=now - SHOWN_FOR)
    newest = asked.filter(path=path_id).order_by("-asked_at").select_related(*_HOSTS).first()
    if newest is None:
        return ()
    ends = {"path__source": newest.path.destination_id, "path__destination": newest.path.source_id}
    back = asked.filter(**ends, asked_at=newest.asked_at).select_related(*_HOSTS)
    return tuple(_trace(row, now) for row in (newest, *back))


def _trace(row: TraceRequest, now: datetime) -> DirectionProgress:
    # The clock of the agent may be a little slow.
    since = row.asked_at - timedelta(seconds=2)
    until = min(now, row.asked_at + timedelta(seconds=TRACE_DELIVERED_BY_S)) + SHORTEST
    traces = traces_between(row.path_id, since, until) if since < until else ()
    trace = next((trace for trace in traces if trace.reason == TraceReason.ON_DEMAND), None)
    route_id = None if trace is None or trace.outcome != Outcome.MEASURED else trace.route_id
    state = RequestState.WAITING if row.fetched_at is None else RequestState.FETCHED
    site, age_s = row.path.source.site, (now - row.asked_at).total_seconds()
    silent = None
    if row.fetched_at is None and age_s > TRACES_TAKE_UP_S:
        silent = f"the agent of {site} did not take it up"
    elif row.fetched_at is not None and age_s > TRACE_DELIVERED_BY_S:
        silent = f"no result received from the agent of {site}"
    if trace is not None:
        status = _hops(trace) if trace.outcome == Outcome.MEASURED else _outcome(trace.outcome, trace.detail)
    else:
        status = silent or _waiting(site, state, age_s)
    return DirectionProgress(
        path=row.path,
        asked_at=row.asked_at,
        state=state if trace is None and silent is None else RequestState.ENDED,
        status=status,
        has_failed=silent is not None if trace is None else trace.outcome != Outcome.MEASURED,
        route_id=route_id,
    )


def _hops(trace: StoredTrace) -> str:
    route = None if trace.route_id is None else stored_routes([trace.route_id]).get(trace.route_id)
    hops = f"{len(trace.hops)} hop{'' if len(trace.hops) == 1 else 's'}"
    parts = [hops if route is None else f"route {route.number}, {hops}"]
    if not trace.reached:
        parts.append(f"destination {trace.detail or 'not reached'}")
    return ", ".join(parts)
