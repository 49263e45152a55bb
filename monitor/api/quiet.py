"""The users' API about quiet times: silences, in which nobody is told of incidents, and maintenance, in which nothing
opens either.

As in `monitor.api.incidents`. Both are for one path, site or group, or for the whole mesh where none is named.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Annotated

from django.http import HttpRequest
from django.utils import timezone
from ninja import Query, Router, Schema
from ninja.errors import HttpError
from pydantic import Field, StringConstraints

from monitor.alerts.incidents import actions, listing, quiet
from monitor.alerts.models import Quiet
from monitor.api.incidents import Line, RequestKey, doer
from monitor.api.parameters import Limit, Moment, Offset, ProblemOut

Reason = Annotated[str, StringConstraints(strip_whitespace=True, max_length=1000, pattern=r"^[^\x00]*$")]
Past = Annotated[bool, Query(description="those that are over or were ended, too")]

router = Router(tags=["quiet times"])


class QuietIn(Schema, extra="forbid"):
    """What it is for: one of path, site and group, or with none of them the whole mesh."""

    path_id: Annotated[int, Field(ge=1, le=2**31 - 1)] | None = None
    site: Line | None = None
    group: Line | None = None
    reason: Reason = ""

    @property
    def scope(self) -> actions.Scope:
        return actions.find_scope(self.path_id, self.site, self.group)


class SilenceIn(QuietIn, extra="forbid"):
    """It begins at once."""

    until: Moment


class MaintenanceIn(QuietIn, extra="forbid"):
    """From `starts_at` to `ends_at`; with `every_s` again that long after each start, until `until` if given."""

    starts_at: Moment
    ends_at: Moment
    every_s: Annotated[int, Field(ge=60, le=366 * 86_400)] | None = None
    until: Moment | None = None

    @property
    def window(self) -> actions.Window:
        every = None if self.every_s is None else timedelta(seconds=self.every_s)
        return actions.Window(self.starts_at, self.ends_at, every, self.until)


class MaintenanceChangeIn(MaintenanceIn, extra="forbid"):
    """All of it anew. `revision` is that of the maintenance that you read."""

    revision: Annotated[int, Field(ge=0, le=2**31 - 1)]


class QuietOut(Schema):
    """`next_starts_at` and `next_ends_at` are the time that holds now, or the next; null where it never will again."""

    id: int
    path_id: int | None
    site: str | None
    group: str | None
    reason: str
    starts_at: datetime
    ends_at: datetime
    standing: quiet.Standing
    made_by: str
    made_at: datetime
    ended_at: datetime | None


class SilenceOut(QuietOut):
    """That nobody is told of incidents there."""


class MaintenanceOut(QuietOut):
    """That nothing opens there."""

    every_s: int | None
    until: datetime | None
    next_starts_at: datetime | None
    next_ends_at: datetime | None
    revision: int


@router.get("/silences", response=list[SilenceOut], summary="Silences, newest first")
def list_silences(
    request: HttpRequest, past: Past = False, offset: Offset = 0, limit: Limit = 50
) -> list[dict[str, object]]:
    return _listed(Quiet.Kind.SILENCE, past, offset, limit)


@router.post(
    "/silences",
    response={200: SilenceOut, 409: ProblemOut, 422: ProblemOut},
    summary="Tell nobody of incidents on a path, at a site, in a group or in the mesh, until a time",
)
def make_silence(request: HttpRequest, body: SilenceIn, key: RequestKey = None) -> dict[str, object]:
    now = timezone.now()
    made = actions.silence(body.scope, body.until, body.reason, doer(request), now, key=key)
    return _out(_found(made.pk, Quiet.Kind.SILENCE), now)


@router.delete(
    "/silences/{int:quiet_id}",
    response={200: SilenceOut, 404: ProblemOut},
    summary="End a silence; again it does nothing",
)
def end_silence(request: HttpRequest, quiet_id: int) -> dict[str, object]:
    return _ended(request, quiet_id, Quiet.Kind.SILENCE)


@router.get("/maintenance", response=list[MaintenanceOut], summary="Maintenance, newest first")
def list_maintenance(
    request: HttpRequest, past: Past = False, offset: Offset = 0, limit: Limit = 50
) -> list[dict[str, object]]:
    return _listed(Quiet.Kind.MAINTENANCE, past, offset, limit)


@router.post(
    "/maintenance",
    response={200: MaintenanceOut, 409: ProblemOut, 422: ProblemOut},
    summary="Open no incident on a path, at a site, in a group or in the mesh, once or again and again",
)
def make_maintenance(request: HttpRequest, body: MaintenanceIn, key: RequestKey = None) -> dict[str, object]:
    now = timezone.now()
    window = body.window
    made = actions.maintain(
        body.scope,
        window.starts_at,
        window.ends_at,
        body.reason,
        doer(request),
        now,
        every=window.every,
        until=window.until,
        key=key,
    )
    return _out(_found(made.pk, Quiet.Kind.MAINTENANCE), now)


@router.get("/maintenance/{int:quiet_id}", response={200: MaintenanceOut, 404: ProblemOut}, summary="One maintenance")
def get_maintenance(request: HttpRequest, quiet_id: int) -> dict[str, object]:
    return _out(_found(quiet_id, Quiet.Kind.MAINTENANCE), timezone.now())


@router.put(
    "/maintenance/{int:quiet_id}",
    response={200: MaintenanceOut, 404: ProblemOut, 409: ProblemOut, 422: ProblemOut},
    summary="Change a maintenance",
    description="409 where it was changed or ended since you read it. What is so already stays so.",
)
def change_maintenance(request: HttpRequest, quiet_id: int, body: MaintenanceChangeIn) -> dict[str, object]:
    now = timezone.now()
    actions.change(quiet_id, body.revision, body.scope, body.window, body.reason, doer(request), now)
    return _out(_found(quiet_id, Quiet.Kind.MAINTENANCE), now)


@router.delete(
    "/maintenance/{int:quiet_id}",
    response={200: MaintenanceOut, 404: ProblemOut},
    summary="End a maintenance for good; again it does nothing",
)
def end_maintenance(request: HttpRequest, quiet_id: int) -> dict[str, object]:
    return _ended(request, quiet_id, Quiet.Kind.MAINTENANCE)


def _listed(kind: Quiet.Kind, past: bool, offset: int, limit: int) -> list[dict[str, object]]:
    now = timezone.now()
    found = listing.quiet_times(kind, now=None if past else now, offset=offset, limit=limit)
    return [_out(one, now) for one in found]


def _ended(request: HttpRequest, quiet_id: int, kind: Quiet.Kind) -> dict[str, object]:
    now = timezone.now()
    actions.end(quiet_id, doer(request), now, kind=kind)
    return _out(_found(quiet_id, kind), now)


def _found(quiet_id: int, kind: Quiet.Kind) -> Quiet:
    found = Quiet.objects.select_related("site", "group").filter(pk=quiet_id, kind=kind).first()
    if found is None:
        raise HttpError(404, f"there is no {kind} {quiet_id}")
    return found


def _out(one: Quiet, now: datetime) -> dict[str, object]:
    names = (
        "path_id",
        "reason",
        "starts_at",
        "ends_at",
        "made_by",
        "made_at",
        "ended_at",
        "every_s",
        "until",
        "revision",
    )
    starts_at, ends_at = quiet.next_time(one, now) or (None, None)
    return {
        "id": one.pk,
        "site": None if one.site is None else one.site.name,
        "group": None if one.group is None else one.group.name,
        "standing": quiet.standing(one, now),
        "next_starts_at": starts_at,
        "next_ends_at": ends_at,
        **{name: getattr(one, name) for name in names},
    }
