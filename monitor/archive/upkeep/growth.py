"""Size and growth of each table, and the time until the disk is full.

In: sizes recorded each hour in `table_size`, and current sizes. Out: `TableGrowth`s with their daily growth over the
last week, or since the first record where that is younger, and `Growth` of the whole.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from django.db import connection

from monitor.archive.statements import records, run_statement, statement
from monitor.archive.upkeep.server import Disk


@dataclass(frozen=True, slots=True)
class TableGrowth:
    """Size of a table: rows as estimated by the planner, bytes with indexes, chunks of a hypertable, and daily growth;
    growth is None until a record is an hour old."""

    name: str
    row_estimate: int
    total_bytes: int
    chunks: int
    rows_per_day: float | None
    bytes_per_day: float | None


@dataclass(frozen=True, slots=True)
class Growth:
    """Daily growth of all tables, and days until the disk is full. `bytes_per_day` is None until a record is an hour
    old; `disk_lasts_days` also where the disk is not visible or nothing grows."""

    bytes_per_day: float | None
    disk_lasts_days: float | None


def note_sizes(now: datetime) -> int:
    """Record the size of each table. Returns the number of tables."""
    with connection.cursor() as cursor:
        cursor.execute(statement("note_sizes", sizes_now=statement("sizes_now")), {"now": now})
        return int(cursor.rowcount)


def table_sizes(now: datetime) -> list[TableGrowth]:
    """Each table of the database, by name."""
    return records(TableGrowth, *run_statement("table_sizes", {"sizes_now": statement("sizes_now")}, now=now))


def growth(tables: Sequence[TableGrowth], space: Disk | None) -> Growth:
    """Total growth. A full disk lasts 0 days."""
    rates = [table.bytes_per_day for table in tables if table.bytes_per_day is not None]
    if not rates:
        return Growth(None, None)
    bytes_per_day = sum(rates)
    if space is None or bytes_per_day <= 0:
        return Growth(bytes_per_day, None)
    return Growth(bytes_per_day, space.free_bytes / bytes_per_day)
