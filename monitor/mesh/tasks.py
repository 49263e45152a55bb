"""Celery tasks of the mesh: plan throughput slots, and close unreported slots."""

from __future__ import annotations

from celery import shared_task
from django.utils import timezone

from monitor.mesh.schedule import endings, slots


@shared_task(name="mesh.plan_slots")
def plan_slots() -> dict[str, int]:
    """Plan and expire slots; return numbers planned, without room or budget, postponed, and expired."""
    now = timezone.now()
    expired = endings.expire_slots(now)
    planned = slots.plan_slots(now, waits_for_agents=True)
    return {
        "planned": planned.slots,
        "no_room": planned.no_room,
        "over_budget": planned.over_budget,
        "moved": planned.moved,
        "expired": expired,
    }
