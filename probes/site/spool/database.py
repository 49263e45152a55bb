"""The spool's SQLite file: opened, migrated, repaired, and written in synced transactions.

A single process writes, from any thread. A damaged file is moved aside.
"""

from __future__ import annotations

import contextlib
import logging
import os
import secrets
import sqlite3
import threading
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path

from probes.site.spool import ledger

logger = logging.getLogger(__name__)

FORMAT = 3
SCHEMA = """
CREATE TABLE meta (name TEXT PRIMARY KEY, value) WITHOUT ROWID;
CREATE TABLE result (
    sequence INTEGER PRIMARY KEY AUTOINCREMENT,     -- of a block, that of its last result
    batch INTEGER,          -- number of the batch that it was put in; null while it waits
    body BLOB NOT NULL,     -- a Delivered as JSON, or a BurstBlock as MessagePack; its sequence is left at 0
    spooled_s REAL,         -- since the epoch, by the centre's clock as far as that was known
    block INTEGER           -- how many results are in the block; null if it is none
);
CREATE INDEX result_by_batch ON result (batch, sequence);
CREATE TABLE quarantine (
    sequence INTEGER PRIMARY KEY,
    refused_at TEXT NOT NULL,
    reason TEXT NOT NULL,
    body BLOB NOT NULL
);
CREATE TABLE slot (
    slot_id INTEGER PRIMARY KEY,
    taken_at TEXT NOT NULL,
    ended INTEGER NOT NULL DEFAULT 0,
    body BLOB NOT NULL      -- the slot as JSON
);
"""
DROPPED = """
CREATE TABLE dropped (      -- results that this spool could not keep, ever
    kind TEXT NOT NULL,
    reason TEXT NOT NULL,
    count INTEGER NOT NULL,
    PRIMARY KEY (kind, reason)
) WITHOUT ROWID;
"""
FROM_FORMAT_1 = f"""
BEGIN IMMEDIATE;
ALTER TABLE result ADD COLUMN spooled_s REAL;
{ledger.SCHEMA}{DROPPED}
INSERT INTO dropped SELECT 'any', 'too_many', value FROM meta WHERE name = 'dropped' AND value > 0;
DELETE FROM meta WHERE name = 'dropped';
INSERT INTO meta VALUES ('alive_s', NULL);
UPDATE meta SET value = 2 WHERE name = 'format';
COMMIT;
"""
FROM_FORMAT_2 = """
BEGIN IMMEDIATE;
ALTER TABLE result ADD COLUMN block INTEGER;
UPDATE meta SET value = 3 WHERE name = 'format';
COMMIT;
"""
# A quarter of SQLite's default, for little memory: rows are written and read once, in order.
CACHE_KIB = 512
# A full disk, a quota, a limit on files, a disk that the kernel has made read-only.
CANNOT_WRITE = (sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR, sqlite3.SQLITE_READONLY)


class SpoolError(Exception):
    """The spool cannot be used; the message has the reason and a fix."""


class NoRoom(SpoolError):
    """The disk is full or read-only; the content of the file is unchanged."""


class SpoolDatabase:
    """An open file; use `connection` within `transaction` or `reading` only."""

    def __init__(self, path: Path) -> None:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._path = path
        self._lock = threading.Lock()
        self._connection = _open(path)

    def close(self) -> None:
        with self._lock:
            self._connection.close()

    @contextlib.contextmanager
    def reading(self) -> Iterator[sqlite3.Connection]:
        with self._lock:
            yield self._connection

    @contextlib.contextmanager
    def transaction(self, committed: Callable[[], None] = lambda: None) -> Iterator[sqlite3.Connection]:
        """The connection, alone, in a transaction that is synced before `committed`. Raises `NoRoom`."""
        with self._lock:
            try:
                self._connection.execute("BEGIN IMMEDIATE")
                yield self._connection
                self._connection.execute("COMMIT")
                committed()
            except BaseException as error:
                self._roll_back()
                if isinstance(error, sqlite3.OperationalError) and error.sqlite_errorcode & 0xFF in CANNOT_WRITE:
                    raise NoRoom(f"spool {self._path}: {error}; make room on its disk") from error
                raise

    def _roll_back(self) -> None:
        if self._connection.in_transaction:
            with contextlib.suppress(sqlite3.OperationalError):
                self._connection.execute("ROLLBACK")


def value(connection: sqlite3.Connection, name: str) -> int:
    stored: int = connection.execute("SELECT value FROM meta WHERE name = ?", (name,)).fetchone()[0]
    return stored


def _open(path: Path) -> sqlite3.Connection:
    """Open or create the file; a damaged file is moved aside."""
    try:
        return _connect(path)
    except sqlite3.DatabaseError as error:
        if error.sqlite_errorcode & 0xFF not in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB):
            raise SpoolError(f"spool {path}: {error}; check its folder's permissions and room") from error
        aside = _move_aside(path)
        logger.error("spool: %s is damaged (%s); moved to %s; started a new spool", path, error, aside)
        return _connect(path)


def _connect(path: Path) -> sqlite3.Connection:
    _close_to_others(path)
    connection = sqlite3.connect(path, isolation_level=None, check_same_thread=False, timeout=10.0)
    try:
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = FULL")
        connection.execute(f"PRAGMA cache_size = -{CACHE_KIB}")
        (verdict,) = connection.execute("PRAGMA quick_check(1)").fetchone()
        if verdict != "ok":
            raise _damaged(verdict)
        if not connection.execute("SELECT 1 FROM sqlite_master WHERE name = 'slot'").fetchone():
            _begin(connection)
        _bring_up_to_date(connection, path)
    except BaseException:
        connection.close()
        raise
    return connection


def _close_to_others(path: Path) -> None:
    # The file holds single-use keys; journals get its permissions.
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CREAT, 0o600)
    except OSError as error:
        raise SpoolError(f"spool {path}: {error.strerror}; check its folder's permissions and room") from error
    try:
        if os.fstat(descriptor).st_uid == os.geteuid():
            os.fchmod(descriptor, 0o600)
    finally:
        os.close(descriptor)


def _damaged(verdict: str) -> sqlite3.DatabaseError:
    error = sqlite3.DatabaseError(verdict)
    error.sqlite_errorcode = sqlite3.SQLITE_CORRUPT
    return error


def _begin(connection: sqlite3.Connection) -> None:
    values = {"format": FORMAT, "id": secrets.token_hex(8), "acknowledged": 0}
    inserts = "".join(f"INSERT INTO meta VALUES ('{name}', {value!r});" for name, value in values.items())
    connection.executescript(
        f"BEGIN IMMEDIATE;{SCHEMA}{ledger.SCHEMA}{DROPPED}{inserts}INSERT INTO meta VALUES ('alive_s', NULL);COMMIT;"
    )


def _bring_up_to_date(connection: sqlite3.Connection, path: Path) -> None:
    if value(connection, "format") == 1:
        connection.executescript(FROM_FORMAT_1)
    if value(connection, "format") == 2:
        connection.executescript(FROM_FORMAT_2)
    stored = value(connection, "format")
    if stored != FORMAT:
        raise SpoolError(f"spool {path} has format {stored}, this agent reads {FORMAT}; run the agent that wrote it")


def _move_aside(path: Path) -> Path:
    stamp = datetime.now(UTC).strftime("%Y%m%dT%H%M%S.%fZ")
    aside = path.with_name(f"{path.stem}.damaged-{stamp}{path.suffix}")
    for end in ("", "-wal", "-shm"):
        part = path.with_name(path.name + end)
        if part.exists():
            part.rename(aside.with_name(aside.name + end))
    return aside
