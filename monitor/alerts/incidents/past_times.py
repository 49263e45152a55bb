"""The time of incidents and maintenance, which baselines leave out: two queries.

Pending incidents, accepted changes and raised limits are not left out.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from django.db.models import OuterRef, Q, Subquery

from monitor.alerts.detect.past.incident_times import IncidentTimes, MeasureKind, PathTime
from monitor.alerts.detect.rules.catalogue import rule_of
from monitor.alerts.detect.rules.counts import Rise
from monitor.alerts.detect.rules.finding import NEW_NORMAL, AlertRule, Effect, Trouble
from monitor.alerts.incidents.quiet import maintenance_times
from monitor.alerts.models import IncidentPath
from monitor.mesh.document.alert_rules import Place
from monitor.mesh.models import Path

PACKET_EFFECTS = (Effect.LOSS, Effect.UNREACHABLE, Effect.NO_DATA)
# The last bad burst began at the end of an incident, and is part of it.
AFTER_LAST_BAD = timedelta(milliseconds=2)


def measures_of(rule: AlertRule) -> tuple[MeasureKind, ...]:
    """The measures that a finding of the rule disturbs."""
    if rule.effect in PACKET_EFFECTS:
        return MeasureKind.PACKETS, MeasureKind.TESTS, MeasureKind.RESPONSES
    if rule.trouble is Trouble.THROUGHPUT:
        return (MeasureKind.TESTS,)
    if rule.trouble is Trouble.RESPONSES:
        return (MeasureKind.RESPONSES,)
    if isinstance(rule, Rise):
        return (MeasureKind.PACKETS,)
    # An estimate of whole days tells no time.
    return () if rule.effect is Effect.LOW_THROUGHPUT else (MeasureKind.DELAYS,)


@dataclass(frozen=True, slots=True)
class _PastFinding:
    path_id: int
    rule: str
    source: str
    destination: str
    since: datetime
    added_at: datetime
    is_over: bool
    ended_at: datetime | None
    closing: str
    incident__opened_at: datetime
    incident__began_at: datetime | None
    incident__closed_at: datetime | None
    incident__ended_at: datetime | None
    incident__reopenings: int
    incident__closing: str
    reverse: int | None

    @property
    def begin(self) -> datetime:
        """The onset by the rule; unless added later, also by the incident's onset and detection."""
        if self.incident__reopenings == 0 and self.added_at > self.incident__opened_at:
            return self.since
        return min(self.since, self.incident__began_at or self.since, self.incident__opened_at)

    def end(self, now: datetime) -> datetime | None:
        closed_at = self.incident__closed_at
        if self.is_over and self.ended_at is not None and (closed_at is None or self.ended_at < closed_at):
            return self.ended_at if self.ended_at <= now else None
        if closed_at is None or closed_at > now:
            return None
        ended_at = self.incident__ended_at
        return max(self.begin, closed_at if ended_at is None else ended_at + AFTER_LAST_BAD)

    @property
    def is_accepted(self) -> bool:
        own = f"{self.source} → {self.destination}: "
        reasons = [self.closing] if self.closing else self.incident__closing.split("; ")
        return any(
            reason.endswith(NEW_NORMAL) and (reason.startswith(own) or reason == self.closing) for reason in reasons
        )


def incident_times(
    since: datetime,
    now: datetime,
    places: Mapping[int, Place],
    path_ids: Collection[int] | None = None,
    but: int | None = None,
) -> IncidentTimes:
    """The times in [since, now], aware UTC, by the incidents known then, without the incident `but`."""
    times: dict[MeasureKind, list[PathTime]] = defaultdict(list)
    for finding in _findings(since, now, path_ids, but):
        end = finding.end(now)
        if finding.is_accepted and end is not None:
            continue
        for path_id in {finding.path_id, finding.reverse or finding.path_id}:
            of_path = PathTime(path_id, finding.begin.timestamp(), (end or now).timestamp(), end is not None)
            for measure in measures_of(rule_of(finding.rule)):
                times[measure].append(of_path)
    for path_id, begin, ended_at in maintenance_times(since, now, places):
        for measure in MeasureKind:
            times[measure].append(PathTime(path_id, begin.timestamp(), ended_at.timestamp()))
    return IncidentTimes({measure: tuple(of_measure) for measure, of_measure in times.items()})


def _findings(since: datetime, now: datetime, path_ids: Collection[int] | None, but: int | None) -> list[_PastFinding]:
    """Findings of incidents open after `since`, as known at `now`."""
    rows = IncidentPath.objects.filter(
        Q(incident__closed_at=None) | Q(incident__closed_at__gt=since), incident__is_pending=False, added_at__lte=now
    ).exclude(incident=but)
    reverse = Path.objects.filter(source=OuterRef("path__destination"), destination=OuterRef("path__source"))
    rows = rows.annotate(reverse=Subquery(reverse.values("pk")[:1]))
    if path_ids is not None:
        rows = rows.filter(Q(path__in=path_ids) | Q(reverse__in=path_ids))
    names: dict[str, Any] = {"source": "path__source__name", "destination": "path__destination__name"}
    columns = [names.get(name, name) for name in _PastFinding.__dataclass_fields__]
    return [_PastFinding(*row) for row in rows.values_list(*columns)]
