"""Messages about incidents as plain text; the long form is `monitor.alerts.evidence.ticket`."""

from __future__ import annotations

from monitor.alerts.evidence.ending import is_over
from monitor.alerts.evidence.evidence import Evidence
from monitor.alerts.evidence.words import duration_text, headline, link
from monitor.alerts.incidents.gravest import active_findings, gravest_first
from monitor.alerts.incidents.outbox import OPENINGS
from monitor.alerts.models import Incident, IncidentChange

CHANGE_WORDS = {
    IncidentChange.OPENED: "OPEN",
    IncidentChange.REOPENED: "REOPENED",
    IncidentChange.WORSENED: "WORSE",
    IncidentChange.CORRECTED: "CORRECTED",
    IncidentChange.CLOSED: "RESOLVED",
}
PATHS_NAMED = 5


def subject(incident: Incident, change: str) -> str:
    """The first line of a message: `OPEN warning: cern ↔ slac loses 2% since 10:00:02 UTC`."""
    word, over = CHANGE_WORDS[IncidentChange(change)], incident.over_since
    if change in OPENINGS and over is not None:
        return f"OVER {incident.severity}, lasted {duration_text(incident, over)}: {headline(incident)}"
    if change == IncidentChange.CLOSED and incident.closed_at is not None:
        return f"{word}, lasted {duration_text(incident, incident.closed_at)}: {headline(incident)}"
    return f"{word} {incident.severity}: {headline(incident)}"


def body(incident: Incident, change: str, evidence: Evidence) -> str:
    lines = [_state(incident, change)]
    if change == IncidentChange.CLOSED:
        lines.append(f"Resolved: {incident.closing}.")
    if change == IncidentChange.CORRECTED or incident.correction:
        lines.append(f"Correction: {incident.correction}.")
    lines.append(f"Likely cause: {evidence.likely}")
    if evidence.cause.next_step and not is_over(incident):
        lines.append(f"Next step: {evidence.cause.next_step}")
    if evidence.began_text:
        lines.append(f"Began: {evidence.began_text}.")
    if evidence.shares:
        lines.append(f"Where: {'; '.join(share.text for share in evidence.shares)}.")
    lines += ["", *finding_lines(incident), "", link(incident.pk)]
    return "\n".join(lines)


def finding_lines(incident: Incident) -> list[str]:
    """The findings, a line for each path and rule, gravest first."""
    rows = gravest_first(active_findings(incident))
    lines = [f"{row.path}: {row.sentence}" for row in rows[:PATHS_NAMED]]
    left = len(rows) - PATHS_NAMED
    return [*lines, *([f"and {left} more"] if left > 0 else [])]


def _state(incident: Incident, change: str) -> str:
    opened = f"{incident.opened_at:%Y-%m-%d %H:%M:%S} UTC"
    if incident.closed_at is not None:
        closed, lasted = f"{incident.closed_at:%Y-%m-%d %H:%M:%S} UTC", duration_text(incident, incident.closed_at)
        return f"Incident {incident.pk}, lasted {lasted}; detected {opened}, resolved {closed}."
    reopened = f", reopened {incident.reopened_at:%Y-%m-%d %H:%M:%S} UTC" if incident.reopened_at else ""
    acknowledged = f" Acknowledged by {incident.acknowledged_by}." if incident.acknowledged_at else ""
    over = incident.over_since
    ended = "" if over is None else f", over since {over:%Y-%m-%d %H:%M:%S} UTC"
    return f"Incident {incident.pk}, detected {opened}{reopened}{ended}.{acknowledged}"
