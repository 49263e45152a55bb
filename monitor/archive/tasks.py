"""What the centre's Celery does for the archive."""

from __future__ import annotations

from celery import shared_task
from django.utils import timezone

from monitor.archive import rollups
from probes.contract import Deadline

TIME_LIMIT_S = 8.0
HOURS_AT_ONCE = 500
"""Ingest of an hour waits while that hour is rolled up; so many hours take well under a second."""


@shared_task(name="archive.roll_up")
def roll_up() -> int:
    """Compute dirty hours until none is left or the time is over. Returns how many were computed."""
    deadline = Deadline(TIME_LIMIT_S)
    done = 0
    while not deadline.passed:
        hours = rollups.roll_up(timezone.now(), HOURS_AT_ONCE)
        done += hours
        if hours < HOURS_AT_ONCE:
            break
    return done
