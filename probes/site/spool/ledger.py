"""The agent's ledger: each planned cycle has a result, or lies in a gap with its reason.

Call within the spool's transactions, so that both survive a crash together. Times are epoch seconds by `CycleClock`.
"""

from __future__ import annotations

import math
import sqlite3
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime

from probes.site.wire import GAPS_AT_ONCE, Account, Gap, GapReason

SCHEMA = """
CREATE TABLE test (                 -- the tests that the plan repeats
    name TEXT NOT NULL,
    every_s INTEGER NOT NULL,
    newest INTEGER NOT NULL,        -- number of the newest cycle that was taken, or that began before it was planned
    taken INTEGER NOT NULL,         -- whether it was taken
    PRIMARY KEY (name, every_s)
) WITHOUT ROWID;
CREATE TABLE running (
    name TEXT NOT NULL,
    every_s INTEGER NOT NULL,
    number INTEGER NOT NULL,
    PRIMARY KEY (name, every_s, number)
) WITHOUT ROWID;
CREATE TABLE gap (                  -- gaps not yet acknowledged by the centre
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    test TEXT,                      -- null, as the next, for all
    every_s INTEGER,
    since_s REAL NOT NULL,
    until_s REAL NOT NULL,
    reason TEXT NOT NULL
);
"""


@dataclass(frozen=True, slots=True)
class Cycle:
    """An execution of a repeated test, due at `number * every_s` seconds since the epoch."""

    test: str
    every_s: int
    number: int

    @classmethod
    def at(cls, test: str, every_s: int, now: datetime, phase_s: float = 0.0) -> Cycle:
        """The newest cycle that has begun; cycles begin `phase_s` after their time."""
        return cls(test, every_s, math.floor((now.timestamp() - phase_s) / every_s))

    def moved(self, by_s: float) -> Cycle:
        return Cycle(self.test, self.every_s, self.number + round(by_s / self.every_s))

    @property
    def next(self) -> Cycle:
        return Cycle(self.test, self.every_s, self.number + 1)

    @property
    def begins_s(self) -> float:
        return float(self.number * self.every_s)

    @property
    def ends_s(self) -> float:
        return float((self.number + 1) * self.every_s)


def record_start(connection: sqlite3.Connection, now_s: float, last_heartbeat_s: float | None) -> None:
    """Record the agent's start: its running cycles and its silent time are gaps."""
    running = connection.execute("SELECT name, every_s, number FROM running").fetchall()
    for cycle in (Cycle(*row) for row in running):
        add_gap(connection, GapReason.AGENT_OFFLINE, cycle, cycle)
    connection.execute("DELETE FROM running")
    (alive_s,) = connection.execute("SELECT value FROM meta WHERE name = 'alive_s'").fetchone()
    alive_at_s = [at_s for at_s in (alive_s, last_heartbeat_s) if at_s is not None]
    if alive_at_s:
        _note(connection, GapReason.AGENT_OFFLINE, max(alive_at_s), now_s)
    record_heartbeat(connection, now_s)


def record_heartbeat(connection: sqlite3.Connection, now_s: float) -> None:
    connection.execute("UPDATE meta SET value = ? WHERE name = 'alive_s'", (now_s,))


def set_planned(connection: sqlite3.Connection, newest: Iterable[Cycle], now_s: float) -> set[tuple[str, int]]:
    """Set the repeated tests; returns name and interval of new tests."""
    planned = {(cycle.test, cycle.every_s): cycle for cycle in newest}
    stored = connection.execute("SELECT name, every_s, newest FROM test").fetchall()
    for name, every_s, number in stored:
        if (name, every_s) not in planned:
            _forget(connection, Cycle(name, every_s, number), now_s)
    new = planned.keys() - {(name, every_s) for name, every_s, _ in stored}
    for key in new:
        _set_newest(connection, planned[key], taken=False)
    return new


def _forget(connection: sqlite3.Connection, newest: Cycle, now_s: float) -> None:
    last = Cycle(newest.test, newest.every_s, math.floor(now_s / newest.every_s))
    add_gap(connection, GapReason.LATE, newest.next, last)
    connection.execute("DELETE FROM test WHERE name = ? AND every_s = ?", (newest.test, newest.every_s))


def claim(connection: sqlite3.Connection, cycle: Cycle, *, is_first: bool) -> range | None:
    """Claim a cycle; returns numbers of earlier cycles that never began, None if claimed before."""
    row = connection.execute(
        "SELECT newest, taken FROM test WHERE name = ? AND every_s = ?", (cycle.test, cycle.every_s)
    ).fetchone()
    # The clock may have been set back while the agent was down: numbers then recur.
    if row == (cycle.number, True) or (not is_first and row is not None and cycle.number < row[0]):
        return None
    _set_newest(connection, cycle, taken=True)
    connection.execute("INSERT OR IGNORE INTO running VALUES (?, ?, ?)", (cycle.test, cycle.every_s, cycle.number))
    lost = range(cycle.number if row is None else row[0] + 1, cycle.number)
    if lost:
        first, last = (Cycle(cycle.test, cycle.every_s, number) for number in (lost[0], lost[-1]))
        add_gap(connection, GapReason.LATE, first, last)
    return lost


def move(connection: sqlite3.Connection, tests: Iterable[tuple[str, int]], by_s: float) -> None:
    """Renumber these tests' newest and running cycles after their clock was set; no time has passed."""
    for name, every_s in tests:
        rows = connection.execute(
            "DELETE FROM running WHERE name = ? AND every_s = ? RETURNING name, every_s, number", (name, every_s)
        ).fetchall()
        for cycle in (Cycle(*row).moved(by_s) for row in rows):
            connection.execute("INSERT INTO running VALUES (?, ?, ?)", (name, every_s, cycle.number))
        connection.execute(
            "UPDATE test SET newest = newest + ? WHERE name = ? AND every_s = ?",
            (Cycle(name, every_s, 0).moved(by_s).number, name, every_s),
        )


def _set_newest(connection: sqlite3.Connection, cycle: Cycle, *, taken: bool) -> None:
    connection.execute(
        "INSERT OR REPLACE INTO test VALUES (?, ?, ?, ?)", (cycle.test, cycle.every_s, cycle.number, taken)
    )


def end(connection: sqlite3.Connection, cycle: Cycle) -> None:
    connection.execute(
        "DELETE FROM running WHERE name = ? AND every_s = ? AND number = ?", (cycle.test, cycle.every_s, cycle.number)
    )


def add_gap(
    connection: sqlite3.Connection, reason: GapReason, first: Cycle, last: Cycle, *, sent_up_to: int = 0
) -> None:
    """Record that the cycles from `first` to `last`, inclusive, have no result.

    Gaps up to id `sent_up_to` may have been sent and stay unchanged.
    """
    _note(connection, reason, first.begins_s, last.ends_s, first, sent_up_to=sent_up_to)


def _note(
    connection: sqlite3.Connection,
    reason: GapReason,
    since_s: float,
    until_s: float,
    of: Cycle | None = None,
    *,
    sent_up_to: int = 0,
) -> None:
    if since_s >= until_s:
        return
    test, every_s = (None, None) if of is None else (of.test, of.every_s)
    touched = connection.execute(
        "SELECT id, since_s, until_s FROM gap"
        " WHERE id > ? AND test IS ? AND every_s IS ? AND reason = ? AND since_s <= ? AND until_s >= ?",
        (sent_up_to, test, every_s, reason.value, until_s, since_s),
    ).fetchall()
    for number, _, _ in touched:
        connection.execute("DELETE FROM gap WHERE id = ?", (number,))
    since_s = min([since_s, *(gap_since_s for _, gap_since_s, _ in touched)])
    until_s = max([until_s, *(gap_until_s for _, _, gap_until_s in touched)])
    connection.execute(
        "INSERT INTO gap (test, every_s, since_s, until_s, reason) VALUES (?, ?, ?, ?, ?)",
        (test, every_s, since_s, until_s, reason.value),
    )


def account(connection: sqlite3.Connection, now_s: float, *, is_last: bool) -> tuple[Account, int]:
    """The oldest gaps, the accounted time if `is_last`, and the newest gap's number."""
    rows = connection.execute(
        "SELECT id, test, every_s, since_s, until_s, reason FROM gap ORDER BY id LIMIT ?", (GAPS_AT_ONCE,)
    ).fetchall()
    gaps = tuple(
        Gap(since=_time(since_s), until=_time(until_s), reason=GapReason(reason), test=test, every_s=every_s)
        for _, test, every_s, since_s, until_s, reason in rows
    )
    until = _accounted_until(connection, now_s) if is_last and len(rows) < GAPS_AT_ONCE else None
    return Account(until=until, gaps=gaps), rows[-1][0] if rows else 0


def delete_sent_gaps(connection: sqlite3.Connection, sent_up_to: int) -> None:
    connection.execute("DELETE FROM gap WHERE id <= ?", (sent_up_to,))


def _accounted_until(connection: sqlite3.Connection, now_s: float) -> datetime | None:
    (open_s,) = connection.execute(
        "SELECT min(begins_s) FROM (SELECT (newest + 1) * every_s AS begins_s FROM test"
        " UNION ALL SELECT number * every_s FROM running)"
    ).fetchone()
    return None if open_s is None else _time(min(open_s, now_s))


def _time(seconds: float) -> datetime:
    return datetime.fromtimestamp(seconds, UTC)
