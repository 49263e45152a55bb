"""Pings and traces on demand, requested for each direction with an agent at its source, and handed out with plans.

Requests not taken up in time are over.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

import msgspec
from django.db import IntegrityError, transaction
from django.db.models import Prefetch, prefetch_related_objects

from monitor.mesh.kinds.kind import ends
from monitor.mesh.models import Measurement, Mesh, Path, PingRequest, PingRun, TraceRequest
from monitor.mesh.schedule.on_demand import OnDemandError
from probes.site.wire import ON_DEMAND_PINGS, ON_DEMAND_TRACES, OnDemandPing, OnDemandPingReport, OnDemandTrace
from probes.trace.spec import TraceReason, TraceSpec

COUNT = 20
SPACING_S = 0.2
TIMEOUT_S = 2.0
PACKET_BYTES = 100
# An agent asks for its plan every 10 s; this allows for two requests that fail.
PINGS_TAKE_UP_S = 30
FIRST_REPORT_S = 10
# Deadline of the last report: taken up late, all sent and timed out, and retried for 30 s.
REPORTED_BY_S = 80
NOT_TAKEN_UP = "not_taken_up"
NOT_REPORTED = "not_reported"
TOO_OLD = "its agent is too old for on-demand pings; upgrade it"

# An agent asks for its plan every 10 s; with a slow centre, later.
TRACES_TAKE_UP_S = 60
# Minimum time between on-demand traces of a path: incidents may open on several figures at once.
REPEAT_S = 60
# Maximum paths of a request: many traces delay the agent's scheduled traces.
MOST_PATHS = 200

_HOSTS = ("path__source__site", "path__destination__site")


class PingsRunning(OnDemandError):
    """The path is being pinged on demand already."""

    status = 409


class UnknownRun(Exception):
    """No such run of this site is running."""


def fault_at_source(path: Path, verb: str) -> str | None:
    """Reason why the source cannot `verb` on demand, or None."""
    if path.retired_at is not None:
        return f"path {path} is retired; put it back into mesh.toml"
    return None if path.source.site.has_agent else f"site {path.source.site} has no agent to {verb} from"


def fault_of(path: Path) -> str | None:
    """Reason why a path cannot be pinged or traced on demand, or None."""
    fault = fault_at_source(path, "ping")
    if fault is None and path.destination.behind_nat:
        return f"host {path.destination} is behind NAT, where no ping arrives; ping from there"
    return fault


def reverse_of(path: Path) -> Path | None:
    """Reverse path between the same hosts, if in use."""
    return Path.objects.in_use().filter(source=path.destination_id, destination=path.source_id).first()


def ask_pings(path: Path, *, by: str, now: datetime) -> PingRequest:
    """Request pings of a path and, with a far agent, its reverse. Raises `OnDemandError`."""
    fault = fault_of(path)
    if fault is not None:
        raise OnDemandError(fault)
    reverse = reverse_of(path)
    pinged = [path] if reverse is None or fault_of(reverse) is not None else [path, reverse]
    try:
        with transaction.atomic():
            # Reports of a silent agent no longer come, so new pings can begin.
            for run in PingRun.objects.filter(path__in=pinged, ended_at=None).select_related("request"):
                _end_if_overdue(run, now)
                if run.outcome is not None:
                    PingRun.objects.filter(pk=run.pk, ended_at=None).update(
                        outcome=run.outcome, detail=run.detail, ended_at=now, awaited=[]
                    )
            request = PingRequest.objects.create(path=path, asked_at=now, asked_by=by)
            Mesh.objects.update(pings_until=now + timedelta(seconds=PINGS_TAKE_UP_S))
            PingRun.objects.bulk_create(PingRun(request=request, path=each) for each in pinged)
    except IntegrityError as error:
        raise PingsRunning(f"{path} is being pinged on demand already; its page shows the replies") from error
    return request


def ask_traces(paths: Sequence[Path], reason: TraceReason, *, by: str, now: datetime) -> list[TraceRequest]:
    """Request traces of paths and their reverses, except without a source agent or within `REPEAT_S` of another
    request."""
    return _request_traces(_both_directions(paths[:MOST_PATHS]), reason, by, now)


def ask_where_scheduled(
    path_ids: Iterable[int], reason: TraceReason, *, by: str, now: datetime, only_reverse: bool = False
) -> list[TraceRequest]:
    """As `ask_traces`, only for paths with traces in mesh.toml; `only_reverse` requests the reverse paths."""
    ids = set(path_ids) if only_reverse else set(_trace_settings(path_ids))
    forward = list(Path.objects.in_use().filter(pk__in=ids).order_by("pk")[:MOST_PATHS])
    paths = _both_directions(forward)[len(forward) if only_reverse else 0 :]
    traced = _trace_settings(path.pk for path in paths)
    return _request_traces([path for path in paths if path.pk in traced], reason, by, now)


def _request_traces(paths: Iterable[Path], reason: TraceReason, by: str, now: datetime) -> list[TraceRequest]:
    wanted = {path.pk: path for path in paths if fault_of(path) is None}
    lately = TraceRequest.objects.filter(path__in=wanted, asked_at__gt=now - timedelta(seconds=REPEAT_S))
    for path_id in lately.values_list("path_id", flat=True):
        wanted.pop(path_id, None)
    if not wanted:
        return []
    Mesh.objects.update(traces_until=now + timedelta(seconds=TRACES_TAKE_UP_S))
    return TraceRequest.objects.bulk_create(
        TraceRequest(path=path, reason=reason.value, asked_at=now, asked_by=by) for path in wanted.values()
    )


def _both_directions(paths: Sequence[Path]) -> list[Path]:
    hosts = {(path.destination_id, path.source_id) for path in paths}
    candidates = Path.objects.in_use().filter(
        source__in={source for source, _ in hosts}, destination__in={destination for _, destination in hosts}
    )
    return [*paths, *(path for path in candidates if (path.source_id, path.destination_id) in hosts)]


def _trace_settings(path_ids: Iterable[int]) -> dict[int, dict[str, Any]]:
    rows = Measurement.objects.in_use().filter(path__in=set(path_ids), test__kind="trace").select_related("test")
    return {row.path_id: row.test.parameters for row in rows.order_by("-test__name")}


def hand_out_pings(site_id: int, now: datetime, *, is_able: bool = True) -> tuple[OnDemandPing, ...]:
    """Mark requested pings as fetched and return them; end them for an agent unable to run them."""
    asked_after = now - timedelta(seconds=PINGS_TAKE_UP_S)
    rows = PingRun.objects.filter(path__source__site=site_id, ended_at=None, request__asked_at__gt=asked_after)
    if not is_able:
        rows.update(outcome=NOT_TAKEN_UP, detail=TOO_OLD, ended_at=now)
        return ()
    runs = list(rows.select_related("request", *_HOSTS).order_by("pk"))
    PingRun.objects.filter(pk__in=[run.pk for run in runs], fetched_at=None).update(fetched_at=now)
    return tuple(
        OnDemandPing(
            run_id=run.pk,
            path_id=run.path_id,
            address=run.path.destination.address_for(run.path.source),
            family=6 if run.path.family == 6 else 4,
            source=run.path.source.source_for(run.path.destination),
            begin_by=run.asked_at + timedelta(seconds=PINGS_TAKE_UP_S),
            count=COUNT,
            spacing_s=SPACING_S,
            timeout_s=TIMEOUT_S,
            packet_bytes=PACKET_BYTES,
        )
        for run in runs
    )


def hand_out_traces(site_id: int, now: datetime, *, is_able: bool = True) -> tuple[OnDemandTrace, ...]:
    """Mark requested traces as fetched and return them; none for an agent unable to run them."""
    asked_after = now - timedelta(seconds=TRACES_TAKE_UP_S)
    rows = TraceRequest.objects.filter(path__source__site=site_id, asked_at__gt=asked_after)
    requests = list(rows.select_related(*_HOSTS).order_by("pk")) if is_able else []
    TraceRequest.objects.filter(pk__in=[request.pk for request in requests], fetched_at=None).update(fetched_at=now)
    settings = _trace_settings(request.path_id for request in requests)
    return tuple(
        OnDemandTrace(
            run_id=request.pk,
            reason=TraceReason(request.reason),
            begin_by=request.asked_at + timedelta(seconds=TRACES_TAKE_UP_S),
            spec=msgspec.convert(
                {**settings.get(request.path_id, {}), "targets": [{**ends(request), "path_id": request.path_id}]},
                TraceSpec,
            ),
        )
        for request in requests
    )


@dataclass(frozen=True, slots=True)
class HandedOut:
    """Plan field with requests, the mesh column of their end, and the function that hands them out."""

    field: str
    until: str
    hand_out: Callable[..., tuple[OnDemandPing | OnDemandTrace, ...]]


# By the ability of the agent.
HANDED_OUT = {
    ON_DEMAND_PINGS: HandedOut("on_demand_pings", "pings_until", hand_out_pings),
    ON_DEMAND_TRACES: HandedOut("on_demand_traces", "traces_until", hand_out_traces),
}


def record(site_id: int, report: OnDemandPingReport, now: datetime) -> None:
    """Store a run's newest report. Raises `UnknownRun` where it is not running."""
    asked_after = now - timedelta(seconds=REPORTED_BY_S)
    running = PingRun.objects.filter(
        pk=report.run_id, path__source__site=site_id, ended_at=None, request__asked_at__gt=asked_after
    )
    updated = running.update(
        started_at=report.started_at,
        rtts_ms=list(report.rtts_ms),
        awaited=list(report.awaited),
        outcome=report.outcome,
        detail=report.detail or "",
        ended_at=None if report.outcome is None else now,
    )
    if not updated:
        raise UnknownRun(f"no on-demand ping {report.run_id} of this site is running")


def pings_of(request_id: int, now: datetime) -> PingRequest | None:
    request = PingRequest.objects.filter(pk=request_id).first()
    return None if request is None else _with_runs(request, now)


def latest_pings(path_id: int, now: datetime, since: datetime) -> PingRequest | None:
    """Newest on-demand pings of this path or its reverse, requested since."""
    runs = PingRun.objects.filter(path=path_id, request__asked_at__gte=since).select_related("request")
    run = runs.order_by("request__asked_at", "pk").last()
    return None if run is None else _with_runs(run.request, now)


def _with_runs(request: PingRequest, now: datetime) -> PingRequest:
    prefetch_related_objects([request], Prefetch("runs", PingRun.objects.select_related(*_HOSTS).order_by("pk")))
    for run in request.runs.all():
        _end_if_overdue(run, now)
    return request


def _end_if_overdue(run: PingRun, now: datetime) -> None:
    """Mark an overdue run as ended, unsaved: reports before `REPORTED_BY_S` still count."""
    age_s = (now - run.asked_at).total_seconds()
    if run.outcome is None and run.fetched_at is None and age_s > PINGS_TAKE_UP_S:
        run.outcome, run.detail = NOT_TAKEN_UP, f"the agent did not ask for its plan within {PINGS_TAKE_UP_S} s"
    elif run.outcome is None and run.started_at is None and age_s > PINGS_TAKE_UP_S + FIRST_REPORT_S:
        run.outcome, run.detail = NOT_TAKEN_UP, "the agent fetched the request and did not report"
    elif run.outcome is None and age_s > REPORTED_BY_S:
        run.outcome, run.detail = NOT_REPORTED, "the agent stopped reporting"
    if run.outcome is not None:
        run.awaited = []
