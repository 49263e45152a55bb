"""Celery's entry to the alerts; schedules are in `monitor.celery`."""

from __future__ import annotations

from datetime import datetime
from functools import lru_cache
from time import monotonic

from celery import shared_task
from django.utils import timezone

from monitor.alerts.detect.past.baselines import Baselines
from monitor.alerts.detect.sources import SourceOfWorker
from monitor.alerts.evaluate import evaluate, stored_baselines
from monitor.alerts.evidence.gather import gather_due
from monitor.alerts.incidents.corrections import correct
from monitor.alerts.notify.deliver import deliver
from monitor.alerts.scope import RuleScope, scope_now
from monitor.archive.periods import start_of
from monitor.mesh.queries import mesh_version
from monitor.present.follow import Follower

# Share of an evaluation's time that the next waits with very many paths, so that others have the database.
REST_SHARE = 0.5

_source = SourceOfWorker()
_follower = Follower()
_rest_until_s = 0.0
_baselines: Baselines | None = None


@shared_task(name="alerts.evaluate")
def evaluate_rules() -> None:
    global _rest_until_s
    began_s = monotonic()
    if began_s < _rest_until_s:
        return
    now = timezone.now()
    scope = _scope_of(*mesh_version())
    evaluate(now, _baselines_of(start_of("hour", now), scope), scope, _source, _follower)
    ended_s = monotonic()
    _rest_until_s = ended_s + REST_SHARE * (ended_s - began_s)


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
def _scope_of(epoch: int, applied_at: datetime | None) -> RuleScope:
    """Cache the scope of this mesh version, which takes seconds with many paths."""
    return scope_now()


def _baselines_of(hour: datetime, scope: RuleScope) -> Baselines:
    """Baselines, kept for an hour: computed from complete hours."""
    global _baselines
    if _baselines is None or _baselines.hour != hour:
        _baselines = None  # not both at once
        _baselines = stored_baselines(hour, scope.every)
    return _baselines
