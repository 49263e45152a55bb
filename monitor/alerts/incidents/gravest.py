"""The gravest findings of an incident, and whether its paths do not answer at all.

In: an incident with its paths. Out: its findings, gravest first, and the last reply in an outage. Titles, causes and
the refresh of evidence all take the outage from here.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from django.db.models.fields.json import KT

from monitor.alerts.detect.rules.catalogue import RULES, rule_of
from monitor.alerts.detect.rules.finding import Effect, RuleFinding
from monitor.alerts.incidents.finding_level import at_detection, level_of
from monitor.alerts.models import Incident, IncidentEvidence, IncidentPath, Severity

SAME_ONSET = timedelta(minutes=2)
"""An outage that began so near to its incident's onset is that of the whole incident."""


@dataclass(frozen=True, slots=True)
class OutageTimes:
    """The last reply before an outage of all paths of an incident, and when all answered again."""

    last_reply: datetime
    first_reply: datetime


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
    """The findings that are not over; of an incident that is over all of them."""
    rows = list(incident.paths.all())
    return rows if incident.closed_at is not None else [row for row in rows if not row.is_over] or rows


def of_gravest_rule(incident: Incident) -> list[IncidentPath]:
    """The findings of the gravest rule: while the incident is open of those that are not over."""
    rows = gravest_first(active_findings(incident))
    return [row for row in rows if row.rule == rows[0].rule]


def has_no_reply(incident: Incident, row: IncidentPath) -> bool:
    """Whether the path of a lasting finding of an open incident does not answer."""
    level = None if row.is_over or incident.closed_at is not None else level_of(row)
    return level is not None and level.unanswered_since is not None


def unanswered_since(incident: Incident) -> datetime | None:
    """Since when none of the paths with the gravest finding of an open incident of loss has answered."""
    if incident.closed_at is not None:
        return None
    levels = [level_of(row) for row in of_gravest_rule(incident) if not row.is_over]
    times = [None if level is None else level.unanswered_since for level in levels]
    last_replies = [at for at in times if at is not None]
    return max(last_replies) if last_replies and len(last_replies) == len(times) else None


def ended_outage(incident: Incident) -> OutageTimes | None:
    """The outage that an incident was, or began as, once all paths with its gravest finding answer again; None if some
    lost their packets in part only, or before it. An outage that ended before its onset is that of another."""
    levels = [level_of(row) for row in of_gravest_rule(incident)]
    outages = [None if level is None else level.ended_outage for level in levels]
    ended = [outage for outage in outages if outage is not None]
    if not ended or len(ended) < len(outages):
        return None
    last_reply, first_reply = max(of.last_reply for of in ended), max(of.first_reply for of in ended)
    latest = incident.opened_at if incident.began_at is None else incident.began_at + SAME_ONSET
    if incident.began_at is not None and first_reply <= incident.began_at:
        return None
    return OutageTimes(last_reply, first_reply) if last_reply <= latest else None


def damage(incident: Incident) -> tuple[int, int, float]:
    """Orders incidents by their damage: severity, then the gravest rule, then its worst figure."""
    order = {name: number for number, name in enumerate(reversed(RULES))}
    rows = of_gravest_rule(incident)
    gravest = rows[0].rule if rows else incident.rule
    peaks = [at_detection(row.figures) if (level := level_of(row)) is None else level.peak for row in rows]
    sign = -1.0 if rule_of(gravest).effect is Effect.LOW_THROUGHPUT else 1.0
    worst = max((sign * peak for peak in peaks if peak is not None), default=-math.inf)
    return Severity(incident.severity).rank, order.get(gravest, -1), worst


def with_turned_outage(incidents: Sequence[Incident]) -> list[Incident]:
    """Those of these incidents that have become an outage since their evidence was gathered, or are none any more, or
    have had replies without loss since on all paths."""
    rows = IncidentEvidence.objects.filter(incident__in=incidents)
    gathered = rows.values_list("incident_id", KT("facts__unanswered_since"), KT("facts__ended_at"))
    was = {incident_id: times for incident_id, *times in gathered}
    return [incident for incident in incidents if incident.pk in was and _has_turned(incident, *was[incident.pk])]


def _has_turned(incident: Incident, silent_since: str | None, ended_at: str | None) -> bool:
    if (silent_since is None) != (unanswered_since(incident) is None):
        return True
    levels = [level_of(row) for row in of_gravest_rule(incident)]
    is_over = all(level is not None and level.now == 0.0 for level in levels) and ended_outage(incident) is not None
    return ended_at is None and is_over
