"""Celery's entry to the reverse names."""

from __future__ import annotations

from datetime import timedelta

from celery import shared_task
from django.utils import timezone

from monitor.archive.queries.routes.routers import routers_since
from monitor.routes.reverse_names import remember, resolve_due
from probes.contract import Deadline

# For all names of a run; those without an answer by then are resolved again later.
DEADLINE_S = 10.0

# A route that is only on older traces, delivered late, is noted once a newer trace shows it.
LOOK_BACK = timedelta(days=1)


@shared_task(name="routes.note_routers")
def note_routers() -> int:
    """Note routers on recent routes; return how many are new."""
    now = timezone.now()
    return remember(routers_since(now - LOOK_BACK), now)


@shared_task(name="routes.resolve_names")
def resolve_names() -> int:
    return resolve_due(timezone.now(), Deadline(DEADLINE_S))
