"""Lost results: counts of dropped results, and a quarantine of the newest 10,000 rejected.

Call within the spool's transactions.
"""

from __future__ import annotations

import sqlite3
from datetime import UTC, datetime

from probes.site.health import Dropped
from probes.site.wire import Refusal

MAX_QUARANTINED = 10_000
REASONS_SHOWN = 5
TOO_MANY, TOO_OLD, DISK_FULL = "too_many", "too_old", "disk_full"


def add_dropped(connection: sqlite3.Connection, kind: str, reason: str, count: int) -> None:
    connection.execute(
        "INSERT INTO dropped VALUES (?, ?, ?) ON CONFLICT DO UPDATE SET count = count + excluded.count",
        (kind, reason, count),
    )


def count_dropped(connection: sqlite3.Connection) -> int:
    """All results dropped since this spool was created."""
    number: int = connection.execute("SELECT coalesce(sum(count), 0) FROM dropped").fetchone()[0]
    return number


def dropped_by_kind(connection: sqlite3.Connection) -> tuple[Dropped, ...]:
    rows = connection.execute("SELECT kind, reason, count FROM dropped ORDER BY kind, reason").fetchall()
    return tuple(Dropped(kind=kind, reason=reason, count=count) for kind, reason, count in rows)


def quarantine(connection: sqlite3.Connection, sequence: int, reason: str, body: bytes) -> None:
    """Keep a result with the reason; delete the oldest beyond `MAX_QUARANTINED`."""
    connection.execute(
        "INSERT INTO quarantine VALUES (?, ?, ?, ?)", (sequence, datetime.now(UTC).isoformat(), reason, body)
    )
    connection.execute(
        "DELETE FROM quarantine WHERE sequence <= (SELECT sequence FROM quarantine ORDER BY sequence DESC"
        " LIMIT 1 OFFSET ?)",
        (MAX_QUARANTINED,),
    )


def count_quarantined(connection: sqlite3.Connection) -> int:
    number: int = connection.execute("SELECT count(*) FROM quarantine").fetchone()[0]
    return number


def quarantined(connection: sqlite3.Connection) -> list[Refusal]:
    """Sequence and reason of each quarantined result, oldest first."""
    rows = connection.execute("SELECT sequence, reason FROM quarantine ORDER BY sequence").fetchall()
    return [Refusal(sequence=sequence, reason=reason) for sequence, reason in rows]


def commonest_reasons(connection: sqlite3.Connection) -> tuple[tuple[str, int], ...]:
    """The quarantine's most frequent reasons with counts."""
    rows = connection.execute(
        "SELECT reason, count(*) FROM quarantine GROUP BY reason ORDER BY count(*) DESC, reason LIMIT ?",
        (REASONS_SHOWN,),
    )
    return tuple(rows.fetchall())
