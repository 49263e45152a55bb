"""The users' API about silences and maintenance."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Annotated

from django.http import HttpRequest
from django.utils import timezone
from ninja import Query, Router, Schema
from ninja.errors import HttpError
from pydantic import AfterValidator, Field, StringConstraints

from monitor.alerts.incidents import actions, listing, quiet
from monitor.alerts.models import QuietPeriod
from monitor.api.incidents import Line, RequestKey, on_one_line, user_name
from monitor.api.parameters import Limit, Moment, Offset, ProblemOut

Reason = Annotated[str, StringConstraints(strip_whitespace=True, max_length=1000), AfterValidator(on_one_line)]
Past = Annotated[bool, Query(description="include those in the past")]

router = Router(tags=["quiet times"])


class QuietIn(Schema, extra="forbid"):
    """The scope: a path, site or group, or the whole mesh if none is given."""

    path_id: Annotated[int, Field(ge=1, le=2**31 - 1)] | None = None
    site: Line | None = None
    group: Line | None = None
    reason: Reason = ""

    @property
    def scope(self) -> actions.QuietScope:
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
    def window(self) -> actions.MaintenanceTimes:
        every = None if self.every_s is None else timedelta(seconds=self.every_s)
        return actions.MaintenanceTimes(self.starts_at, self.ends_at, every, self.until)


class MaintenanceChangeIn(MaintenanceIn, extra="forbid"):
    """All fields of the maintenance. `revision` is that of the version you read."""

    revision: Annotated[int, Field(ge=0, le=2**31 - 1)]


class QuietOut(Schema):
    """`next_starts_at` and `next_ends_at` are the current or next period; null if there is none."""

    id: int
    path_id: int | None
    site: str | None
    group: str | None
    reason: str
    starts_at: datetime
    ends_at: datetime
    standing: quiet.QuietState
    made_by: str
    made_at: datetime
    ended_at: datetime | None


class SilenceOut(QuietOut):
    """A silence: notifications of its scope are muted."""


class MaintenanceOut(QuietOut):
    """A maintenance: no incident opens in its scope."""

    every_s: int | None
    until: datetime | None
    next_starts_at: datetime | None
    next_ends_at: datetime | None
    revision: int


@router.get("/silences", response=list[SilenceOut], summary="Silences, newest first")
def list_silences(
    request: HttpRequest, past: Past = False, offset: Offset = 0, limit: Limit = 50
) -> list[dict[str, object]]:
    return _list_quiet(QuietPeriod.Kind.SILENCE, past, offset, limit)


@router.post(
    "/silences",
    response={200: SilenceOut, 409: ProblemOut, 422: ProblemOut},
    summary="Mute notifications of a path, site, group or the mesh, until a time",
)
def make_silence(request: HttpRequest, body: SilenceIn, key: RequestKey = None) -> dict[str, object]:
    now = timezone.now()
    made = actions.silence(body.scope, body.until, body.reason, user_name(request), now, key=key)
    return _out(_quiet_or_404(made.pk, QuietPeriod.Kind.SILENCE), now)


@router.get("/silences/{int:quiet_id}", response={200: SilenceOut, 404: ProblemOut}, summary="A silence")
def get_silence(request: HttpRequest, quiet_id: int) -> dict[str, object]:
    return _out(_quiet_or_404(quiet_id, QuietPeriod.Kind.SILENCE), timezone.now())


@router.delete(
    "/silences/{int:quiet_id}",
    response={200: SilenceOut, 404: ProblemOut},
    summary="End a silence; idempotent",
)
def end_silence(request: HttpRequest, quiet_id: int) -> dict[str, object]:
    return _end_quiet(request, quiet_id, QuietPeriod.Kind.SILENCE)


@router.get("/maintenance", response=list[MaintenanceOut], summary="Maintenance, newest first")
def list_maintenance(
    request: HttpRequest, past: Past = False, offset: Offset = 0, limit: Limit = 50
) -> list[dict[str, object]]:
    return _list_quiet(QuietPeriod.Kind.MAINTENANCE, past, offset, limit)


@router.post(
    "/maintenance",
    response={200: MaintenanceOut, 409: ProblemOut, 422: ProblemOut},
    summary="Schedule maintenance of a path, site, group or the mesh, once or repeated",
)
def make_maintenance(request: HttpRequest, body: MaintenanceIn, key: RequestKey = None) -> dict[str, object]:
    now = timezone.now()
    window = body.window
    made = actions.maintain(
        body.scope,
        window.starts_at,
        window.ends_at,
        body.reason,
        user_name(request),
        now,
        every=window.every,
        until=window.until,
        key=key,
    )
    return _out(_quiet_or_404(made.pk, QuietPeriod.Kind.MAINTENANCE), now)


@router.get("/maintenance/{int:quiet_id}", response={200: MaintenanceOut, 404: ProblemOut}, summary="A maintenance")
def get_maintenance(request: HttpRequest, quiet_id: int) -> dict[str, object]:
    return _out(_quiet_or_404(quiet_id, QuietPeriod.Kind.MAINTENANCE), timezone.now())


@router.put(
    "/maintenance/{int:quiet_id}",
    response={200: MaintenanceOut, 404: ProblemOut, 409: ProblemOut, 422: ProblemOut},
    summary="Change a maintenance",
    description="409 where it was changed or ended since you read it. Idempotent.",
)
def change_maintenance(request: HttpRequest, quiet_id: int, body: MaintenanceChangeIn) -> dict[str, object]:
    now = timezone.now()
    actions.change(quiet_id, body.revision, body.scope, body.window, body.reason, user_name(request), now)
    return _out(_quiet_or_404(quiet_id, QuietPeriod.Kind.MAINTENANCE), now)


@router.delete(
    "/maintenance/{int:quiet_id}",
    response={200: MaintenanceOut, 404: ProblemOut},
    summary="End a maintenance for good; idempotent",
)
def end_maintenance(request: HttpRequest, quiet_id: int) -> dict[str, object]:
    return _end_quiet(request, quiet_id, QuietPeriod.Kind.MAINTENANCE)


def _list_quiet(kind: QuietPeriod.Kind, past: bool, offset: int, limit: int) -> list[dict[str, object]]:
    now = timezone.now()
    quiet_times = listing.quiet_times(kind, now=None if past else now, offset=offset, limit=limit)
    return [_out(quiet_time, now) for quiet_time in quiet_times]


def _end_quiet(request: HttpRequest, quiet_id: int, kind: QuietPeriod.Kind) -> dict[str, object]:
    now = timezone.now()
    actions.end(quiet_id, user_name(request), now, kind=kind)
    return _out(_quiet_or_404(quiet_id, kind), now)


def _quiet_or_404(quiet_id: int, kind: QuietPeriod.Kind) -> QuietPeriod:
    quiet_time = QuietPeriod.objects.select_related("site", "group").filter(pk=quiet_id, kind=kind).first()
    if quiet_time is None:
        raise HttpError(404, f"there is no {kind} {quiet_id}")
    return quiet_time


def _out(quiet_time: QuietPeriod, now: datetime) -> dict[str, object]:
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
    starts_at, ends_at = quiet.next_time(quiet_time, now) or (None, None)
    return {
        "id": quiet_time.pk,
        "site": None if quiet_time.site is None else quiet_time.site.name,
        "group": None if quiet_time.group is None else quiet_time.group.name,
        "standing": quiet.quiet_state(quiet_time, now),
        "next_starts_at": starts_at,
        "next_ends_at": ends_at,
        **{name: getattr(quiet_time, name) for name in names},
    }
