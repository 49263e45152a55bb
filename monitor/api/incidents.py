"""The users' API about incidents: which there are, one with its evidence, acknowledging and commenting; who did what.

As in `monitor.api.users`, which these addresses are part of. Reading is for whoever may read; what changes something
wants a role that may operate, which `monitor.accounts.access` sees to, and so does the trail of deeds, which names
people.
"""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Literal

from django.http import HttpRequest, HttpResponse
from django.utils import timezone
from ninja import Header, Query, Router, Schema
from ninja.errors import HttpError
from pydantic import StringConstraints

from monitor.accounts.roles import Action, may
from monitor.alerts.evidence.evidence import Evidence, evidence
from monitor.alerts.evidence.ticket import ticket_text
from monitor.alerts.incidents import actions, listing
from monitor.alerts.models import Change, Deed, Incident, IncidentPath, Severity, State, Turn
from monitor.api.freshness import EVALUATED_HEADER
from monitor.api.parameters import Limit, Moment, Offset, ProblemOut
from monitor.archive.upkeep import freshness
from monitor.mesh.models import Family

InState = Literal[State.PENDING, State.OPEN, State.ACKNOWLEDGED, State.RESOLVED]
"""Spelt out, since the description for programs keeps one class of a name, and cells of the grid have a State too."""
TOTAL_HEADER = "X-Total-Count"

Line = Annotated[str, StringConstraints(min_length=1, max_length=200, pattern=r"^[^\x00-\x1f]+$")]
"""A name or a key."""
Text = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1, max_length=4000, pattern=r"^[^\x00]+$")]
"""What a person writes."""
RequestKey = Annotated[
    Line | None,
    Header(
        alias="Idempotency-Key",
        description="a name of your own for this request: sent again with it, nothing is done a second time",
    ),
]

router = Router(tags=["incidents"])


class IncidentOut(Schema):
    """One cause with the paths it explains. `closed_at` is null while it lasts; `acknowledged_by` is empty while nobody
    looks after it. `rule` and `severity` are those of the gravest finding."""

    id: int
    state: InState
    severity: Severity
    rule: str
    cause: str
    opened_at: datetime
    closed_at: datetime | None
    reopened_at: datetime | None
    reopenings: int
    acknowledged_at: datetime | None
    acknowledged_by: str
    summary: str
    closing: str
    correction: str
    path_ids: list[int]


class FindingOut(Schema):
    """What one rule found on a path of the incident, `since` when as far as it could tell."""

    path_id: int
    source: str
    destination: str
    family: Family
    rule: str
    sentence: str
    since: datetime
    added_at: datetime
    is_over: bool

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
    """What became of the incident at a moment, and in which words."""

    at: datetime
    turn: Turn
    note: str


class NotificationOut(Schema):
    """That a channel is told of a change. `sent_at` is null until it was; `problem` is why the last attempt failed."""

    channel: str
    change: Change
    state: str
    due_at: datetime
    sent_at: datetime | None
    attempts: int
    problem: str


class DeedOut(Schema):
    """Who did what. `comment` is what was written with it, mostly nothing."""

    id: int
    at: datetime
    who: str
    what: str
    comment: str
    incident_id: int | None
    quiet_id: int | None


class IncidentInFullOut(IncidentOut):
    """One incident with all that is known of it: what was found, before and after in both directions, its history with
    the corrections by results that came late, who was told, and a text to paste into a ticket."""

    findings: list[FindingOut]
    history: list[TurnOut]
    notifications: list[NotificationOut]
    evidence: Evidence
    ticket: str


class CommentIn(Schema, extra="forbid"):
    text: Text


def status_of(error: actions.NotPossible) -> int:
    """404 where there is no such thing, 409 where somebody else was first, 422 where it makes no sense."""
    return {actions.Unknown: 404, actions.TooLate: 409}.get(type(error), 422)


@router.get(
    "/incidents",
    response={200: list[IncidentOut], 422: ProblemOut},
    summary="Incidents, newest first",
    description=f"The header `{TOTAL_HEADER}` of the answer counts all that match, on whatever page they are. "
    f"`{EVALUATED_HEADER}` is when the rules were last evaluated: what began later is in no incident yet.",
)
def list_incidents(
    request: HttpRequest,
    response: HttpResponse,
    state: listing.Which = listing.Which.OPEN,
    severity: Severity | None = None,
    site: Annotated[Line | None, Query(description="with a path from or to it")] = None,
    group: Annotated[Line | None, Query(description="with a path within it")] = None,
    path_id: Annotated[int | None, Query(ge=1, le=2**31 - 1)] = None,
    since: Annotated[Moment | None, Query(description="open at any moment from then on")] = None,
    until: Annotated[Moment | None, Query(description="open at any moment before then")] = None,
    offset: Offset = 0,
    limit: Limit = 50,
) -> list[Incident]:
    asked = listing.Asked(
        which=state,
        severity=None if severity is None else str(severity),
        site=site,
        group=group,
        path_id=path_id,
        since=since,
        until=until,
    )
    listing.require_known(asked)
    response.headers[TOTAL_HEADER] = str(listing.count(asked).of(state))
    evaluated_at = freshness.load().evaluated_at
    if evaluated_at is not None:
        response.headers[EVALUATED_HEADER] = evaluated_at.isoformat().replace("+00:00", "Z")
    return listing.incidents(asked, offset=offset, limit=limit)


@router.get(
    "/incidents/{int:incident_id}",
    response={200: IncidentInFullOut, 404: ProblemOut},
    summary="One incident: its evidence, history, notifications and the text for a ticket",
)
def get_incident(request: HttpRequest, incident_id: int) -> dict[str, object]:
    found = _found(incident_id)
    gathered = evidence(found, timezone.now())
    return {
        **IncidentOut.from_orm(found).dict(),
        "findings": list(found.paths.all()),
        "history": list(found.turns.all()),
        "notifications": list(found.notifications.all()),
        "evidence": gathered,
        "ticket": ticket_text(found, gathered),
    }


@router.put(
    "/incidents/{int:incident_id}/acknowledgement",
    response={200: IncidentOut, 404: ProblemOut, 409: ProblemOut},
    summary="Acknowledge: say that you look after it",
    description="Again by the same person it does nothing. 409 where somebody else was first, or it has ended.",
)
def acknowledge(request: HttpRequest, incident_id: int) -> Incident:
    actions.acknowledge(incident_id, doer(request), timezone.now())
    return _found(incident_id)


@router.delete(
    "/incidents/{int:incident_id}/acknowledgement",
    response={200: IncidentOut, 404: ProblemOut, 409: ProblemOut},
    summary="Take an acknowledgement back, also somebody else's",
    description="Does nothing where nobody looks after it. 409 where it has ended.",
)
def unacknowledge(request: HttpRequest, incident_id: int) -> Incident:
    actions.unacknowledge(incident_id, doer(request), timezone.now())
    return _found(incident_id)


@router.post(
    "/incidents/{int:incident_id}/comments",
    response={200: DeedOut, 404: ProblemOut, 409: ProblemOut, 422: ProblemOut},
    summary="Write a comment, which stands in the trail of deeds",
)
def comment(request: HttpRequest, incident_id: int, body: CommentIn, key: RequestKey = None) -> Deed:
    return actions.comment(incident_id, body.text, doer(request), timezone.now(), key=key)


@router.get(
    "/deeds",
    response={200: list[DeedOut], 403: ProblemOut},
    summary="Who did what, newest first; for those who may operate",
)
def list_deeds(
    request: HttpRequest,
    who: Line | None = None,
    incident_id: Annotated[int | None, Query(ge=1, le=2**31 - 1)] = None,
    offset: Offset = 0,
    limit: Limit = 50,
) -> list[Deed]:
    if not may(request.user, Action.OPERATE):
        raise HttpError(403, "the trail names people: log in as somebody who may operate, or send a token of theirs")
    return listing.deeds(who=who, incident_id=incident_id, offset=offset, limit=limit)


def doer(request: HttpRequest) -> str:
    """Who it is that does something."""
    return request.user.get_username()


def _found(incident_id: int) -> Incident:
    try:
        return listing.incident(incident_id)
    except Incident.DoesNotExist as error:
        raise HttpError(404, f"there is no incident {incident_id}; /api/v1/incidents lists them") from error
