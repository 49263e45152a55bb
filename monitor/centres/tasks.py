"""Celery's entry to the summaries of other centres."""

from __future__ import annotations

from celery import shared_task
from django.conf import settings

from monitor.centres.collect import collect


@shared_task(name="centres.collect")
def collect_summaries() -> int:
    return sum(1 for answer in collect(settings.OTHER_CENTRES) if not answer.problem)
