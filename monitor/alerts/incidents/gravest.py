"""The gravest findings of an incident, and whether its paths do not answer at all.

In: an incident with its paths. Out: its findings, gravest first, and the last reply in an outage. Titles, causes and
the refresh of evidence all take the outage from here.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime

from django.db.models.fields.json import KT

from monitor.alerts.detect.rules.catalogue import RULES
from monitor.alerts.detect.rules.finding import RuleFinding
from monitor.alerts.incidents.finding_level import level_of
from monitor.alerts.models import Incident, IncidentEvidence, IncidentPath


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


def with_turned_outage(incidents: Sequence[Incident]) -> list[Incident]:
    """Those of these incidents that have become an outage since their evidence was gathered, or are none any more."""
    rows = IncidentEvidence.objects.filter(incident__in=incidents)
    was = dict(rows.values_list("incident_id", KT("facts__unanswered_since")))
    return [
        incident
        for incident in incidents
        if incident.pk in was and (was[incident.pk] is None) != (unanswered_since(incident) is None)
    ]
