"""How large each table is and how fast it grows, and for how long the disk lasts at that.

In: sizes noted each hour in `table_size`, and the sizes now. Out: `TableSize`s with what they grew by a day in the last
week, or since the first note where that is younger, and `Growth` of the whole.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from django.db import connection

from monitor.archive.statements import ask, records, statement
from monitor.archive.upkeep.server import Disk


@dataclass(frozen=True, slots=True)
class TableSize:
    """A table: rows as the planner estimates them, bytes with its indexes, chunks of a hypertable, and what it grew by
    a day; None until there is a note of an hour ago."""

    name: str
    row_estimate: int
    total_bytes: int
    chunks: int
    rows_per_day: float | None
    bytes_per_day: float | None


@dataclass(frozen=True, slots=True)
class Growth:
    """What all tables grew by a day, and for how many days the disk lasts at that. `bytes_per_day` is None before there
    is a note of an hour ago; `disk_lasts_days` too where the disk is not to be seen, and where nothing grows."""

    bytes_per_day: float | None
    disk_lasts_days: float | None


def note_sizes(now: datetime) -> int:
    """Note how large each table is. Returns how many tables."""
    with connection.cursor() as cursor:
        cursor.execute(statement("note_sizes", sizes_now=statement("sizes_now")), {"now": now})
        return int(cursor.rowcount)


def table_sizes(now: datetime) -> list[TableSize]:
    """Each table of the database, by name."""
    return records(TableSize, *ask("table_sizes", {"sizes_now": statement("sizes_now")}, now=now))


def growth(tables: Sequence[TableSize], space: Disk | None) -> Growth:
    """How fast all of it grows. A disk without room lasts for 0 days."""
    known = [table.bytes_per_day for table in tables if table.bytes_per_day is not None]
    if not known:
        return Growth(None, None)
    bytes_per_day = sum(known)
    if space is None or bytes_per_day <= 0:
        return Growth(bytes_per_day, None)
    return Growth(bytes_per_day, space.free_bytes / bytes_per_day)
