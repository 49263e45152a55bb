"""How the centre itself is, noted once a minute by a task of its worker, for charts over time.

In: the time, and what waits in Redis. Out: a row of `centre_sample`, and the newest one. That there is a new row is
also the sign that beat and worker both do their work.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

import redis
from django.conf import settings

from monitor.archive.queries.paths import newest_measurement_at
from monitor.archive.statements import ask, records
from probes.broker import client_url

QUEUE = "celery"
UNACKNOWLEDGED = "unacked"
"""What kombu calls its list of tasks, and the hash of those that a worker has and has not finished."""
REDIS_TIMEOUT_S = 1.0
EVERY = timedelta(minutes=1)
LONGEST = timedelta(hours=1)
"""No further back are deliveries counted after a pause."""

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Queue:
    """Tasks that wait for a worker, and those that one has taken."""

    waiting: int
    taken: int


@dataclass(frozen=True, slots=True)
class Sample:
    """How the centre was at `at`, and what was delivered from `since` on. `queue_length` is None where Redis did not
    answer, `newest_measured_at` before the first result."""

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
    """The tasks in Redis; None while it does not answer."""
    client: Any = redis.Redis.from_url(
        client_url(settings.CELERY_BROKER_URL), socket_timeout=REDIS_TIMEOUT_S, socket_connect_timeout=REDIS_TIMEOUT_S
    )
    try:
        with client:
            return Queue(waiting=client.llen(QUEUE), taken=client.hlen(UNACKNOWLEDGED))
    except (redis.RedisError, OSError) as error:
        logger.warning("how many tasks wait is not known: Redis does not answer (%s)", type(error).__name__)
        return None


def take(now: datetime) -> Sample:
    """Note how the centre is at this moment."""
    waiting = queue()
    asked = {
        "at": now,
        "earliest": now - LONGEST,
        "shortest": now - EVERY,
        "newest_measured_at": newest_measurement_at(),
        "queue_length": None if waiting is None else waiting.waiting,
    }
    return records(Sample, *ask("take_sample", **asked))[0]


def newest() -> Sample | None:
    """The newest; None before the first."""
    found = records(Sample, *ask("newest_sample"))
    return found[0] if found else None
