"""Celery tasks of the archive."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from functools import partial

from celery import shared_task
from django.utils import timezone

from monitor.archive import sweep_schedule
from monitor.archive.aggregates.settle import settle
from monitor.archive.diagnosis import pending
from monitor.archive.diagnosis.captures import find_in_captures
from monitor.archive.interfaces import weeks as interface_weeks
from monitor.archive.rollup import recompute
from monitor.archive.rollup.earlier_minima import mark_earlier_hour
from monitor.archive.upkeep import growth, records, retention, samples
from monitor.mesh.models import Path
from probes.contract import Deadline

TIME_LIMIT_S = 8.0
DELETING_LIMIT_S = 600.0
# Hours per transaction: ingest of an hour waits while it is rolled up; this many take well under a second.
HOURS_AT_ONCE = 500


@shared_task(name="archive.roll_up")
def roll_up() -> int:
    """Compute dirty hours, then longer summaries, until the deadline; return the number of hours."""
    deadline, paths = Deadline(TIME_LIMIT_S), Path.objects.in_use().count()
    patience = recompute.hour_patience(paths)
    compute_hours = partial(recompute.roll_up, patience=patience)
    hours = _all(deadline, compute_hours)
    if not deadline.passed and mark_earlier_hour(timezone.now() - patience):
        hours += _all(deadline, compute_hours)
    for tier in recompute.TIERS:
        _all(deadline, partial(recompute.merge, tier, patience=recompute.tier_patience(tier, paths)))
    return hours


def _all(deadline: Deadline, compute: Callable[[datetime, int], int]) -> int:
    done = 0
    while not deadline.passed:
        count = compute(timezone.now(), HOURS_AT_ONCE)
        done += count
        if count < HOURS_AT_ONCE:
            break
    return done


@shared_task(name="archive.diagnose")
def diagnose() -> int:
    """Diagnose pending throughput tests, then captures, until the deadline; return the number of tests."""
    deadline = Deadline(TIME_LIMIT_S)
    done = 0
    while not deadline.passed:
        count = pending.diagnose_awaited(timezone.now())
        done += count
        if count < pending.AT_ONCE:
            break
    while not deadline.passed and find_in_captures(timezone.now()):
        pass
    return done


@shared_task(name="archive.request_sweep_tests")
def request_sweep_tests() -> int:
    return sweep_schedule.request_due(timezone.now())


@shared_task(name="archive.settle_aggregates")
def settle_aggregates() -> int:
    return settle(timezone.now())


@shared_task(name="archive.summarize_interfaces")
def summarize_interfaces() -> int:
    """Summarize ended weeks until the deadline; return their number."""
    deadline = Deadline(TIME_LIMIT_S)
    done = 0
    while not deadline.passed:
        count = interface_weeks.summarize(timezone.now())
        done += count
        if not count:
            break
    return done


@shared_task(name="archive.delete_old")
def delete_old() -> dict[str, int]:
    """Delete raw data past retention; return rows or chunks by table."""
    return retention.delete_old(timezone.now(), Deadline(DELETING_LIMIT_S))


@shared_task(name="archive.delete_records")
def delete_records() -> dict[str, int]:
    """Delete old records, such as slots and incidents; return rows by table."""
    return records.delete_old(timezone.now(), Deadline(DELETING_LIMIT_S))


@shared_task(name="archive.note_sizes")
def note_sizes() -> int:
    return growth.note_sizes(timezone.now())


@shared_task(name="archive.compress_old")
def compress_old() -> int:
    """Compress old bursts where the licence allows; return the number of chunks."""
    return retention.compress_old(timezone.now())


@shared_task(name="archive.sample")
def sample() -> None:
    samples.take(timezone.now())
