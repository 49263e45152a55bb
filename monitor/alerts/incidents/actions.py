"""What people do about incidents: acknowledge, comment, silence, plan maintenance, end or change either.

In: who, and the moment. Out: the rows, and a `Deed` in the same transaction. Doing again what is done already does
nothing and is no error: the same person's acknowledgement, an end, a request with a `key` that came before. What cannot
be done raises `NotPossible` with a text for people: `Unknown` where there is no such thing, `TooLate` where somebody
else was first. Nobody ends an incident by hand: it ends when what was found is over, and a silence keeps it quiet.
What follows from a quiet time is in `monitor.alerts.incidents.quiet`.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

from django.db import IntegrityError, transaction
from django.db.models import F

from monitor.alerts.incidents import lifecycle
from monitor.alerts.models import Deed, Incident, Quiet
from monitor.analysis import figures
from monitor.mesh.models import Group, Path, Site

LONGEST_EVERY = timedelta(days=366)
LONGEST = timedelta(days=366)
"""Of one time: where nothing shall be told of for longer, the path is to leave the mesh."""
FURTHEST = timedelta(days=3660)
"""Ahead, and back: what begins or ends for good beyond is a slip of the pen, such as year 1 or 9999."""


class NotPossible(Exception):
    """What was asked for cannot be done; the text says why."""


class Unknown(NotPossible):
    """There is no such thing."""


class TooLate(NotPossible):
    """It has changed since: somebody else was first, or it is over."""


@dataclass(frozen=True, slots=True)
class Scope:
    """What a quiet time is for: at most one of the three, the whole mesh where there is none."""

    path: Path | None = None
    site: Site | None = None
    group: Group | None = None

    def __str__(self) -> str:
        named = [str(one) for one in (self.path, self.site) if one is not None]
        return ", ".join([*named, *([f"group {self.group.name}"] if self.group else [])]) or "the whole mesh"


@dataclass(frozen=True, slots=True)
class Window:
    """When it is maintenance: from `starts_at` to `ends_at`, and with `every` again and again, until `until` if set."""

    starts_at: datetime
    ends_at: datetime
    every: timedelta | None = None
    until: datetime | None = None

    @property
    def every_s(self) -> int | None:
        return None if self.every is None else int(self.every.total_seconds())


def find_scope(path_id: int | None = None, site: str | None = None, group: str | None = None) -> Scope:
    """The scope that these name, None where they name nothing. Raises `NotPossible` for what is not in use."""
    try:
        return Scope(
            path=None if path_id is None else Path.objects.with_hosts().get(id=path_id, retired_at=None),
            site=None if site is None else Site.objects.in_use().get(name=site),
            group=None if group is None else Group.objects.in_use().get(name=group),
        )
    except (Path.DoesNotExist, Site.DoesNotExist, Group.DoesNotExist) as error:
        asked = {"path": path_id, "site": site, "group": group}
        named = ", ".join(f"{name} {value}" for name, value in asked.items() if value is not None)
        raise NotPossible(f"{named}: there is none in use") from error


def acknowledge(incident_id: int, who: str, now: datetime) -> None:
    """Say that somebody looks after an open incident."""
    with transaction.atomic():
        if lifecycle.acknowledge(incident_id, who, now):
            _note(f"acknowledged incident {incident_id}", who, now, incident_id=incident_id)
            return
    incident = _incident(incident_id)
    if incident.closed_at is not None:
        raise TooLate(f"incident {incident_id} closed at {incident.closed_at:%Y-%m-%d %H:%M} UTC")
    if incident.acknowledged_at is None:
        raise TooLate(f"incident {incident_id} changed at this moment; look at it again")
    if incident.acknowledged_by != who:
        at = f"{incident.acknowledged_at:%H:%M} UTC"
        raise TooLate(f"{incident.acknowledged_by} acknowledged incident {incident_id} at {at}")


def unacknowledge(incident_id: int, who: str, now: datetime) -> None:
    """Say that nobody looks after an incident any more; anybody may say so of anybody."""
    with transaction.atomic():
        if lifecycle.unacknowledge(incident_id, who, now):
            _note(f"took back the acknowledgement of incident {incident_id}", who, now, incident_id=incident_id)
            return
    incident = _incident(incident_id)
    if incident.closed_at is not None:
        raise TooLate(f"incident {incident_id} closed at {incident.closed_at:%Y-%m-%d %H:%M} UTC")


def comment(incident_id: int, text: str, who: str, now: datetime, *, key: str | None = None) -> Deed:
    """Write a comment on an incident, also on one that has ended."""
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
            raise TooLate(f"the key {key} was used before, and {done.who} then {done.what}") from None
        return done


def silence(scope: Scope, until: datetime, reason: str, who: str, now: datetime, *, key: str | None = None) -> Quiet:
    """Tell nobody of incidents on the paths of `scope` until then."""
    quiet = Quiet(kind=Quiet.Kind.SILENCE, starts_at=now, ends_at=until, reason=reason)
    return _make(quiet, scope, who, now, key)


def maintain(
    scope: Scope,
    starts_at: datetime,
    ends_at: datetime,
    reason: str,
    who: str,
    now: datetime,
    *,
    every: timedelta | None = None,
    until: datetime | None = None,
    key: str | None = None,
) -> Quiet:
    """Open no incident on the paths of `scope` from one time to the other, again and again with `every`."""
    quiet = Quiet(kind=Quiet.Kind.MAINTENANCE, reason=reason)
    _set_window(quiet, Window(starts_at, ends_at, every, until))
    return _make(quiet, scope, who, now, key)


def change(quiet_id: int, revision: int, scope: Scope, window: Window, reason: str, who: str, now: datetime) -> Quiet:
    """Make another maintenance of the one that was seen at `revision`. `TooLate` if it has changed or ended since."""
    quiet = Quiet.objects.filter(pk=quiet_id, kind=Quiet.Kind.MAINTENANCE).first()
    if quiet is None:
        raise Unknown(f"there is no maintenance {quiet_id}")
    before = _content(quiet)
    quiet.reason = reason
    _set_window(quiet, window)
    _set_scope(quiet, scope)
    if before == _content(quiet) and quiet.ended_at is None:
        return quiet
    _check(quiet, now)
    with transaction.atomic():
        seen = Quiet.objects.filter(pk=quiet_id, revision=revision, ended_at=None)
        if not seen.update(**_content(quiet), revision=F("revision") + 1):
            raise TooLate(f"maintenance {quiet_id} was changed or ended since you read it; look at it again")
        _note(f"changed {quiet.kind} {quiet_id}, now for {_when(quiet, scope)}", who, now, quiet=quiet)
    quiet.refresh_from_db()
    return quiet


def end(quiet_id: int, who: str, now: datetime, *, kind: Quiet.Kind | None = None) -> None:
    """End a silence or a maintenance (of the `kind`, if that is given) for good, before its time."""
    with transaction.atomic():
        quiet = Quiet.objects.filter(pk=quiet_id).first()
        if quiet is None or (kind is not None and quiet.kind != kind):
            raise Unknown(f"there is no {kind or 'silence or maintenance'} {quiet_id} that lasts")
        if Quiet.objects.filter(pk=quiet_id, ended_at=None).update(ended_at=now):
            _note(f"ended {quiet.kind} {quiet_id}", who, now, quiet=quiet)


def scope_of(quiet: Quiet) -> Scope:
    """What a quiet time is for."""
    return Scope(path=quiet.path, site=quiet.site, group=quiet.group)


def _make(quiet: Quiet, scope: Scope, who: str, now: datetime, key: str | None) -> Quiet:
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
            raise TooLate(f"the key {key} was used before, and {done.who} then {done.what}") from None
        return done.quiet
    return quiet


def _set_scope(quiet: Quiet, scope: Scope) -> None:
    if sum(one is not None for one in (scope.path, scope.site, scope.group)) > 1:
        raise NotPossible("it is for a path, for a site or for a group; name one of them")
    quiet.path, quiet.site, quiet.group = scope.path, scope.site, scope.group


def _set_window(quiet: Quiet, window: Window) -> None:
    if window.every is not None and window.every < window.ends_at - window.starts_at:
        lasts = figures.duration(window.every.total_seconds())
        raise NotPossible(f"it lasts longer than the {lasts} until it comes again")
    if window.every is not None and window.every > LONGEST_EVERY:
        raise NotPossible(f"it comes again after more than {LONGEST_EVERY.days} days; plan each time by itself")
    if window.until is not None and window.every is None:
        raise NotPossible("it is once, so it ends with its time: leave out when it ends for good")
    quiet.starts_at, quiet.ends_at = window.starts_at, window.ends_at
    quiet.every_s, quiet.until = window.every_s, window.until


def _check(quiet: Quiet, now: datetime) -> None:
    for what, at in (("begins", quiet.starts_at), ("ends", quiet.ends_at), ("ends for good", quiet.until)):
        if at is not None and abs(at - now) > FURTHEST:
            raise NotPossible(f"it {what} in {at.year}, more than 10 years from now; is the year right?")
    if quiet.ends_at - quiet.starts_at > LONGEST:
        raise NotPossible(f"it lasts longer than {LONGEST.days} days; what is quiet for longer is to leave the mesh")
    if quiet.ends_at <= quiet.starts_at or (quiet.every_s is None and quiet.ends_at <= now):
        raise NotPossible(f"it ends, {quiet.ends_at:%Y-%m-%d %H:%M} UTC, before it begins or in the past")
    if quiet.until is not None and quiet.until <= max(quiet.starts_at, now):
        raise NotPossible(f"it ends for good, {quiet.until:%Y-%m-%d %H:%M} UTC, before it begins or in the past")


def _content(quiet: Quiet) -> dict[str, object]:
    """What a person decides of a quiet time."""
    named = ("path_id", "site_id", "group_id", "starts_at", "ends_at", "every_s", "until", "reason")
    return {name: getattr(quiet, name) for name in named}


def _is_same(made: Quiet, asked: Quiet) -> bool:
    """Whether a request that came again asks for what was made; a silence begins when it is made."""
    ignored = {"starts_at"} if made.kind == Quiet.Kind.SILENCE else set()
    before, again = _content(made), _content(asked)
    return made.kind == asked.kind and all(before[name] == again[name] for name in before.keys() - ignored)


def _note(
    what: str,
    who: str,
    now: datetime,
    *,
    incident_id: int | None = None,
    quiet: Quiet | None = None,
    comment: str = "",
    key: str | None = None,
) -> Deed:
    return Deed.objects.create(
        at=now, who=who, what=what, incident_id=incident_id, quiet=quiet, comment=comment, key=key
    )


def _done(who: str, key: str | None) -> Deed | None:
    """What came of the request of that key; None where there was none."""
    return None if key is None else Deed.objects.select_related("quiet").filter(who=who, key=key).first()


def _when(quiet: Quiet, scope: Scope) -> str:
    again = "" if quiet.every_s is None else f", every {figures.duration(quiet.every_s)}"
    last = "" if quiet.until is None else f" until {quiet.until:%Y-%m-%d %H:%M} UTC"
    return f"{scope} from {quiet.starts_at:%Y-%m-%d %H:%M} to {quiet.ends_at:%Y-%m-%d %H:%M} UTC{again}{last}"


def _incident(incident_id: int) -> Incident:
    found = Incident.objects.filter(pk=incident_id).first()
    if found is None:
        raise Unknown(f"there is no incident {incident_id}")
    return found
