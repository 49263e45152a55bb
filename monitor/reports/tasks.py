"""Celery's entry to the reports; when it runs is in `monitor.celery`."""

from __future__ import annotations

from celery import shared_task
from django.utils import timezone

from monitor.reports.files import write_weekly
from monitor.reports.weeks import Week


@shared_task(name="reports.weekly")
def write_last_week() -> None:
    now = timezone.now()
    write_weekly(Week.of(now).before, now)
