"""The gravest findings of an incident, and the last reply in an outage, for titles, causes and evidence."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime

from django.db.models.fields.json import KT

from monitor.alerts.detect.rules.catalogue import RULES, rule_of
from monitor.alerts.detect.rules.finding import Effect, RuleFinding
from monitor.alerts.incidents.own_track import own_track, peak_of
from monitor.alerts.models import Incident, IncidentEvidence, IncidentPath, Severity
from monitor.analysis.segments.stretches import DEAD
from monitor.present.track import newest_of


def gravity(rule: str) -> int:
    """The place of a rule among all, gravest first."""
    return list(RULES).index(rule) if rule in RULES else len(RULES)


def gravest_of(findings: Iterable[RuleFinding]) -> list[RuleFinding]:
    """Sort findings of an evaluation by rule, gravest first, then by path."""
    return sorted(findings, key=lambda finding: (gravity(finding.rule), finding.path))


def gravest_first(rows: Iterable[IncidentPath]) -> list[IncidentPath]:
    """Sort findings of an incident by rule, gravest first, then by path."""
    return sorted(rows, key=lambda row: (gravity(row.rule), str(row.path)))


def active_findings(incident: Incident) -> list[IncidentPath]:
    """The findings that are not over; all of an ended incident."""
    rows = list(incident.paths.all())
    return rows if incident.closed_at is not None else [row for row in rows if not row.is_over] or rows


def of_gravest_rule(incident: Incident) -> list[IncidentPath]:
    """The findings of the gravest rule; only lasting ones while the incident is open."""
    rows = gravest_first(active_findings(incident))
    return [row for row in rows if row.rule == rows[0].rule]


def has_no_reply(incident: Incident, row: IncidentPath) -> bool:
    track = None if row.is_over or incident.closed_at is not None else own_track(row)
    return track is not None and track.is_dead


def unanswered_since(incident: Incident) -> datetime | None:
    """Since when an open loss incident's gravest paths have no reply; None if any has."""
    if incident.closed_at is not None:
        return None
    tracks = [own_track(row) for row in of_gravest_rule(incident) if not row.is_over]
    times_s = [track.now.since.at_s for track in tracks if track is not None and track.now and track.is_dead]
    return datetime.fromtimestamp(max(times_s), UTC) if times_s and len(times_s) == len(tracks) else None


def was_outage(incident: Incident) -> bool:
    """Whether all paths with the gravest finding answer again after an outage, without loss since."""
    tracks = [own_track(row) for row in of_gravest_rule(incident)]
    return bool(tracks) and all(track is not None and track.is_revived for track in tracks)


def outages_in_a_row(row: IncidentPath) -> int:
    """The newest outages of a finding's path that count together as flapping."""
    track = own_track(row)
    if track is None or track.now is None:
        return 0
    ends_s = [*(later.since.at_s for later in track.segments[1:]), track.newest_s]
    silent = [(of.since.at_s, at_s) for of, at_s in zip(track.segments, ends_s, strict=True) if of.state == DEAD]
    return len(newest_of(silent, 0.0))


def damage(incident: Incident) -> tuple[int, int, float]:
    """Sort key by damage: severity, the gravest rule, its worst figure."""
    order = {name: number for number, name in enumerate(reversed(RULES))}
    rows = of_gravest_rule(incident)
    gravest = rows[0].rule if rows else incident.rule
    sign = -1.0 if rule_of(gravest).effect is Effect.LOW_THROUGHPUT else 1.0
    worst = max((sign * peak for row in rows if (peak := peak_of(row)) is not None), default=-math.inf)
    return Severity(incident.severity).rank, order.get(gravest, -1), worst


def worst_ratio(incident: Incident) -> float:
    """The worst loss by the gravest rule, 1 without replies; 0 for rules without loss."""
    rows = of_gravest_rule(incident)
    effect = rule_of(rows[0].rule).effect if rows else None
    if effect is not Effect.LOSS:
        return 1.0 if effect is Effect.UNREACHABLE else 0.0
    return max(peak_of(row) or 0.0 for row in rows)


def with_turned_outage(incidents: Sequence[Incident]) -> list[Incident]:
    """Incidents with an outage begun or over since their evidence was gathered."""
    rows = IncidentEvidence.objects.filter(incident__in=incidents)
    gathered = rows.values_list("incident_id", KT("facts__unanswered_since"), KT("facts__ended_at"))
    was = {incident_id: times for incident_id, *times in gathered}
    return [incident for incident in incidents if incident.pk in was and _has_turned(incident, *was[incident.pk])]


def _has_turned(incident: Incident, silent_since: str | None, ended_at: str | None) -> bool:
    if (silent_since is None) != (unanswered_since(incident) is None):
        return True
    return ended_at is None and incident.over_since is not None
