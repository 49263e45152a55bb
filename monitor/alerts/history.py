"""Entries of an incident's history. Add them in the transaction of the change."""

from __future__ import annotations

from datetime import datetime

from monitor.alerts.models import HistoryEvent, Incident, IncidentTurn


def add_entry(incident_id: int, event: HistoryEvent, at: datetime, note: str = "") -> None:
    """Add an entry."""
    IncidentTurn.objects.create(incident_id=incident_id, at=at, turn=event, note=note)


def add_severity(incident: Incident, severity: str, reason: str, at: datetime) -> None:
    """Add the entry of a severity that is raised from the present one of `incident`, with the finding behind it."""
    add_entry(incident.pk, HistoryEvent.WORSENED, at, f"{incident.severity} to {severity}: {reason}")
