"""Celery's entry to the alerts; when it runs is in `monitor.celery`."""

from __future__ import annotations

from celery import shared_task
from django.utils import timezone

from monitor.alerts.evaluate import evaluate


@shared_task(name="alerts.evaluate")
def evaluate_rules() -> None:
    evaluate(timezone.now())
