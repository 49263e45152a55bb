"""Celery's entry to the reverse names; when it runs is in `monitor.celery`."""

from __future__ import annotations

from datetime import timedelta

from celery import shared_task
from django.utils import timezone

from monitor.archive.queries.routes.routers import routers_since
from monitor.routes.reverse_names import remember, resolve_due
from probes.contract import Deadline

DEADLINE_S = 10.0
"""For all names of a run; those without an answer by then are resolved again later."""

LOOK_BACK = timedelta(days=1)
"""A route that is only on older traces, delivered late, is noted once a newer trace shows it."""


@shared_task(name="routes.note_routers")
def note_routers() -> int:
    """Note the routers on recent routes, whose reverse names are to be resolved. Returns the number of new ones."""
    now = timezone.now()
    return remember(routers_since(now - LOOK_BACK), now)


@shared_task(name="routes.resolve_names")
def resolve_names() -> int:
    """Resolve the reverse names that are due. Returns the number of names resolved."""
    return resolve_due(timezone.now(), Deadline(DEADLINE_S))
