"""Delete delivered data past `settings.RETENTION_DAYS`, by whole days or hypertable chunks, and compress old chunks.

Dirty hours keep their results and ingest rejects expired results, so no summary is computed from partly deleted data.
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

# Maximum rejected results kept of a site, newest first.
MOST_REFUSED = 10_000
# Minimum age before compression: data arrive late, and inserts into compressed chunks are slow.
COMPRESS_AFTER = timedelta(days=7)
ONE_DAY = timedelta(days=1)
FOR_EVER = datetime.min.replace(tzinfo=UTC)

logger = logging.getLogger(__name__)


def kept_since(kind: str, now: datetime) -> datetime:
    """Start of a kind's retention: older results are rejected, stored results deleted a day later, once summarized."""
    days = _days_in_database(kind)
    return now - timedelta(days=days) if days else FOR_EVER


def _days_in_database(kind: str) -> int:
    days: int = settings.RETENTION_DAYS[kind]
    if kind == "bursts" and settings.COLD_BURSTS:
        return min(days, settings.COLD_BURSTS_DAYS) if days else settings.COLD_BURSTS_DAYS
    return days


def delete_old(now: datetime, deadline: Deadline) -> dict[str, int]:
    """Delete expired data until the deadline; return rows deleted or chunks dropped, by table."""
    deleted = {table: _delete_raw(table, kind, now, deadline) for table, kind in raw_tables().items()}
    deleted["cold_file"] = _delete_files(now)
    for table, count in deleted.items():
        if count:
            logger.info("retention: %d rows or chunks deleted from %s", count, table)
    return deleted


def _delete_files(now: datetime) -> int:
    days = settings.RETENTION_DAYS["bursts"]
    try:
        return cold_days.delete_expired(now - timedelta(days=days)) if days else 0
    except ColdFileError as error:
        logger.exception("cold bursts: old files cannot be deleted: %s", error)
        return 0


def bound_refused(site_id: int) -> None:
    """Keep a site's newest `MOST_REFUSED` rejected results."""
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
    """Move bursts to files; return the time up to which to delete."""
    try:
        return cold_days.move(since, before, deadline)
    except ColdFileError as error:
        logger.exception("cold bursts: none is deleted, since they cannot be moved to files: %s", error)
        return since


def _delete_by_day(table: str, oldest: datetime, before: datetime, deadline: Deadline) -> int:
    # Delete a day per transaction: short, and progress survives interruptions.
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
    with connection.cursor() as cursor:
        cursor.execute("SELECT to_regclass('timescaledb_information.hypertables') IS NOT NULL")
        if cursor.fetchone() == (False,):
            return False
        cursor.execute(statement("is_hypertable"), {"table": table})
        return cursor.rowcount == 1


def may_compress() -> bool:
    """Whether TimescaleDB's licence includes compression (Community edition)."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT current_setting('timescaledb.license', TRUE)")
        return cursor.fetchone() == ("timescale",)


def compress_old(now: datetime) -> int:
    """Compress burst chunks too old for deliveries; return their number."""
    if not (is_hypertable("burst") and may_compress()):
        return 0
    _execute("enable_compression")
    return _execute("compress_chunks", before=now - COMPRESS_AFTER)


def _execute(name: str, **parameters: Any) -> int:
    with connection.cursor() as cursor:
        cursor.execute(statement(name), parameters)
        return int(cursor.rowcount)
