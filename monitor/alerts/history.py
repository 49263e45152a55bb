"""Entries of an incident's history. Add them in the transaction of the change."""

from __future__ import annotations

from datetime import datetime

from django.db.models import OuterRef, QuerySet, Subquery

from monitor.alerts.models import HistoryEvent, Incident, IncidentTurn

# A pending incident opens once it is confirmed, or when it is acknowledged before.
OPENINGS = (HistoryEvent.OPENED, HistoryEvent.ACKNOWLEDGED)


def add_entry(incident_id: int, event: HistoryEvent, at: datetime, note: str = "") -> None:
    IncidentTurn.objects.create(incident_id=incident_id, at=at, turn=event, note=note)


def add_reopening(incident: Incident, at: datetime, note: str) -> None:
    IncidentTurn.objects.create(
        incident=incident,
        at=at,
        turn=HistoryEvent.REOPENED,
        note=note,
        earlier_began_at=incident.began_at or incident.opened_at,
        earlier_ended_at=incident.ended_at or incident.closed_at,
    )


def add_severity(incident: Incident, severity: str, reason: str, at: datetime) -> None:
    """Add the entry of a raised severity, with its finding."""
    add_entry(incident.pk, HistoryEvent.WORSENED, at, f"{incident.severity} to {severity}: {reason}")


def raised_text(incident: Incident) -> str:
    """As in `warning until 2026-11-21 10:23:00 UTC`; empty if never raised."""
    raised = [turn for turn in incident.turns.all() if turn.turn == HistoryEvent.WORSENED]
    if not raised or f" to {incident.severity}:" not in raised[-1].note:
        return ""
    return f"{raised[-1].note.partition(' to ')[0]} until {raised[-1].at:%Y-%m-%d %H:%M:%S} UTC"


def with_openings(incidents: QuerySet[Incident]) -> QuerySet[Incident]:
    """Annotate incidents with the times for `opened_at`, in the same query."""
    turns = IncidentTurn.objects.filter(incident=OuterRef("pk"), turn__in=OPENINGS).order_by("at", "pk")
    return incidents.annotate(first_opened_at=Subquery(turns.values("at")[:1]))


def opened_at(incident: Incident) -> datetime | None:
    """When an incident first opened; None while pending. Without that entry it opened with its detection."""
    if incident.is_pending:
        return None
    if hasattr(incident, "first_opened_at"):
        at: datetime | None = incident.first_opened_at
    else:
        at = min((turn.at for turn in incident.turns.all() if turn.turn in OPENINGS), default=None)
    return at or incident.opened_at
