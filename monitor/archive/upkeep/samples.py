"""Sample the centre's load each minute from its worker; a new row proves that beat and worker run."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

from monitor import redis_client
from monitor.archive.queries.paths import newest_measurement_at
from monitor.archive.statements import records, run_statement
from monitor.queues import QUEUES

# Hash of unfinished tasks taken by a worker, named by kombu; lists of queued tasks have their queues' names.
UNACKNOWLEDGED = "unacked"
EVERY = timedelta(minutes=1)
# Maximum period for which deliveries are counted after a pause.
LONGEST = timedelta(hours=1)


@dataclass(frozen=True, slots=True)
class Queue:
    waiting: int
    taken: int


@dataclass(frozen=True, slots=True)
class LoadSample:
    """Load of the centre, and deliveries since `since`."""

    at: datetime
    since: datetime
    accepted: int
    refused: int
    newest_measured_at: datetime | None  # None before the first result
    queued: int
    queue_length: int | None  # None where Redis did not answer
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
    samples = records(LoadSample, *run_statement("newest_sample"))
    return samples[0] if samples else None
