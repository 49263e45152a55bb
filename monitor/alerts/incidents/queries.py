"""Queries of incidents for pages, reports and evaluation, with paths and hosts prefetched: two queries. Times are aware
UTC."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from django.db.models import (
    Case,
    Count,
    DateTimeField,
    ExpressionWrapper,
    F,
    Max,
    OuterRef,
    Prefetch,
    Q,
    QuerySet,
    Subquery,
    Value,
    When,
)
from django.db.models.functions import Coalesce, Greatest

from monitor.alerts.models import UNTOLD, HistoryEvent, Incident, IncidentPath, IncidentTurn
from monitor.mesh.models import Path

SHORTEST_REFRESH = timedelta(minutes=2)
# Evidence of an open incident is renewed when its age has doubled, and at least as often as this.
LONGEST_UNREFRESHED = timedelta(minutes=15)


@dataclass(frozen=True, slots=True)
class LastingCount:
    """The number of open incidents of a severity with `rule` as the gravest."""

    severity: str
    rule: str
    incidents: int


@dataclass(frozen=True, slots=True)
class PathIncident:
    """An incident, and when a path joined it, or its opening if later."""

    id: int
    at: datetime


def lasting_counts() -> list[LastingCount]:
    """Count open incidents, including acknowledged, by severity and rule."""
    rows = Incident.objects.filter(_FOUND, closed_at__isnull=True).values_list("severity", "rule")
    return [LastingCount(*row) for row in rows.annotate(incidents=Count("pk")).order_by("severity", "rule")]


def open_incidents() -> list[Incident]:
    """Every open incident, newest first."""
    return list(_with_paths().filter(closed_at__isnull=True))


def lasting_and_over(incidents: Iterable[Incident]) -> tuple[set[int], set[int]]:
    """The paths of incidents that go on, and of others."""
    paths: dict[bool, set[int]] = {True: set(), False: set()}
    for path_id, incident in paths_in(incidents):
        paths[incident.over_since is None].add(path_id)
    return paths[True], paths[False] - paths[True]


def paths_in(incidents: Iterable[Incident]) -> list[tuple[int, Incident]]:
    """Each path of open incidents with its incident: a query if any names a direction."""
    own = [(row.path_id, incident) for incident in incidents for row in incident.paths.all() if not row.is_over]
    # Round trips of a single path may show the loss of the other direction, which the incident names.
    named = {
        (*incident.toward.split(" → "), row.path.family): incident
        for incident in incidents
        for row in incident.paths.all()
        if " → " in incident.toward and not row.is_over
    }
    if not named:
        return own
    ends, own_ids = ("source__site__name", "destination__site__name"), {path_id for path_id, _ in own}
    sources, destinations, _ = map(set, zip(*named, strict=True))
    rows = Path.objects.filter(retired_at=None, **{f"{ends[0]}__in": sources, f"{ends[1]}__in": destinations})
    others = [(path_id, named.get(tuple(key))) for path_id, *key in rows.values_list("pk", *ends, "family")]
    return own + [(path_id, of) for path_id, of in others if of is not None and path_id not in own_ids]


def lasting_incidents() -> list[Incident]:
    """Every open or pending incident, newest first."""
    return list(_with_paths(_EVERY).filter(closed_at__isnull=True))


def lasting_or_among(incidents: Iterable[Incident]) -> list[Incident]:
    """Every open or pending incident, and these as now stored; newest first."""
    among = Q(pk__in=[incident.pk for incident in incidents])
    return list(_with_paths(_EVERY).filter(among | Q(closed_at__isnull=True)))


def ended_s(since: datetime) -> dict[tuple[int, str], float]:
    """The last end by path and rule after `since`, in seconds since the epoch: the finding's or its incident's."""
    ended = IncidentPath.objects.filter(
        is_over=True, incident__turns__turn=HistoryEvent.RESOLVED, incident__turns__at__gt=since
    )
    newest = ended.values_list("path_id", "rule").annotate(at=Max("incident__turns__at")).order_by()
    ends = {(path_id, rule): at.timestamp() for path_id, rule, at in newest}
    alone = IncidentPath.objects.filter(is_over=True, ended_at__gt=since, incident__is_pending=False)
    newest = alone.values_list("path_id", "rule").annotate(at=Max("ended_at")).order_by()
    for path_id, rule, at in newest:
        ends[path_id, rule] = max(ends.get((path_id, rule), 0.0), at.timestamp())
    return ends


def ended_findings(since: datetime, until: datetime) -> list[IncidentPath]:
    """Findings that ended in [since, until], last first. A merged incident did not end."""
    with_incident = Q(incident__closed_at__gte=since, incident__closed_at__lte=until, incident__merged_into=None)
    goes_on = Q(incident__closed_at=None) | Q(incident__merged_into__isnull=False)
    alone = goes_on & Q(is_over=True, ended_at__gte=since, ended_at__lte=until)
    ended = IncidentPath.objects.filter(with_incident | alone, incident__is_pending=False)
    rows = ended.annotate(at=Case(When(with_incident, then="incident__closed_at"), default="ended_at"))
    return list(rows.select_related("incident").order_by("-at", "pk"))


def last_ended(since: datetime, until: datetime) -> Incident | None:
    """The incident that ended last in [since, until], or None. A merged incident did not end."""
    ended = _with_paths().filter(closed_at__gte=since, closed_at__lte=until, merged_into=None)
    return ended.order_by("-closed_at", "-pk").first()


def ended_since(since: datetime) -> list[Incident]:
    """The incidents that ended from `since` on, except merged incidents."""
    return list(_with_paths().filter(closed_at__gte=since, merged_into=None))


def untold_incidents() -> list[Incident]:
    """Every pending incident, and every open incident that was not notified, oldest first."""
    return list(_with_paths(UNTOLD | Q(is_pending=True)).order_by("opened_at", "pk"))


def recent_incidents(limit: int = 50) -> list[Incident]:
    """The newest incidents by opening, open or closed."""
    return list(_with_paths()[:limit])


def incidents_between(since: datetime, until: datetime) -> list[Incident]:
    """Incidents open at any moment of [since, until), newest first."""
    return list(_with_paths().filter(_overlaps(since, until)))


def incidents_of_path(path_id: int, since: datetime, until: datetime) -> list[Incident]:
    """Incidents that concern this path, open at any moment of [since, until), newest first."""
    of_path = IncidentPath.objects.filter(concerns_path(path_id)).values("incident_id")
    return list(_with_paths().filter(_overlaps(since, until), pk__in=of_path))


def concerns_path(path_id: int) -> Q:
    """Match findings on this path, or its reverse in an incident named after both: pings cross both directions."""
    ends = Path.objects.filter(pk=path_id)
    is_reverse = Q(path__source=ends.values("destination")[:1], path__destination=ends.values("source")[:1])
    return Q(path_id=path_id) | (is_reverse & Q(incident__cause__contains=" ↔ "))


def incidents_of_paths_at(at: datetime) -> dict[int, int]:
    """The incident of each path that had one at a moment, also of the past: the newest of several."""
    lasting = Q(is_over=False) | Q(ended_at__gt=at) | Q(is_over=True, ended_at=None, incident__closed_at__gt=at)
    was_open = Q(incident__closed_at=None) | Q(incident__closed_at__gt=at)
    rows = IncidentPath.objects.filter(lasting, was_open, added_at__lte=at, incident__is_pending=False)
    rows = rows.filter(incident__opened_at__lte=at).order_by("incident__opened_at", "incident_id")
    return dict(rows.values_list("path_id", "incident_id"))


def incident_between_sites(source: str, destination: str, since: datetime) -> PathIncident | None:
    """The first incident that a path between these sites, in either direction, joined or that reopened since."""
    row = _between_sites(source, destination).filter(joined_at__gte=since).order_by("joined_at").first()
    return None if row is None else PathIncident(row.incident_id, row.open_at)


def lasting_between_sites(source: str, destination: str) -> list[IncidentPath]:
    """Lasting findings of open incidents between these sites, in either direction, newest first."""
    rows = _between_sites(source, destination).filter(incident__closed_at=None, is_over=False)
    return list(rows.order_by("-joined_at", "pk"))


def _between_sites(source: str, destination: str) -> QuerySet[Any]:
    between = Q(path__source__site__name=source, path__destination__site__name=destination)
    between |= Q(path__source__site__name=destination, path__destination__site__name=source)
    turns = IncidentTurn.objects.filter(incident=OuterRef("incident"), turn=HistoryEvent.OPENED).values("at")[:1]
    return IncidentPath.objects.filter(between, incident__is_pending=False).annotate(
        joined_at=Greatest("added_at", Coalesce("incident__reopened_at", "added_at")),
        open_at=Greatest("joined_at", Coalesce(Subquery(turns), "joined_at")),
    )


def incident_with_paths(incident_id: int) -> Incident | None:
    """The incident with this id, also if pending; None if it does not exist."""
    return _with_paths(_EVERY).filter(pk=incident_id).first()


def without_evidence(since: datetime, now: datetime, most: int) -> list[Incident]:
    """The newest incidents since `since` with missing, outgrown or old evidence, missing first."""
    rows = IncidentPath.objects.filter(incident=OuterRef("pk"))
    newest = rows.order_by("-added_at").values("added_at")[:1]
    ended = rows.filter(ended_at__isnull=False).order_by("-ended_at").values("ended_at")[:1]
    lacking = Q(kept_evidence=None) | Q(kept_evidence__gathered_at__lt=Subquery(newest))
    lacking |= Q(closed_at=None, kept_evidence__gathered_at__lt=Subquery(ended))
    recent = _with_paths().filter(opened_at__gte=since)
    incidents = list(recent.filter(lacking)[:most])
    outdated = recent.filter(_outdated(now)).exclude(pk__in=[incident.pk for incident in incidents])
    return incidents + list(outdated[: most - len(incidents)])


def _outdated(now: datetime) -> Q:
    """Match evidence from the first half of an incident's age, 15 minutes old, or before its end."""
    gathered_before = "kept_evidence__gathered_at__lt"
    half_ago = ExpressionWrapper(F("opened_at") + (Value(now) - F("opened_at")) / 2, DateTimeField())
    aged = Q(**{gathered_before: half_ago}) | Q(**{gathered_before: now - LONGEST_UNREFRESHED})
    is_open = Q(closed_at__isnull=True, **{gathered_before: now - SHORTEST_REFRESH})
    has_ended = Q(closed_at__lt=now - SHORTEST_REFRESH, **{gathered_before: F("closed_at") + SHORTEST_REFRESH})
    return (is_open & aged) | has_ended


_EVERY = Q()
# All confirmed incidents.
_FOUND = Q(is_pending=False)


def _with_paths(which: Q = _FOUND) -> QuerySet[Incident]:
    paths = IncidentPath.objects.select_related("path__source__site", "path__destination__site").order_by("pk")
    return Incident.objects.filter(which).order_by("-opened_at", "-pk").prefetch_related(Prefetch("paths", paths))


def _overlaps(since: datetime, until: datetime) -> Q:
    return Q(opened_at__lt=until) & (Q(closed_at__isnull=True) | Q(closed_at__gt=since))
