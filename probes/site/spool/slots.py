"""Slots that this agent has taken, in the spool's SQLite file; call within the spool's transactions."""

from __future__ import annotations

import sqlite3
from datetime import datetime

import msgspec

from probes.contract import Slot
from probes.kinds import KIND_OF_SLOT
from probes.site.wire import read_slot


def claim(connection: sqlite3.Connection, slot: Slot, now: datetime) -> bool:
    """Store a slot as taken; False if it was taken before."""
    inserted = connection.execute(
        "INSERT OR IGNORE INTO slot (slot_id, taken_at, body) VALUES (?, ?, ?)",
        (slot.slot_id, now.isoformat(), msgspec.json.encode(slot)),
    )
    return inserted.rowcount == 1


def end(connection: sqlite3.Connection, slot_id: int) -> None:
    connection.execute("UPDATE slot SET ended = 1 WHERE slot_id = ?", (slot_id,))


def claimed_numbers(connection: sqlite3.Connection) -> set[int]:
    return {slot_id for (slot_id,) in connection.execute("SELECT slot_id FROM slot")}


def unfinished(connection: sqlite3.Connection) -> list[Slot]:
    rows = connection.execute("SELECT body FROM slot WHERE ended = 0 ORDER BY slot_id").fetchall()
    return [read_slot(body) for (body,) in rows]


def unfinished_numbers(connection: sqlite3.Connection) -> tuple[int, ...]:
    rows = connection.execute("SELECT slot_id FROM slot WHERE ended = 0 ORDER BY slot_id").fetchall()
    return tuple(slot_id for (slot_id,) in rows)


def unfinished_kinds(connection: sqlite3.Connection) -> tuple[str, ...]:
    """Kinds of these slots, in order; "unknown" for another version's."""
    rows = connection.execute("SELECT body FROM slot WHERE ended = 0 ORDER BY slot_id").fetchall()
    return tuple(_kind_name(body) for (body,) in rows)


def forget_ended(connection: sqlite3.Connection, before: datetime) -> None:
    connection.execute("DELETE FROM slot WHERE ended = 1 AND taken_at < ?", (before.isoformat(),))


def _kind_name(body: bytes) -> str:
    try:
        return KIND_OF_SLOT[type(read_slot(body))].name
    except msgspec.DecodeError:
        return "unknown"
