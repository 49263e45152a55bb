"""What the centre's Celery does for the archive."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from functools import partial

from celery import shared_task
from django.utils import timezone

from monitor.archive.diagnosis import pending
from monitor.archive.rollup import recompute
from monitor.archive.upkeep import growth, records, retention, samples
from probes.contract import Deadline

TIME_LIMIT_S = 8.0
DELETING_LIMIT_S = 600.0
HOURS_AT_ONCE = 500
"""Ingest of an hour waits while that hour is rolled up; so many hours take well under a second."""


@shared_task(name="archive.roll_up")
def roll_up() -> int:
    """Compute dirty hours, then what is longer, until nothing is due or the time is over. Returns how many hours."""
    deadline = Deadline(TIME_LIMIT_S)
    hours = _all(deadline, recompute.roll_up)
    for tier in recompute.TIERS:
        _all(deadline, partial(recompute.merge, tier))
    return hours


def _all(deadline: Deadline, compute: Callable[[datetime, int], int]) -> int:
    """Call `compute` until it finds less than it may take. Returns how many it did in all."""
    done = 0
    while not deadline.passed:
        found = compute(timezone.now(), HOURS_AT_ONCE)
        done += found
        if found < HOURS_AT_ONCE:
            break
    return done


@shared_task(name="archive.diagnose")
def diagnose() -> int:
    """Diagnose the throughput tests that await it, until none does or the time is over. Returns how many."""
    deadline = Deadline(TIME_LIMIT_S)
    done = 0
    while not deadline.passed:
        found = pending.diagnose_awaited(timezone.now())
        done += found
        if found < pending.AT_ONCE:
            break
    return done


@shared_task(name="archive.delete_old")
def delete_old() -> dict[str, int]:
    """Delete what is kept no longer. Returns what went, by table."""
    return retention.delete_old(timezone.now(), Deadline(DELETING_LIMIT_S))


@shared_task(name="archive.delete_records")
def delete_records() -> dict[str, int]:
    """Delete old slots, incidents, tokens and other records, once a day. Returns what went, by table."""
    return records.delete_old(timezone.now(), Deadline(DELETING_LIMIT_S))


@shared_task(name="archive.note_sizes")
def note_sizes() -> int:
    """Note how large each table is, so that growth can be told. Returns how many tables."""
    return growth.note_sizes(timezone.now())


@shared_task(name="archive.compress_old")
def compress_old() -> int:
    """Compress old bursts where the licence allows. Returns how many chunks."""
    return retention.compress_old(timezone.now())


@shared_task(name="archive.sample")
def sample() -> None:
    """Note how the centre itself is."""
    samples.take(timezone.now())
