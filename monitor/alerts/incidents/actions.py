"""Actions of users on incidents, silences and maintenance, idempotent and with an audit record in the same transaction.

Failures raise `ActionRefused` with a message for users. Users cannot end an incident.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

from django.db import IntegrityError, transaction
from django.db.models import F

from monitor.alerts.incidents import lifecycle
from monitor.alerts.models import AuditRecord, Incident, QuietPeriod
from monitor.analysis import figures
from monitor.mesh.models import Group, Path, Site

LONGEST_EVERY = timedelta(days=366)
# The maximum length of a silence or maintenance; to mute a path for longer, remove it from the mesh.
LONGEST = timedelta(days=366)
# The maximum distance of a time from now; a time beyond is a typing error, such as year 1 or 9999.
FURTHEST = timedelta(days=3660)


class ActionRefused(Exception):
    """The action is not possible; the message says why."""


class UnknownObject(ActionRefused):
    """The object does not exist."""


class ObjectChanged(ActionRefused):
    """The object has changed since it was read, or has ended."""


@dataclass(frozen=True, slots=True)
class QuietScope:
    """The paths of a silence or maintenance; the whole mesh if all three are None."""

    path: Path | None = None
    site: Site | None = None
    group: Group | None = None

    def __str__(self) -> str:
        named = [str(place) for place in (self.path, self.site) if place is not None]
        return ", ".join([*named, *([f"group {self.group.name}"] if self.group else [])]) or "the whole mesh"


@dataclass(frozen=True, slots=True)
class MaintenanceTimes:
    starts_at: datetime
    ends_at: datetime
    every: timedelta | None = None
    until: datetime | None = None  # end of the repetitions

    @property
    def every_s(self) -> int | None:
        return None if self.every is None else int(self.every.total_seconds())


def find_scope(path_id: int | None = None, site: str | None = None, group: str | None = None) -> QuietScope:
    """Find the scope by names. Raises `ActionRefused` for a path, site or group that is not in use."""
    try:
        return QuietScope(
            path=None if path_id is None else Path.objects.with_hosts().get(id=path_id, retired_at=None),
            site=None if site is None else Site.objects.in_use().get(name=site),
            group=None if group is None else Group.objects.in_use().get(name=group),
        )
    except (Path.DoesNotExist, Site.DoesNotExist, Group.DoesNotExist) as error:
        wanted = {"path": path_id, "site": site, "group": group}
        named = ", ".join(f"{name} {value}" for name, value in wanted.items() if value is not None)
        raise ActionRefused(f"{named}: not in use") from error


def acknowledge(incident_id: int, who: str, now: datetime) -> None:
    with transaction.atomic():
        if lifecycle.acknowledge(incident_id, who, now):
            _note(f"acknowledged incident {incident_id}", who, now, incident_id=incident_id)
            return
    incident = _incident(incident_id)
    if incident.closed_at is not None:
        raise ObjectChanged(f"incident {incident_id} closed at {incident.closed_at:%Y-%m-%d %H:%M} UTC")
    if incident.acknowledged_at is None:
        raise ObjectChanged(f"incident {incident_id} has just changed; reload it")
    if incident.acknowledged_by != who:
        at = f"{incident.acknowledged_at:%H:%M} UTC"
        raise ObjectChanged(f"{incident.acknowledged_by} acknowledged incident {incident_id} at {at}")


def unacknowledge(incident_id: int, who: str, now: datetime) -> None:
    """Remove the acknowledgement of an incident, even another user's."""
    with transaction.atomic():
        if lifecycle.unacknowledge(incident_id, who, now):
            _note(f"took back the acknowledgement of incident {incident_id}", who, now, incident_id=incident_id)
            return
    incident = _incident(incident_id)
    if incident.closed_at is not None:
        raise ObjectChanged(f"incident {incident_id} closed at {incident.closed_at:%Y-%m-%d %H:%M} UTC")


def comment(incident_id: int, text: str, who: str, now: datetime, *, key: str | None = None) -> AuditRecord:
    """Add a comment to an incident, open or resolved."""
    _incident(incident_id)
    try:
        with transaction.atomic():
            what = f"commented on incident {incident_id}"
            return _note(what, who, now, incident_id=incident_id, comment=text, key=key)
    except IntegrityError:
        done = _done(who, key)
        if done is None:
            raise
        if (done.incident_id, done.comment) != (incident_id, text):
            raise ObjectChanged(f"the key {key} was used before, and {done.who} then {done.what}") from None
        return done


def silence(
    scope: QuietScope, until: datetime, reason: str, who: str, now: datetime, *, key: str | None = None
) -> QuietPeriod:
    """Mute notifications of incidents on the paths of `scope` until `until`."""
    quiet = QuietPeriod(kind=QuietPeriod.Kind.SILENCE, starts_at=now, ends_at=until, reason=reason)
    return _make(quiet, scope, who, now, key)


def maintain(
    scope: QuietScope,
    starts_at: datetime,
    ends_at: datetime,
    reason: str,
    who: str,
    now: datetime,
    *,
    every: timedelta | None = None,
    until: datetime | None = None,
    key: str | None = None,
) -> QuietPeriod:
    """Schedule maintenance, repeated every `every`: no incident opens on the paths of `scope` meanwhile."""
    quiet = QuietPeriod(kind=QuietPeriod.Kind.MAINTENANCE, reason=reason)
    _set_window(quiet, MaintenanceTimes(starts_at, ends_at, every, until))
    return _make(quiet, scope, who, now, key)


def change(
    quiet_id: int, revision: int, scope: QuietScope, window: MaintenanceTimes, reason: str, who: str, now: datetime
) -> QuietPeriod:
    """Change a maintenance that was read at `revision`. Raises `ObjectChanged` if it has changed or ended since."""
    quiet = QuietPeriod.objects.filter(pk=quiet_id, kind=QuietPeriod.Kind.MAINTENANCE).first()
    if quiet is None:
        raise UnknownObject(f"there is no maintenance {quiet_id}")
    before = _content(quiet)
    quiet.reason = reason
    _set_window(quiet, window)
    _set_scope(quiet, scope)
    if before == _content(quiet) and quiet.ended_at is None:
        return quiet
    _check(quiet, now)
    with transaction.atomic():
        seen = QuietPeriod.objects.filter(pk=quiet_id, revision=revision, ended_at=None)
        if not seen.update(**_content(quiet), revision=F("revision") + 1):
            raise ObjectChanged(f"maintenance {quiet_id} was changed or ended since you read it; reload it")
        _note(f"changed {quiet.kind} {quiet_id}, now for {_when(quiet, scope)}", who, now, quiet=quiet)
    quiet.refresh_from_db()
    return quiet


def end(quiet_id: int, who: str, now: datetime, *, kind: QuietPeriod.Kind | None = None) -> None:
    """End a silence or a maintenance (of `kind`, if given) early and for good."""
    with transaction.atomic():
        quiet = QuietPeriod.objects.filter(pk=quiet_id).first()
        if quiet is None or (kind is not None and quiet.kind != kind):
            raise UnknownObject(f"there is no active {kind or 'silence or maintenance'} {quiet_id}")
        if QuietPeriod.objects.filter(pk=quiet_id, ended_at=None).update(ended_at=now):
            _note(f"ended {quiet.kind} {quiet_id}", who, now, quiet=quiet)


def scope_of(quiet: QuietPeriod) -> QuietScope:
    return QuietScope(path=quiet.path, site=quiet.site, group=quiet.group)


def _make(quiet: QuietPeriod, scope: QuietScope, who: str, now: datetime, key: str | None) -> QuietPeriod:
    _set_scope(quiet, scope)
    _check(quiet, now)
    quiet.made_by, quiet.made_at = who, now
    try:
        with transaction.atomic():
            quiet.save()
            _note(f"made {quiet.kind} {quiet.pk} for {_when(quiet, scope)}", who, now, quiet=quiet, key=key)
    except IntegrityError:
        done = _done(who, key)
        if done is None:
            raise
        if done.quiet is None or not _is_same(done.quiet, quiet):
            raise ObjectChanged(f"the key {key} was used before, and {done.who} then {done.what}") from None
        return done.quiet
    return quiet


def _set_scope(quiet: QuietPeriod, scope: QuietScope) -> None:
    if sum(place is not None for place in (scope.path, scope.site, scope.group)) > 1:
        raise ActionRefused("give a path, a site or a group, not several")
    quiet.path, quiet.site, quiet.group = scope.path, scope.site, scope.group


def _set_window(quiet: QuietPeriod, window: MaintenanceTimes) -> None:
    if window.every is not None and window.every < window.ends_at - window.starts_at:
        lasts = figures.duration(window.every.total_seconds())
        raise ActionRefused(f"it is longer than its repeat interval of {lasts}")
    if window.every is not None and window.every > LONGEST_EVERY:
        raise ActionRefused(f"its repeat interval exceeds {LONGEST_EVERY.days} days; schedule each separately")
    if window.until is not None and window.every is None:
        raise ActionRefused("it does not repeat: leave out the end of the repetition")
    quiet.starts_at, quiet.ends_at = window.starts_at, window.ends_at
    quiet.every_s, quiet.until = window.every_s, window.until


def _check(quiet: QuietPeriod, now: datetime) -> None:
    for event, at in (("starts", quiet.starts_at), ("ends", quiet.ends_at), ("stops repeating", quiet.until)):
        if at is not None and abs(at - now) > FURTHEST:
            raise ActionRefused(f"it {event} in {at.year}, more than 10 years from now; is the year right?")
    if quiet.ends_at - quiet.starts_at > LONGEST:
        raise ActionRefused(f"it is longer than {LONGEST.days} days; remove the path from mesh.toml instead")
    if quiet.ends_at <= quiet.starts_at or (quiet.every_s is None and quiet.ends_at <= now):
        raise ActionRefused(f"it ends, {quiet.ends_at:%Y-%m-%d %H:%M} UTC, before it starts or in the past")
    if quiet.until is not None and quiet.until <= max(quiet.starts_at, now):
        raise ActionRefused(f"it stops repeating, {quiet.until:%Y-%m-%d %H:%M} UTC, before it starts or in the past")


def _content(quiet: QuietPeriod) -> dict[str, object]:
    named = ("path_id", "site_id", "group_id", "starts_at", "ends_at", "every_s", "until", "reason")
    return {name: getattr(quiet, name) for name in named}


def _is_same(made: QuietPeriod, requested: QuietPeriod) -> bool:
    # Whether requests are equal; start times of silences do not count.
    ignored = {"starts_at"} if made.kind == QuietPeriod.Kind.SILENCE else set()
    before, again = _content(made), _content(requested)
    return made.kind == requested.kind and all(before[name] == again[name] for name in before.keys() - ignored)


def _note(
    what: str,
    who: str,
    now: datetime,
    *,
    incident_id: int | None = None,
    quiet: QuietPeriod | None = None,
    comment: str = "",
    key: str | None = None,
) -> AuditRecord:
    return AuditRecord.objects.create(
        at=now, who=who, what=what, incident_id=incident_id, quiet=quiet, comment=comment, key=key
    )


def _done(who: str, key: str | None) -> AuditRecord | None:
    return None if key is None else AuditRecord.objects.select_related("quiet").filter(who=who, key=key).first()


def _when(quiet: QuietPeriod, scope: QuietScope) -> str:
    again = "" if quiet.every_s is None else f", every {figures.duration(quiet.every_s)}"
    last = "" if quiet.until is None else f" until {quiet.until:%Y-%m-%d %H:%M} UTC"
    return f"{scope} from {quiet.starts_at:%Y-%m-%d %H:%M} to {quiet.ends_at:%Y-%m-%d %H:%M} UTC{again}{last}"


def _incident(incident_id: int) -> Incident:
    incident = Incident.objects.filter(pk=incident_id).first()
    if incident is None:
        raise UnknownObject(f"there is no incident {incident_id}")
    return incident
