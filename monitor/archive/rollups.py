"""Hourly summaries, computed anew from raw bursts for each hour that ingest marked dirty.

In: the marks in `dirty_hour` and the rows in `burst`. Out: rows in `burst_hour`, with the Mathis estimate of each.
Nothing is ever added to an existing summary, so late, doubled and punctual data end in the same rows. A summary is
never deleted, so raw data may go before it does. What its columns mean is in `monitor.archive.models.BurstHour`.
"""

from __future__ import annotations

import logging
from datetime import datetime, timedelta
from typing import Any

from django.db import connection, transaction

from monitor.archive.estimates import estimates
from monitor.archive.statements import statement

HOUR = timedelta(hours=1)
LAG_TO_WARN_OF = timedelta(minutes=1)

Mark = tuple[int, datetime, datetime]
"""path_id, hour, and when it was marked dirty."""

logger = logging.getLogger(__name__)


def roll_up(now: datetime, limit: int = 5000) -> int:
    """Compute up to `limit` dirty hours of paths anew, in one transaction; the newest first. Returns how many.

    Ingest of these hours waits until the transaction ends, so a small `limit` keeps that wait short.
    """
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute(statement("take_dirty_hours"), {"limit": limit})
        marks: list[Mark] = cursor.fetchall()
        if marks:
            _compute(cursor, marks)
    _warn_of_lag(marks, now)
    return len(marks)


def _warn_of_lag(marks: list[Mark], now: datetime) -> None:
    lag = max((now - marked_at for _, _, marked_at in marks), default=timedelta())
    if lag > LAG_TO_WARN_OF:
        logger.warning(
            "summaries lag %.0f s behind what was delivered; is the worker busy or was it away?", lag.total_seconds()
        )


def _compute(cursor: Any, marks: list[Mark]) -> None:
    path_ids, hours, _ = zip(*sorted(marks), strict=True)
    bounds = {"since": min(hours), "until": max(hours) + HOUR}
    cursor.execute(statement("roll_up_hours"), {"path_ids": list(path_ids), "hours": list(hours), **bounds})
    summaries = cursor.fetchall()
    if summaries:
        cursor.execute(statement("store_estimates"), {**_estimates(summaries), **bounds})


def _estimates(summaries: list[tuple[Any, ...]]) -> dict[str, list[Any]]:
    """The columns that sql/store_estimates.sql takes; an estimate that is not defined is null."""
    path_ids, sizes, hours, rtt_avg_ms, sent, received = zip(*summaries, strict=True)
    made = estimates(rtt_avg_ms, sent, received)
    return {
        "path_ids": list(path_ids),
        "sizes": list(sizes),
        "hours": list(hours),
        "estimates_bps": [estimate_bps for estimate_bps, _ in made],
        "floors": [is_floor for _, is_floor in made],
    }
