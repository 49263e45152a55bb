"""The outbox: notifications of a change of an incident by channel, as rows that `notify.deliver` sends."""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime

from django.db import transaction

from monitor.alerts.incidents.gravest import gravity
from monitor.alerts.models import DeliveryState, Incident, IncidentChange, Notification
from monitor.mesh.document import notify_routes
from monitor.mesh.document.alert_rules import Place
from monitor.mesh.document.notify_routes import NotifyRoute
from monitor.mesh.queries import alerts, groups_of_sites, place_of

OPENINGS = (IncidentChange.OPENED, IncidentChange.REOPENED)


def enqueue(
    incident_id: int,
    change: IncidentChange,
    due_at: datetime,
    *,
    reopening: int = 0,
    symptom: str = "",
    but: Collection[str] = (),
) -> int:
    """Queue a change's notifications, except for channels in `but`, in its transaction; returns the number of channels.
    Idempotent."""
    incident = Incident.objects.get(pk=incident_id)
    targets = _targets(incident)
    if change not in OPENINGS:
        notified_channels = (
            incident.notifications.filter(change__in=OPENINGS).order_by("channel").values_list("channel", flat=True)
        )
        targets = {channel: targets.get(channel, NotifyRoute(channel)) for channel in notified_channels.distinct()}
    rows = [
        Notification(
            incident_id=incident_id,
            change=change,
            symptom=symptom,
            reopening=reopening,
            channel=channel,
            is_digest=route.digest is not None,
            due_at=route.due_at(due_at),
        )
        for channel, route in targets.items()
        if channel not in but
    ]
    Notification.objects.bulk_create(rows, ignore_conflicts=True)
    return len(rows)


def enqueue_worse(incident: Incident, rule: str, now: datetime) -> None:
    """Queue an update for each graver symptom (`rule`), and once an opening for a wider cause."""
    is_graver = bool(incident.told_rule) and gravity(rule) < gravity(incident.told_rule)
    if is_graver or _is_wider(incident):
        unsent, symptom = unsent_openings(incident.pk, incident.reopenings), rule if is_graver else ""
        enqueue(incident.pk, IncidentChange.WORSENED, now, reopening=incident.reopenings, symptom=symptom, but=unsent)


def _is_wider(incident: Incident) -> bool:
    if incident.told_cause in ("", incident.cause):
        return False
    names = set()
    for row in incident.paths.select_related("path__source", "path__destination"):
        ends = row.path.source.name, row.path.destination.name
        names |= {" → ".join(ends), " ↔ ".join(sorted(ends)), *(f"host {host}" for host in ends)}
    return incident.told_cause.endswith(tuple(names)) and not incident.cause.endswith(tuple(names))


def notified_channels(incident_id: int, reopening: int) -> set[str]:
    """The channels with a notification, sent or queued, for the nth opening."""
    rows = Notification.objects.filter(incident_id=incident_id, reopening=reopening, change__in=OPENINGS)
    return set(rows.values_list("channel", flat=True))


def unsent_openings(incident_id: int, reopening: int) -> set[str]:
    """The channels with a queued notification of the nth opening, which will have the present symptom."""
    rows = Notification.objects.filter(incident_id=incident_id, reopening=reopening, change__in=OPENINGS)
    return set(rows.filter(attempts=0, state=DeliveryState.WAITING).values_list("channel", flat=True))


def withdraw(incident_id: int, change: IncidentChange) -> set[str]:
    """Delete unattempted notifications that no longer hold; returns their channels."""
    waiting = Notification.objects.filter(
        incident_id=incident_id, change=change, attempts=0, state=DeliveryState.WAITING
    )
    with transaction.atomic():
        rows = list(waiting.select_for_update())
        Notification.objects.filter(pk__in=[row.pk for row in rows]).delete()
    return {row.channel for row in rows}


def _targets(incident: Incident) -> dict[str, NotifyRoute]:
    of = notify_routes.routes(alerts(), notify_routes.channels())
    places: list[Place] = []
    if any(route.selector is not None for route in of):
        groups = groups_of_sites()
        ends = incident.paths.select_related("path__source__site", "path__destination__site")
        places = [place_of(row.path, groups) for row in ends]
    return notify_routes.chosen(of, incident.severity, places)
