"""Celery's entry to the alerts; when it runs is in `monitor.celery`."""

from __future__ import annotations

from datetime import datetime
from functools import lru_cache

from celery import shared_task
from django.utils import timezone

from monitor.alerts.detect.past.baselines import Baselines
from monitor.alerts.evaluate import evaluate, scope_now, stored_baselines
from monitor.alerts.evidence.gather import gather_due
from monitor.alerts.incidents.corrections import correct
from monitor.alerts.notify.deliver import deliver
from monitor.archive.periods import start_of


@shared_task(name="alerts.evaluate")
def evaluate_rules() -> None:
    now = timezone.now()
    evaluate(now, _baselines_of(start_of("hour", now)))


@shared_task(name="alerts.gather")
def gather_evidence() -> None:
    gather_due(timezone.now())


@shared_task(name="alerts.notify")
def notify() -> None:
    deliver(timezone.now())


@shared_task(name="alerts.correct")
def correct_lately_found() -> None:
    correct(timezone.now())


@lru_cache(maxsize=1)
def _baselines_of(hour: datetime) -> Baselines:
    """Baselines, cached for an hour: they are computed from hours that are complete."""
    return stored_baselines(hour, scope_now().every)
