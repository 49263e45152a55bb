"""Retention of delivered data, by kind, and compression of old chunks.

In: the days of `settings.RETENTION_DAYS`, 0 for ever; bursts may move to files before (`monitor.archive.cold`). Out:
rows deleted, by whole days, or whole chunks of hypertables dropped. Summaries and `delivered_day` are never deleted;
`records` handles the other tables, and
`monitor.archive.retention_bounds` lists the bound of each. Older chunks are compressed where TimescaleDB's licence
allows. A dirty hour keeps its results, and ingest rejects results past retention, so that no summary is computed from
partly deleted data.
"""

from __future__ import annotations

import logging
from datetime import UTC, datetime, timedelta
from typing import Any

from django.conf import settings
from django.db import connection

from monitor.archive.cold import days as cold_days
from monitor.archive.cold.files import ColdFileError
from monitor.archive.periods import start_of
from monitor.archive.retention_bounds import raw_tables
from monitor.archive.statements import statement
from probes.contract import Deadline

MOST_REFUSED = 10_000
"""Maximum rejected results kept of a site, newest first."""
COMPRESS_AFTER = timedelta(days=7)
"""Minimum age before compression: data arrive late, and inserts into compressed chunks are slow."""
ONE_DAY = timedelta(days=1)
FOR_EVER = datetime.min.replace(tzinfo=UTC)

logger = logging.getLogger(__name__)


def kept_since(kind: str, now: datetime) -> datetime:
    """Start of the retention of a kind: older results are rejected. Stored results are deleted a day later, once
    summarised."""
    days = _days_in_database(kind)
    return now - timedelta(days=days) if days else FOR_EVER


def _days_in_database(kind: str) -> int:
    """Days that results of a kind stay in the database, 0 for ever: bursts may be in files afterwards."""
    days: int = settings.RETENTION_DAYS[kind]
    if kind == "bursts" and settings.COLD_BURSTS:
        return min(days, settings.COLD_BURSTS_DAYS) if days else settings.COLD_BURSTS_DAYS
    return days


def delete_old(now: datetime, deadline: Deadline) -> dict[str, int]:
    """Delete data past the retention of its kind; returns rows deleted or chunks dropped, by table.

    The rest is left for the next run when the deadline passes.
    """
    deleted = {table: _delete_raw(table, kind, now, deadline) for table, kind in raw_tables().items()}
    deleted["cold_file"] = _delete_files(now)
    for table, count in deleted.items():
        if count:
            logger.info("retention: %d rows or chunks deleted from %s", count, table)
    return deleted


def _delete_files(now: datetime) -> int:
    """Delete files of bursts past their retention; returns their number."""
    days = settings.RETENTION_DAYS["bursts"]
    try:
        return cold_days.delete_expired(now - timedelta(days=days)) if days else 0
    except ColdFileError as error:
        logger.exception("cold bursts: old files cannot be deleted: %s", error)
        return 0


def bound_refused(site_id: int) -> None:
    """Delete all but the newest rejected results of a site."""
    _execute("bound_refused", site_id=site_id, most=MOST_REFUSED)


def _delete_raw(table: str, kind: str, now: datetime, deadline: Deadline) -> int:
    if not _days_in_database(kind):
        return 0
    before = start_of("day", kept_since(kind, now)) - ONE_DAY
    with connection.cursor() as cursor:
        cursor.execute(f"SELECT min(measured_at), (SELECT min(hour) FROM dirty_hour) FROM {table}")
        oldest, dirty = cursor.fetchone()
    if oldest is None:
        return 0
    if dirty is not None:
        before = min(before, start_of("day", dirty))
    if table == "burst":
        before = _moved(oldest, before, deadline)
    if is_hypertable(table):
        return _execute("drop_chunks", table=table, before=before)
    return _delete_by_day(table, oldest, before, deadline)


def _moved(since: datetime, before: datetime, deadline: Deadline) -> datetime:
    """Move bursts to files; returns the time before which they may be deleted: `since` where files cannot be
    written."""
    try:
        return cold_days.move(since, before, deadline)
    except ColdFileError as error:
        logger.exception("cold bursts: none is deleted, since they cannot be moved to files: %s", error)
        return since


def _delete_by_day(table: str, oldest: datetime, before: datetime, deadline: Deadline) -> int:
    """Delete a day per transaction, so that transactions are short and an interruption keeps the progress."""
    deleted = 0
    since = start_of("day", oldest)
    while since < before and not deadline.passed:
        until = min(since + ONE_DAY, before)
        with connection.cursor() as cursor:
            cursor.execute(f"DELETE FROM {table} WHERE measured_at >= %s AND measured_at < %s", [since, until])
            deleted += cursor.rowcount
        since = until
    return deleted


def is_hypertable(table: str) -> bool:
    """Whether this table is a TimescaleDB hypertable."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT to_regclass('timescaledb_information.hypertables') IS NOT NULL")
        if cursor.fetchone() == (False,):
            return False
        cursor.execute(statement("is_hypertable"), {"table": table})
        return cursor.rowcount == 1


def may_compress() -> bool:
    """Whether the licence of this server's TimescaleDB includes compression, as the Community edition's does."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT current_setting('timescaledb.license', TRUE)")
        return cursor.fetchone() == ("timescale",)


def compress_old(now: datetime) -> int:
    """Compress chunks of bursts too old for deliveries, where the licence allows; returns the number of chunks."""
    if not (is_hypertable("burst") and may_compress()):
        return 0
    _execute("enable_compression")
    return _execute("compress_chunks", before=now - COMPRESS_AFTER)


def _execute(name: str, **parameters: Any) -> int:
    with connection.cursor() as cursor:
        cursor.execute(statement(name), parameters)
        return int(cursor.rowcount)
