"""Queries of pages and API for incidents, silences, maintenance and the audit log, bounded in rows and queries.

An unknown site, group or severity raises `UnknownFilter`.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from django.db.models import Count, Prefetch, Q, QuerySet

from monitor.alerts.history import with_openings
from monitor.alerts.incidents.queries import concerns_path
from monitor.alerts.models import AuditRecord, Incident, IncidentPath, IncidentTurn, Notification, QuietPeriod, Severity
from monitor.mesh.models import Group, Site

MOST = 200


class UnknownFilter(ValueError):
    """The site, group or severity does not exist; the message names the valid values."""


class StateFilter(StrEnum):
    """Incidents by state; OPEN includes acknowledged, pending count only as PENDING."""

    OPEN = "open"
    UNACKNOWLEDGED = "unacknowledged"
    ACKNOWLEDGED = "acknowledged"
    RESOLVED = "resolved"
    PENDING = "pending"
    ALL = "all"


_LASTS = Q(closed_at=None, is_pending=False)
_IN_STATE = {
    StateFilter.OPEN: _LASTS,
    StateFilter.UNACKNOWLEDGED: _LASTS & Q(acknowledged_at=None),
    StateFilter.ACKNOWLEDGED: _LASTS & Q(acknowledged_at__isnull=False),
    StateFilter.RESOLVED: Q(closed_at__isnull=False),
    StateFilter.PENDING: Q(closed_at=None, is_pending=True),
    StateFilter.ALL: Q(is_pending=False),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class IncidentFilter:
    """A filter of incidents; None matches any."""

    which: StateFilter = StateFilter.OPEN
    severity: str | None = None
    site: str | None = None
    group: str | None = None
    path_id: int | None = None
    since: datetime | None = None
    until: datetime | None = None


@dataclass(frozen=True, slots=True)
class StateCounts:
    unacknowledged: int
    over: int  # of the unacknowledged, waiting to close
    acknowledged: int
    resolved: int
    pending: int

    @property
    def open(self) -> int:
        return self.unacknowledged + self.acknowledged

    def number(self, which: StateFilter) -> int:
        return {
            StateFilter.OPEN: self.open,
            StateFilter.UNACKNOWLEDGED: self.unacknowledged,
            StateFilter.ACKNOWLEDGED: self.acknowledged,
            StateFilter.RESOLVED: self.resolved,
            StateFilter.PENDING: self.pending,
            StateFilter.ALL: self.open + self.resolved,
        }[which]


def incidents(query: IncidentFilter, *, offset: int = 0, limit: int = MOST) -> list[Incident]:
    """At most `limit` incidents after the first `offset`, newest first, with their paths: two queries."""
    rows = Incident.objects.filter(_place_and_time(query) & _IN_STATE[query.which]).order_by("-opened_at", "-pk")
    rows = with_openings(rows).prefetch_related(Prefetch("paths", _paths()))
    return list(rows[offset : offset + limit])


def count(query: IncidentFilter) -> StateCounts:
    """Count the incidents of that place and time by state: a single query."""
    states = (StateFilter.UNACKNOWLEDGED, StateFilter.ACKNOWLEDGED, StateFilter.RESOLVED, StateFilter.PENDING)
    counts = {str(state): Count("pk", filter=_IN_STATE[state]) for state in states}
    counts["over"] = Count("pk", filter=_IN_STATE[StateFilter.UNACKNOWLEDGED] & Q(over_since__isnull=False))
    return StateCounts(**Incident.objects.filter(_place_and_time(query)).aggregate(**counts))


def incident(incident_id: int) -> Incident:
    """An incident with its paths, history, notifications and audit records, oldest first: five queries.

    Raises `Incident.DoesNotExist`.
    """
    return Incident.objects.prefetch_related(
        Prefetch("paths", _paths()),
        Prefetch("turns", IncidentTurn.objects.order_by("at", "pk")),
        Prefetch("notifications", Notification.objects.order_by("pk")),
        Prefetch("deeds", AuditRecord.objects.order_by("at", "pk")),
    ).get(pk=incident_id)


def quiet_times(
    kind: QuietPeriod.Kind | None = None, *, now: datetime | None = None, offset: int = 0, limit: int = MOST
) -> list[QuietPeriod]:
    """Silences and maintenances, newest first; with `now`, only those active then or later: a single query."""
    rows = QuietPeriod.objects.select_related("site", "group", "path__source__site", "path__destination__site")
    if kind is not None:
        rows = rows.filter(kind=kind)
    if now is not None:
        once, again = Q(every_s=None, ends_at__gt=now), Q(every_s__isnull=False) & (Q(until=None) | Q(until__gt=now))
        rows = rows.filter(once | again, Q(ended_at=None) | Q(ended_at__gt=now))
    return list(rows.order_by("-made_at", "-pk")[offset : offset + limit])


def audit_records(
    *, who: str | None = None, incident_id: int | None = None, offset: int = 0, limit: int = MOST
) -> list[AuditRecord]:
    """Audit records, newest first: a single query."""
    rows = AuditRecord.objects.order_by("-at", "-pk")
    if who is not None:
        rows = rows.filter(who=who)
    if incident_id is not None:
        rows = rows.filter(incident_id=incident_id)
    return list(rows[offset : offset + limit])


def require_known(query: IncidentFilter) -> None:
    """Raise `UnknownFilter` for a site, group or severity that does not exist; a query for each."""
    if query.site is not None and not Site.objects.filter(name=query.site).exists():
        raise UnknownFilter(_unknown("site", query.site, Site.objects.in_use().values_list("name", flat=True)))
    if query.group is not None and not Group.objects.filter(name=query.group).exists():
        raise UnknownFilter(_unknown("group", query.group, Group.objects.in_use().values_list("name", flat=True)))
    if query.severity is not None and query.severity not in Severity.values:
        raise UnknownFilter(_unknown("severity", query.severity, Severity.values))


def _unknown(parameter: str, given: str, valid: Iterable[str]) -> str:
    return f"{parameter}={given}: there is no such {parameter}; there are {', '.join(valid) or 'none'}"


def _place_and_time(query: IncidentFilter) -> Q:
    condition = Q()
    if query.severity is not None:
        condition &= Q(severity=query.severity)
    if query.since is not None:
        condition &= Q(closed_at=None) | Q(closed_at__gt=query.since)
    if query.until is not None:
        condition &= Q(opened_at__lt=query.until)
    return condition & _touches(query)


def _touches(query: IncidentFilter) -> Q:
    """Match a path by all criteria; groups contain paths between their sites."""
    path = Q()
    if query.path_id is not None:
        path &= concerns_path(query.path_id)
    if query.site is not None:
        path &= Q(path__source__site__name=query.site) | Q(path__destination__site__name=query.site)
    if query.group is not None:
        path &= Q(path__source__site__groups__name=query.group, path__destination__site__groups__name=query.group)
    return Q(pk__in=IncidentPath.objects.filter(path).values("incident_id")) if path else Q()


def _paths() -> QuerySet[IncidentPath]:
    return IncidentPath.objects.select_related("path__source__site", "path__destination__site").order_by("pk")
