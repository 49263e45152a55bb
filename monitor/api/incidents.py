"""The users' API about incidents and activity; changes and activity need the operator role (`accounts.access`)."""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum
from typing import Annotated, Any, Literal

from django.http import HttpRequest, HttpResponse
from django.utils import timezone
from ninja import Header, Query, Router, Schema
from ninja.errors import HttpError
from pydantic import AfterValidator, Field, StringConstraints

from monitor.accounts.access import may_operate
from monitor.alerts.detect.rules.by_direction import DIRECTION
from monitor.alerts.evidence.evidence import Evidence, evidence
from monitor.alerts.evidence.ticket import ticket_text
from monitor.alerts.evidence.words import headline
from monitor.alerts.evidence.words import until as end_of
from monitor.alerts.history import opened_at
from monitor.alerts.incidents import actions, listing
from monitor.alerts.incidents.own_track import own_track, peak_of
from monitor.alerts.models import (
    AuditRecord,
    HistoryEvent,
    Incident,
    IncidentChange,
    IncidentPath,
    IncidentState,
    Severity,
)
from monitor.analysis.segments.loss_segments import LossSegment
from monitor.api.freshness import EVALUATED_HEADER
from monitor.api.parameters import Limit, Moment, Offset, ProblemOut
from monitor.archive.upkeep import freshness
from monitor.mesh.models import Family
from monitor.mesh.schedule.on_demand import OnDemandError
from monitor.present.track import Signal
from probes import free_text

# Spelt out: OpenAPI needs unique class names, and cells of the grid have a State too.
InState = Literal[IncidentState.PENDING, IncidentState.OPEN, IncidentState.ACKNOWLEDGED, IncidentState.RESOLVED]
TOTAL_HEADER = "X-Total-Count"


def on_one_line(text: str) -> str:
    """Check a text by the rule for texts from outside. Raises `ValueError`."""
    if (fault := free_text.fault(text)) is not None:
        raise ValueError(f"must {fault}")
    return text


def on_lines(text: str) -> str:
    for number, line in enumerate(text.split("\n"), 1):
        try:
            on_one_line(line.removesuffix("\r"))
        except ValueError as error:
            raise ValueError(f"line {number} {error}") from error
    return text


# A name or a key.
Line = Annotated[str, StringConstraints(min_length=1, max_length=200), AfterValidator(on_one_line)]
# Text written by a person.
Text = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1, max_length=4000), AfterValidator(on_lines)]
RequestKey = Annotated[
    Line | None,
    Header(
        alias="Idempotency-Key",
        description="a name of your own for this request: repeated requests with the same key have no effect",
    ),
]

router = Router(tags=["incidents"])


class IncidentOut(Schema):
    """A cause with the paths it explains. `title` is that of the pages, with the present and the worst figure;
    `summary` has the figures at detection. `began_at` is the likeliest onset by the bursts of its paths, null where
    these do not tell it; `ended_at` is the end of an incident that is resolved, null while open: its duration
    is between these. `detected_at` is the time of its detection, `opened_at` that of its opening, once it was
    confirmed, null while it is pending, `closed_at` that of its resolution; all are later. `acknowledged_by` is empty
    while unacknowledged. `rule` and `severity` are those of the most severe finding."""

    id: int
    title: str
    state: InState
    severity: Severity
    rule: str
    cause: str
    began_at: datetime | None
    detected_at: datetime
    opened_at: datetime | None
    over_since: Annotated[
        datetime | None,
        Field(description="since when all its paths are normal again and it waits to close; else null"),
    ]
    ended_at: datetime | None
    closed_at: datetime | None
    reopened_at: datetime | None
    reopenings: int
    acknowledged_at: datetime | None
    acknowledged_by: str
    summary: str
    closing: str
    correction: str
    path_ids: list[int]

    @staticmethod
    def resolve_title(row: Incident | dict[str, str]) -> str:
        return row["title"] if isinstance(row, dict) else headline(row)

    @staticmethod
    def resolve_detected_at(row: Incident | dict[str, Any]) -> datetime:
        at: datetime = row["detected_at"] if isinstance(row, dict) else row.opened_at
        return at

    @staticmethod
    def resolve_opened_at(row: Incident | dict[str, Any]) -> datetime | None:
        return row["opened_at"] if isinstance(row, dict) else opened_at(row)

    @staticmethod
    def resolve_ended_at(row: Incident | dict[str, Any]) -> datetime | None:
        return row["ended_at"] if isinstance(row, dict) else end_of(row)


class LevelUnit(StrEnum):
    """Units of levels."""

    LOSS_RATIO = "loss_ratio"
    MILLISECONDS = "ms"
    BITS_PER_SECOND = "bps"


# All other signals' levels are in ms.
UNITS = {Signal.LOSS: LevelUnit.LOSS_RATIO, Signal.RATE: LevelUnit.BITS_PER_SECOND}


class LevelOut(Schema):
    """The figure of a finding as of the last evaluation, and its worst. `now` is of the last `window_s` seconds, since
    the level last changed; null without newer data, and once the finding is over. `low` and `high` are the 95% interval
    of a loss, of `lost` of `sent` packets, wider where they are lost together."""

    unit: LevelUnit
    now: float | None
    peak: float
    window_s: float | None
    sent: int | None
    lost: int | None
    low: float | None
    high: float | None


class FindingOut(Schema):
    """The finding of a rule on a path of the incident. `since` is the start as its rule dates it: of the window of
    packets or tests by which it fired, which may lie well before the onset; the last reply or result before; or the
    first burst at a new RTT. `began` is the onset of the incident by the bursts around it, as `evidence.began.at`; null
    until the evidence is gathered. It ends by itself: `ended_at`; the incident ends with its last finding. `level`
    is null where its rule follows no figure. `direction` is the direction of the path whose packets it is about, by
    STAMP; null for one about round trips."""

    path_id: int
    source: str
    destination: str
    family: Family
    rule: str
    direction: Literal["forward", "reverse"] | None
    sentence: str
    since: datetime
    began: datetime | None
    added_at: datetime
    is_over: bool
    ended_at: datetime | None
    level: LevelOut | None

    @staticmethod
    def resolve_level(row: IncidentPath) -> LevelOut | None:
        track, peak = own_track(row), peak_of(row)
        if track is None or track.now is None or peak is None:
            return None
        now, is_known = track.now, track.level is not None
        lost = now.lost if isinstance(now, LossSegment) and is_known and now.lost.sent else None
        low, high = (None, None) if lost is None else lost.interval
        return LevelOut(
            unit=UNITS.get(track.signal, LevelUnit.MILLISECONDS),
            now=None if row.is_over else track.level,
            peak=peak,
            window_s=track.newest_s - now.since.at_s if is_known and track.signal <= Signal.RTT else None,
            sent=None if lost is None else round(lost.sent),
            lost=None if lost is None else round(lost.lost),
            low=low,
            high=high,
        )

    @staticmethod
    def resolve_direction(row: IncidentPath) -> str | None:
        direction: str | None = row.figures.get(DIRECTION)
        return direction

    @staticmethod
    def resolve_began(row: IncidentPath) -> datetime | None:
        return row.incident.began_at

    @staticmethod
    def resolve_source(row: IncidentPath) -> str:
        return row.path.source.site.name

    @staticmethod
    def resolve_destination(row: IncidentPath) -> str:
        return row.path.destination.site.name

    @staticmethod
    def resolve_family(row: IncidentPath) -> int:
        return row.path.family


class TurnOut(Schema):
    """An event in the history of the incident."""

    at: datetime
    turn: HistoryEvent
    note: str


class NotificationOut(Schema):
    """The notification of a channel. `sent_at` is null until sent; `problem` is why the last attempt failed."""

    channel: str
    change: IncidentChange
    state: str
    due_at: datetime
    sent_at: datetime | None
    attempts: int
    problem: str


class DeedOut(Schema):
    """An action of an operator, with an optional `comment`."""

    id: int
    at: datetime
    who: str
    what: str
    comment: str
    incident_id: int | None
    quiet_id: int | None


class IncidentInFullOut(IncidentOut):
    """An incident in detail: findings, baseline and detection in both directions, history with the corrections by late
    results, notifications, and a text to paste into a ticket."""

    findings: list[FindingOut]
    history: list[TurnOut]
    notifications: list[NotificationOut]
    evidence: Evidence
    ticket: str


class CommentIn(Schema, extra="forbid"):
    text: Text


def status_of(error: actions.ActionRefused | OnDemandError) -> int:
    """Map errors to 404 unknown, 409 somebody else was first, 422 invalid, or their own status."""
    if isinstance(error, OnDemandError):
        return error.status
    return {actions.UnknownObject: 404, actions.ObjectChanged: 409}.get(type(error), 422)


@router.get(
    "/incidents",
    response={200: list[IncidentOut], 422: ProblemOut},
    summary="Incidents, newest first",
    description=f"The header `{TOTAL_HEADER}` of the answer counts all matches on all pages. "
    f"`{EVALUATED_HEADER}` is when the rules were last evaluated: later events are in no incident yet.",
)
def list_incidents(
    request: HttpRequest,
    response: HttpResponse,
    state: listing.StateFilter = listing.StateFilter.OPEN,
    severity: Severity | None = None,
    site: Annotated[Line | None, Query(description="with a path from or to it")] = None,
    group: Annotated[Line | None, Query(description="with a path within it")] = None,
    path_id: Annotated[int | None, Query(ge=1, le=2**31 - 1)] = None,
    since: Annotated[Moment | None, Query(description="not resolved by then")] = None,
    until: Annotated[Moment | None, Query(description="detected before then")] = None,
    offset: Offset = 0,
    limit: Limit = 50,
) -> list[Incident]:
    wanted = listing.IncidentFilter(
        which=state,
        severity=None if severity is None else str(severity),
        site=site,
        group=group,
        path_id=path_id,
        since=since,
        until=until,
    )
    listing.require_known(wanted)
    response.headers[TOTAL_HEADER] = str(listing.count(wanted).number(state))
    evaluated_at = freshness.load().evaluated_at
    if evaluated_at is not None:
        response.headers[EVALUATED_HEADER] = evaluated_at.isoformat().replace("+00:00", "Z")
    return listing.incidents(wanted, offset=offset, limit=limit)


@router.get(
    "/incidents/{int:incident_id}",
    response={200: IncidentInFullOut, 404: ProblemOut},
    summary="An incident: its evidence, history, notifications and the text for a ticket",
)
def get_incident(request: HttpRequest, incident_id: int) -> dict[str, object]:
    incident = _incident_or_404(incident_id)
    gathered = evidence(incident, timezone.now())
    return {
        **IncidentOut.from_orm(incident).dict(),
        "findings": list(incident.paths.all()),
        "history": list(incident.turns.all()),
        "notifications": list(incident.notifications.all()),
        "evidence": gathered,
        "ticket": ticket_text(incident, gathered),
    }


@router.put(
    "/incidents/{int:incident_id}/acknowledgement",
    response={200: IncidentOut, 404: ProblemOut, 409: ProblemOut},
    summary="Acknowledge an incident",
    description="Idempotent for the same user. 409 if somebody else was first, or if it is resolved.",
)
def acknowledge(request: HttpRequest, incident_id: int) -> Incident:
    actions.acknowledge(incident_id, user_name(request), timezone.now())
    return _incident_or_404(incident_id)


@router.delete(
    "/incidents/{int:incident_id}/acknowledgement",
    response={200: IncidentOut, 404: ProblemOut, 409: ProblemOut},
    summary="Unacknowledge an incident, whoever acknowledged it",
    description="No effect if unacknowledged. 409 if it is resolved.",
)
def unacknowledge(request: HttpRequest, incident_id: int) -> Incident:
    actions.unacknowledge(incident_id, user_name(request), timezone.now())
    return _incident_or_404(incident_id)


@router.post(
    "/incidents/{int:incident_id}/comments",
    response={200: DeedOut, 404: ProblemOut, 409: ProblemOut, 422: ProblemOut},
    summary="Add a comment, listed in the activity",
)
def comment(request: HttpRequest, incident_id: int, body: CommentIn, key: RequestKey = None) -> AuditRecord:
    return actions.comment(incident_id, body.text, user_name(request), timezone.now(), key=key)


@router.get(
    "/deeds",
    response={200: list[DeedOut], 403: ProblemOut},
    summary="Activity of operators, newest first; needs the operator role",
)
def list_deeds(
    request: HttpRequest,
    who: Line | None = None,
    incident_id: Annotated[int | None, Query(ge=1, le=2**31 - 1)] = None,
    offset: Offset = 0,
    limit: Limit = 50,
) -> list[AuditRecord]:
    if not may_operate(request):
        raise HttpError(403, "the activity names people: log in as operator, or send a token that may operate")
    return listing.audit_records(who=who, incident_id=incident_id, offset=offset, limit=limit)


def user_name(request: HttpRequest) -> str:
    return request.user.get_username()


def _incident_or_404(incident_id: int) -> Incident:
    try:
        return listing.incident(incident_id)
    except Incident.DoesNotExist as error:
        raise HttpError(404, f"there is no incident {incident_id}; /api/v1/incidents lists them") from error
