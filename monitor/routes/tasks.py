"""Celery's entry to the reverse names; when it runs is in `monitor.celery`."""

from __future__ import annotations

from celery import shared_task
from django.utils import timezone

from monitor.routes.reverse_names import resolve_due
from probes.contract import Deadline

DEADLINE_S = 10.0
"""For all names of a run; those without an answer by then are resolved again later."""


@shared_task(name="routes.resolve_names")
def resolve_names() -> int:
    """Resolve the reverse names that are due. Returns the number of names resolved."""
    return resolve_due(timezone.now(), Deadline(DEADLINE_S))
