"""Sample the load of the centre once a minute from its worker, for charts over time.

In: the time, and the Celery queue in Redis. Out: a row of `centre_sample`, and the newest row. A new row also proves
that beat and worker are running.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

from monitor import redis_client
from monitor.archive.queries.paths import newest_measurement_at
from monitor.archive.statements import records, run_statement
from monitor.queues import QUEUES

UNACKNOWLEDGED = "unacked"
"""Name in Redis, set by kombu: the hash of unfinished tasks taken by a worker. The lists of queued tasks have the names
of the queues."""
EVERY = timedelta(minutes=1)
LONGEST = timedelta(hours=1)
"""Maximum period for which deliveries are counted after a pause."""


@dataclass(frozen=True, slots=True)
class Queue:
    """Tasks in the queue, and tasks taken by a worker."""

    waiting: int
    taken: int


@dataclass(frozen=True, slots=True)
class LoadSample:
    """Load of the centre at `at`, and deliveries since `since`. `queue_length` is None where Redis did not answer,
    `newest_measured_at` before the first result."""

    at: datetime
    since: datetime
    accepted: int
    refused: int
    newest_measured_at: datetime | None
    queued: int
    queue_length: int | None
    hours_waiting: int
    waited_s: float
    database_bytes: int


def queue() -> Queue | None:
    """Tasks in Redis; None while it does not answer."""
    client = redis_client.centre()
    taken = client.command("hlen", UNACKNOWLEDGED)
    waiting = [client.command("llen", queue) for queue in QUEUES]
    return None if taken is None or None in waiting else Queue(sum(waiting), taken)


def take(now: datetime) -> LoadSample:
    """Record a sample."""
    waiting = queue()
    parameters = {
        "at": now,
        "earliest": now - LONGEST,
        "shortest": now - EVERY,
        "newest_measured_at": newest_measurement_at(),
        "queue_length": None if waiting is None else waiting.waiting,
    }
    return records(LoadSample, *run_statement("take_sample", **parameters))[0]


def newest() -> LoadSample | None:
    """The newest sample; None before the first."""
    samples = records(LoadSample, *run_statement("newest_sample"))
    return samples[0] if samples else None
