"""What people look up: incidents by state, severity, place and time, one with all that is kept of it; quiet; deeds.

In: an `Asked`, or an id. Out: rows, a bounded number of them in a bounded number of queries. A site, group or severity
that does not exist raises `UnknownFilter`, which names those that do.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from django.db.models import Count, Prefetch, Q, QuerySet

from monitor.alerts.models import Deed, Incident, IncidentPath, IncidentTurn, Notification, Quiet, Severity
from monitor.mesh.models import Group, Site

MOST = 200


class UnknownFilter(ValueError):
    """There is no such site, group or severity; the message names those that there are."""


class Which(StrEnum):
    """Incidents by their state. Open ones last, whether somebody looks after them or not; pending ones are none yet."""

    OPEN = "open"
    UNACKNOWLEDGED = "unacknowledged"
    ACKNOWLEDGED = "acknowledged"
    RESOLVED = "resolved"
    PENDING = "pending"
    ALL = "all"


_LASTS = Q(closed_at=None, is_pending=False)
_IN_STATE = {
    Which.OPEN: _LASTS,
    Which.UNACKNOWLEDGED: _LASTS & Q(acknowledged_at=None),
    Which.ACKNOWLEDGED: _LASTS & Q(acknowledged_at__isnull=False),
    Which.RESOLVED: Q(closed_at__isnull=False),
    Which.PENDING: Q(closed_at=None, is_pending=True),
    Which.ALL: Q(is_pending=False),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """Which incidents: those that were open at any moment of [since, until), and touch the place. None: any."""

    which: Which = Which.OPEN
    severity: str | None = None
    site: str | None = None
    group: str | None = None
    path_id: int | None = None
    since: datetime | None = None
    until: datetime | None = None


@dataclass(frozen=True, slots=True)
class Counted:
    """How many incidents there are in each state, whatever state is asked for."""

    unacknowledged: int
    acknowledged: int
    resolved: int
    pending: int

    @property
    def open(self) -> int:
        return self.unacknowledged + self.acknowledged

    def of(self, which: Which) -> int:
        """How many are in this state."""
        return {
            Which.OPEN: self.open,
            Which.UNACKNOWLEDGED: self.unacknowledged,
            Which.ACKNOWLEDGED: self.acknowledged,
            Which.RESOLVED: self.resolved,
            Which.PENDING: self.pending,
            Which.ALL: self.open + self.resolved,
        }[which]


def incidents(asked: Asked, *, offset: int = 0, limit: int = MOST) -> list[Incident]:
    """So many incidents after the first `offset`, the newest first, with their paths: two queries."""
    found = Incident.objects.filter(_place_and_time(asked) & _IN_STATE[asked.which]).order_by("-opened_at", "-pk")
    return list(found.prefetch_related(Prefetch("paths", _paths()))[offset : offset + limit])


def count(asked: Asked) -> Counted:
    """The incidents of that place and time by state: one query."""
    states = (Which.UNACKNOWLEDGED, Which.ACKNOWLEDGED, Which.RESOLVED, Which.PENDING)
    counts = {str(one): Count("pk", filter=_IN_STATE[one]) for one in states}
    return Counted(**Incident.objects.filter(_place_and_time(asked)).aggregate(**counts))


def incident(incident_id: int) -> Incident:
    """One with its paths, turns, notifications and deeds, each in the order of time: five queries. Raises
    `Incident.DoesNotExist`."""
    return Incident.objects.prefetch_related(
        Prefetch("paths", _paths()),
        Prefetch("turns", IncidentTurn.objects.order_by("at", "pk")),
        Prefetch("notifications", Notification.objects.order_by("pk")),
        Prefetch("deeds", Deed.objects.order_by("at", "pk")),
    ).get(pk=incident_id)


def quiet_times(
    kind: Quiet.Kind | None = None, *, now: datetime | None = None, offset: int = 0, limit: int = MOST
) -> list[Quiet]:
    """Silences and maintenances, the newest first; with `now`, only those that hold then or later: one query."""
    found = Quiet.objects.select_related("site", "group", "path__source", "path__destination")
    if kind is not None:
        found = found.filter(kind=kind)
    if now is not None:
        once, again = Q(every_s=None, ends_at__gt=now), Q(every_s__isnull=False) & (Q(until=None) | Q(until__gt=now))
        found = found.filter(once | again, Q(ended_at=None) | Q(ended_at__gt=now))
    return list(found.order_by("-made_at", "-pk")[offset : offset + limit])


def deeds(*, who: str | None = None, incident_id: int | None = None, offset: int = 0, limit: int = MOST) -> list[Deed]:
    """Who did what, the newest first: one query."""
    found = Deed.objects.order_by("-at", "-pk")
    if who is not None:
        found = found.filter(who=who)
    if incident_id is not None:
        found = found.filter(incident_id=incident_id)
    return list(found[offset : offset + limit])


def require_known(asked: Asked) -> None:
    """Raises `UnknownFilter` for a site, group or severity that there is not; one query for each that is named."""
    if asked.site is not None and not Site.objects.filter(name=asked.site).exists():
        raise UnknownFilter(_unknown("site", asked.site, Site.objects.in_use().values_list("name", flat=True)))
    if asked.group is not None and not Group.objects.filter(name=asked.group).exists():
        raise UnknownFilter(_unknown("group", asked.group, Group.objects.in_use().values_list("name", flat=True)))
    if asked.severity is not None and asked.severity not in Severity.values:
        raise UnknownFilter(_unknown("severity", asked.severity, Severity.values))


def _unknown(what: str, given: str, there: Iterable[str]) -> str:
    return f"{what}={given}: there is no such {what}; there are {', '.join(there) or 'none'}"


def _place_and_time(asked: Asked) -> Q:
    condition = Q()
    if asked.severity is not None:
        condition &= Q(severity=asked.severity)
    if asked.since is not None:
        condition &= Q(closed_at=None) | Q(closed_at__gt=asked.since)
    if asked.until is not None:
        condition &= Q(opened_at__lt=asked.until)
    return condition & _touches(asked)


def _touches(asked: Asked) -> Q:
    """One path of the incident has all of it: a group contains the paths between its sites."""
    path = Q()
    if asked.path_id is not None:
        path &= Q(path_id=asked.path_id)
    if asked.site is not None:
        path &= Q(path__source__site__name=asked.site) | Q(path__destination__site__name=asked.site)
    if asked.group is not None:
        path &= Q(path__source__site__groups__name=asked.group, path__destination__site__groups__name=asked.group)
    return Q(pk__in=IncidentPath.objects.filter(path).values("incident_id")) if path else Q()


def _paths() -> QuerySet[IncidentPath]:
    return IncidentPath.objects.select_related("path__source__site", "path__destination__site").order_by("pk")
