"""How long what was delivered is kept, by kind, and how the rest goes.

In: the days of `settings.RETENTION_DAYS`, 0 for ever. Out: rows deleted, by whole days; where the table is a
hypertable, whole chunks dropped. Summaries and `delivered_day` are never deleted; `records` has the rest, and `bounds`
what bounds each table. Older chunks are compressed where
TimescaleDB's licence has that. An hour that waits for its summary keeps its results, and ingest takes none that are
older than what is kept, so that no summary is ever computed from what a deletion has left.
"""

from __future__ import annotations

import logging
from datetime import UTC, datetime, timedelta
from typing import Any

from django.conf import settings
from django.db import connection

from monitor.archive.statements import statement
from probes.contract import Deadline

RAW_TABLES = {
    "burst": "bursts",
    "throughput_test": "throughput",
    "disk_to_disk_test": "throughput",
    "capacity_result": "capacity",
}
"""As what each is kept."""
MOST_REFUSED = 10_000
"""Refused results that are kept of one site, the newest."""
COMPRESS_AFTER = timedelta(days=7)
"""Data come late, and a compressed chunk takes them slowly."""
ONE_DAY = timedelta(days=1)
FOR_EVER = datetime.min.replace(tzinfo=UTC)

logger = logging.getLogger(__name__)


def kept_since(kind: str, now: datetime) -> datetime:
    """What began earlier is not taken any more. It goes a day later, when its hour has its summary."""
    days = settings.RETENTION_DAYS[kind]
    return now - timedelta(days=days) if days else FOR_EVER


def delete_old(now: datetime, deadline: Deadline) -> dict[str, int]:
    """Delete what is older than its kind is kept; rows deleted or chunks dropped, by table.

    Where it takes longer than the deadline, the rest is left for the next time.
    """
    deleted = {table: _delete_raw(table, kind, now, deadline) for table, kind in RAW_TABLES.items()}
    for table, count in deleted.items():
        if count:
            logger.info("retention: %d gone from %s", count, table)
    return deleted


def bound_refused(site_id: int) -> None:
    """Keep only the newest refused results of a site."""
    _execute("bound_refused", site_id=site_id, most=MOST_REFUSED)


def _delete_raw(table: str, kind: str, now: datetime, deadline: Deadline) -> int:
    if not settings.RETENTION_DAYS[kind]:
        return 0
    before = _beginning_of_day(kept_since(kind, now)) - ONE_DAY
    with connection.cursor() as cursor:
        cursor.execute(f"SELECT min(measured_at), (SELECT min(hour) FROM dirty_hour) FROM {table}")
        oldest, dirty = cursor.fetchone()
    if oldest is None:
        return 0
    if dirty is not None:
        before = min(before, _beginning_of_day(dirty))
    if is_hypertable(table):
        return _execute("drop_chunks", table=table, before=before)
    return _delete_by_day(table, oldest, before, deadline)


def _delete_by_day(table: str, oldest: datetime, before: datetime, deadline: Deadline) -> int:
    """A day is a transaction: none is long, and what is done stays done."""
    deleted = 0
    since = _beginning_of_day(oldest)
    while since < before and not deadline.passed:
        until = min(since + ONE_DAY, before)
        with connection.cursor() as cursor:
            cursor.execute(f"DELETE FROM {table} WHERE measured_at >= %s AND measured_at < %s", [since, until])
            deleted += cursor.rowcount
        since = until
    return deleted


def is_hypertable(table: str) -> bool:
    """Whether TimescaleDB keeps this table in chunks."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT to_regclass('timescaledb_information.hypertables') IS NOT NULL")
        if cursor.fetchone() == (False,):
            return False
        cursor.execute(statement("is_hypertable"), {"table": table})
        return cursor.rowcount == 1


def may_compress() -> bool:
    """Whether the licence of this server's TimescaleDB has compression: the Community edition's, not Apache's."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT current_setting('timescaledb.license', TRUE)")
        return cursor.fetchone() == ("timescale",)


def compress_old(now: datetime) -> int:
    """Compress chunks of bursts that nothing is delivered for any more, where the licence allows; how many chunks."""
    if not (is_hypertable("burst") and may_compress()):
        return 0
    _execute("enable_compression")
    return _execute("compress_chunks", before=now - COMPRESS_AFTER)


def _beginning_of_day(at: datetime) -> datetime:
    return at.astimezone(UTC).replace(hour=0, minute=0, second=0, microsecond=0)


def _execute(name: str, **parameters: Any) -> int:
    with connection.cursor() as cursor:
        cursor.execute(statement(name), parameters)
        return int(cursor.rowcount)
