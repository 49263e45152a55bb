"""On-demand pings: both ends of a path send each other a few echo requests at once, and report while they do.

`ask` makes a request with a run for each direction whose source has an agent; `hand_out` gives the runs of a site to
its agent, with the plan; `record` stores the agent's reports. `monitor.mesh.schedule.ping_runs` reads them. They have
tables of their own: no summary, alert, report or count of completeness reads them, and nothing is planned for them.
A run that no agent begins within `TAKE_UP_S` is over; agents of the first versions do not know on-demand pings.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta

from django.db import IntegrityError, transaction

from monitor.mesh.models import Mesh, Path, PingRequest, PingRun
from probes.site.wire import OnDemandPing, OnDemandPingReport

COUNT = 20
SPACING_S = 0.2
TIMEOUT_S = 2.0
PACKET_BYTES = 100
TAKE_UP_S = 30
"""An agent asks for its plan every 10 s; this allows for two requests that fail."""
FIRST_REPORT_S = 10
REPORTED_BY_S = 80
"""When the last report must have come, from the request: taken up late, all sent and timed out, and the last report
retried for 30 s."""
NOT_TAKEN_UP = "not_taken_up"
NOT_REPORTED = "not_reported"
TOO_OLD = "its agent is too old for on-demand pings; upgrade it"


class PingsRefused(Exception):
    """On-demand pings that cannot be; the message has the reason and the fix."""


class PingsRunning(PingsRefused):
    """The path is being pinged on demand already."""


class UnknownRun(Exception):
    """No such run of this site is running."""


def fault_of(path: Path) -> str | None:
    """Reason why a path cannot be pinged on demand, or None."""
    if path.retired_at is not None:
        return f"path {path} is retired; put it back into mesh.toml"
    if not path.source.site.has_agent:
        return f"site {path.source.site} has no agent to ping from"
    if path.destination.behind_nat:
        return f"host {path.destination} is behind NAT, where no ping arrives; ping from there"
    return None


def ask(path: Path, *, by: str, now: datetime) -> PingRequest:
    """Request pings of a path and, where the other end has an agent, of the reverse path. Raises `PingsRefused`."""
    fault = fault_of(path)
    if fault is not None:
        raise PingsRefused(fault)
    reverse = reverse_of(path)
    pinged = [path] if reverse is None or fault_of(reverse) is not None else [path, reverse]
    try:
        with transaction.atomic():
            _end_overdue(pinged, now)
            request = PingRequest.objects.create(path=path, asked_at=now, asked_by=by)
            Mesh.objects.update(pings_until=now + timedelta(seconds=TAKE_UP_S))
            PingRun.objects.bulk_create(PingRun(request=request, path=each) for each in pinged)
    except IntegrityError as error:
        raise PingsRunning(f"{path} is being pinged on demand already; its page shows the replies") from error
    return request


def reverse_of(path: Path) -> Path | None:
    """The path back between the same hosts, if it is in use."""
    return Path.objects.in_use().filter(source=path.destination_id, destination=path.source_id).first()


def hand_out(site_id: int, now: datetime, *, is_able: bool) -> tuple[OnDemandPing, ...]:
    """The runs for a site's agent, noted as fetched. For an agent that does not know them they end here."""
    asked_after = now - timedelta(seconds=TAKE_UP_S)
    open_runs = PingRun.objects.filter(path__source__site=site_id, ended_at=None, request__asked_at__gt=asked_after)
    runs = list(open_runs.select_related("request", "path__source__site", "path__destination__site").order_by("pk"))
    if not runs:
        return ()
    pks = [run.pk for run in runs]
    if not is_able:
        PingRun.objects.filter(pk__in=pks, ended_at=None).update(outcome=NOT_TAKEN_UP, detail=TOO_OLD, ended_at=now)
        return ()
    PingRun.objects.filter(pk__in=pks, fetched_at=None).update(fetched_at=now)
    return tuple(_order(run) for run in runs)


def record(site_id: int, report: OnDemandPingReport, now: datetime) -> None:
    """Store the newest report of a run. Raises `UnknownRun` where no such run of the site is running."""
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


def _order(run: PingRun) -> OnDemandPing:
    source, destination = run.path.source, run.path.destination
    return OnDemandPing(
        run_id=run.pk,
        path_id=run.path_id,
        address=destination.address_for(source),
        family=6 if run.path.family == 6 else 4,
        source=source.source_for(destination),
        begin_by=run.request.asked_at + timedelta(seconds=TAKE_UP_S),
        count=COUNT,
        spacing_s=SPACING_S,
        timeout_s=TIMEOUT_S,
        packet_bytes=PACKET_BYTES,
    )


def _end_overdue(paths: Sequence[Path], now: datetime) -> None:
    """End the runs of these paths whose reports no longer come, so that new ones can begin."""
    open_runs = PingRun.objects.filter(path__in=paths, ended_at=None).select_related("request")
    for run in open_runs:
        missed = missed_deadline(run, now)
        if missed is not None:
            outcome, detail = missed
            PingRun.objects.filter(pk=run.pk, ended_at=None).update(
                outcome=outcome, detail=detail, ended_at=now, awaited=[]
            )


def missed_deadline(run: PingRun, now: datetime) -> tuple[str, str] | None:
    """Outcome and detail of a run whose agent has missed a deadline; None while it may still report, or if it ended.

    A report that comes later, but before `REPORTED_BY_S`, still counts.
    """
    age_s = (now - run.request.asked_at).total_seconds()
    if run.ended_at is not None:
        return None
    if run.fetched_at is None and age_s > TAKE_UP_S:
        return NOT_TAKEN_UP, f"the agent did not ask for its plan within {TAKE_UP_S} s"
    if run.fetched_at is not None and run.started_at is None and age_s > TAKE_UP_S + FIRST_REPORT_S:
        return NOT_TAKEN_UP, "the agent fetched the request and did not report"
    if age_s > REPORTED_BY_S:
        return NOT_REPORTED, "the agent stopped reporting"
    return None
