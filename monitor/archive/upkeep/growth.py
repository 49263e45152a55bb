"""Size and daily growth of each table over the last week, and the time until the disk is full."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from django.db import connection

from monitor.archive.statements import records, run_statement, statement
from monitor.archive.upkeep.server import Disk


@dataclass(frozen=True, slots=True)
class TableGrowth:
    """Size and daily growth of a table; growth is None until a record is an hour old."""

    name: str
    row_estimate: int  # by the planner
    total_bytes: int  # indexes included
    chunks: int  # of a hypertable
    rows_per_day: float | None
    bytes_per_day: float | None


@dataclass(frozen=True, slots=True)
class Growth:
    """Daily growth of all tables, and days until the disk is full."""

    bytes_per_day: float | None  # None until a record is an hour old
    disk_lasts_days: float | None  # None also for an invisible disk, or without growth


def note_sizes(now: datetime) -> int:
    with connection.cursor() as cursor:
        cursor.execute(statement("note_sizes", sizes_now=statement("sizes_now")), {"now": now})
        return int(cursor.rowcount)


def table_sizes(now: datetime) -> list[TableGrowth]:
    return records(TableGrowth, *run_statement("table_sizes", {"sizes_now": statement("sizes_now")}, now=now))


def growth(tables: Sequence[TableGrowth], space: Disk | None) -> Growth:
    """Sum the growth. A full disk lasts 0 days."""
    rates = [table.bytes_per_day for table in tables if table.bytes_per_day is not None]
    if not rates:
        return Growth(None, None)
    bytes_per_day = sum(rates)
    if space is None or bytes_per_day <= 0:
        return Growth(bytes_per_day, None)
    return Growth(bytes_per_day, space.free_bytes / bytes_per_day)
