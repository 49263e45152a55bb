"""What people do about incidents: acknowledge, silence, plan maintenance, end either. Each deed is kept with its doer.

In: who, and the moment. Out: the rows, and a `Deed` in the same transaction. Raises `NotPossible` with a text for
people. What follows from a quiet time is in `monitor.alerts.quiet`.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

from django.db import transaction

from monitor.alerts import incidents
from monitor.alerts.models import Deed, Incident, Quiet
from monitor.analysis import figures
from monitor.mesh.models import Group, Path, Site


class NotPossible(Exception):
    """What was asked for cannot be done; the text says why."""


@dataclass(frozen=True, slots=True)
class Scope:
    """What a quiet time is for: at most one of the three, the whole mesh where there is none."""

    path: Path | None = None
    site: Site | None = None
    group: Group | None = None

    def __str__(self) -> str:
        named = [str(one) for one in (self.path, self.site) if one is not None]
        return ", ".join([*named, *([f"group {self.group.name}"] if self.group else [])]) or "the whole mesh"


def acknowledge(incident_id: int, who: str, now: datetime) -> None:
    """Say that somebody looks after an open incident."""
    with transaction.atomic():
        if not incidents.acknowledge(incident_id, who, now):
            raise NotPossible(_why_not_acknowledged(incident_id))
        Deed.objects.create(at=now, who=who, what=f"acknowledged incident {incident_id}", incident_id=incident_id)


def silence(scope: Scope, until: datetime, reason: str, who: str, now: datetime) -> Quiet:
    """Tell nobody of incidents on the paths of `scope` until then."""
    quiet = Quiet(kind=Quiet.Kind.SILENCE, starts_at=now, ends_at=until, reason=reason)
    return _make(quiet, scope, who, now)


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
) -> Quiet:
    """Open no incident on the paths of `scope` from one time to the other, again and again with `every`."""
    if every is not None and every < ends_at - starts_at:
        raise NotPossible(f"it lasts longer than the {figures.duration(every.total_seconds())} until it comes again")
    every_s = None if every is None else int(every.total_seconds())
    quiet = Quiet(
        kind=Quiet.Kind.MAINTENANCE, starts_at=starts_at, ends_at=ends_at, every_s=every_s, until=until, reason=reason
    )
    return _make(quiet, scope, who, now)


def end(quiet_id: int, who: str, now: datetime) -> None:
    """End a silence or a maintenance for good, before its time."""
    with transaction.atomic():
        if not Quiet.objects.filter(pk=quiet_id, ended_at=None).update(ended_at=now):
            raise NotPossible(f"there is no silence or maintenance {quiet_id} that lasts")
        kind = Quiet.objects.get(pk=quiet_id).kind
        Deed.objects.create(at=now, who=who, what=f"ended {kind} {quiet_id}", quiet_id=quiet_id)


def _make(quiet: Quiet, scope: Scope, who: str, now: datetime) -> Quiet:
    if sum(one is not None for one in (scope.path, scope.site, scope.group)) > 1:
        raise NotPossible("it is for a path, for a site or for a group; name one of them")
    if quiet.ends_at <= max(quiet.starts_at, now):
        raise NotPossible(f"it ends, {quiet.ends_at:%Y-%m-%d %H:%M} UTC, before it begins or in the past")
    quiet.path, quiet.site, quiet.group = scope.path, scope.site, scope.group
    quiet.made_by, quiet.made_at = who, now
    with transaction.atomic():
        quiet.save()
        what = f"made {quiet.kind} {quiet.pk} for {scope} from {quiet.starts_at:%Y-%m-%d %H:%M} to {_last(quiet)} UTC"
        Deed.objects.create(at=now, who=who, what=what, quiet=quiet)
    return quiet


def _last(quiet: Quiet) -> str:
    again = "" if quiet.every_s is None else f", every {figures.duration(quiet.every_s)}"
    return f"{quiet.ends_at:%Y-%m-%d %H:%M}{again}"


def _why_not_acknowledged(incident_id: int) -> str:
    incident = Incident.objects.filter(pk=incident_id).first()
    if incident is None:
        return f"there is no incident {incident_id}"
    if incident.closed_at is not None:
        return f"incident {incident_id} closed at {incident.closed_at:%Y-%m-%d %H:%M} UTC"
    return f"{incident.acknowledged_by} acknowledged incident {incident_id} at {incident.acknowledged_at:%H:%M} UTC"
