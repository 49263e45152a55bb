"""The spool: where a result begins to exist, and from where it is delivered at least once.

One SQLite file (WAL, full sync) with one writing process; any of its threads may call. Results go in with `put`, come
out in numbered batches with `next_batch`, and leave with `acknowledge`. A batch, once formed, is the same at each
`next_batch` until it is acknowledged, also after a crash. The file also remembers which throughput slots were taken,
so that each ends once. Nothing here talks to the network: that is `probes.site.deliver`.
"""

from __future__ import annotations

import contextlib
import logging
import secrets
import sqlite3
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import msgspec

from probes.site.wire import Batch, Delivered, Refusal, ThroughputSlot

logger = logging.getLogger(__name__)

FORMAT = 1
MAX_BYTES = 256 * 2**20
MAX_QUARANTINED = 10_000
SCHEMA = """
CREATE TABLE meta (name TEXT PRIMARY KEY, value) WITHOUT ROWID;
CREATE TABLE result (
    sequence INTEGER PRIMARY KEY AUTOINCREMENT,
    batch INTEGER,          -- number of the batch that it was put in; null while it waits
    body BLOB NOT NULL      -- a Delivered as JSON, its sequence left at 0
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
    body BLOB NOT NULL      -- the ThroughputSlot as JSON
);
"""


@dataclass(frozen=True, slots=True)
class Contents:
    """How much is in a spool: results that wait or are under way, results set aside, results ever dropped, and the
    throughput slots that run."""

    queued: int
    set_aside: int
    dropped: int
    slots: tuple[int, ...]


class SpoolError(Exception):
    """The spool cannot be used; says why and what to do."""


class Spool:
    """An open spool. `max_bytes` bounds the results in it; beyond that the oldest that wait are dropped and counted.
    `clock_off_s` tells how wrong the clock is, where it is; what is spooled then is flagged with it."""

    def __init__(
        self, path: Path, *, max_bytes: int = MAX_BYTES, clock_off_s: Callable[[], float | None] = lambda: None
    ) -> None:
        self._lock = threading.Lock()
        self._clock_off_s = clock_off_s
        self._max_bytes = max_bytes
        self._not_saved = 0
        path.parent.mkdir(parents=True, exist_ok=True)
        self._connection = _open(path)
        meta = dict(self._connection.execute("SELECT name, value FROM meta"))
        self.id: str = meta["id"]
        self._bytes: int = self._connection.execute("SELECT coalesce(sum(length(body)), 0) FROM result").fetchone()[0]

    def close(self) -> None:
        with self._lock:
            self._connection.close()

    @contextlib.contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        """The connection, alone, in a transaction that ends with a sync to the disk."""
        with self._lock:
            bytes_before = self._bytes
            self._connection.execute("BEGIN IMMEDIATE")
            try:
                yield self._connection
                self._connection.execute("COMMIT")
            except BaseException:
                self._bytes = bytes_before
                if self._connection.in_transaction:
                    self._connection.execute("ROLLBACK")
                raise

    def put(self, results: Sequence[Delivered], *, ends_slot: int | None = None) -> bool:
        """Store results; their sequences are given here. When it returns True they survive any crash.

        False when the disk is full: the results are lost, counted, and reported with the next batch. With `ends_slot`,
        the results and the end of that slot are stored together.
        """
        off_s = self._clock_off_s()
        bodies = [
            msgspec.json.encode(msgspec.structs.replace(result, sequence=0, clock_off_s=off_s)) for result in results
        ]
        try:
            with self._transaction() as connection:
                connection.executemany("INSERT INTO result (body) VALUES (?)", [(body,) for body in bodies])
                self._bytes += sum(map(len, bodies))
                if ends_slot is not None:
                    connection.execute("UPDATE slot SET ended = 1 WHERE slot_id = ?", (ends_slot,))
                self._make_room(connection)
                self._add_dropped(connection, self._not_saved)
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode != sqlite3.SQLITE_FULL:
                raise
            self._not_saved += len(bodies)
            logger.error("spool: the disk is full, %d results lost; make room on it", len(bodies))
            return False
        self._not_saved = 0
        return True

    def _make_room(self, connection: sqlite3.Connection) -> None:
        """Drop the oldest results that wait, until the rest fits."""
        dropped = 0
        while self._bytes > self._max_bytes:
            rows = connection.execute(
                "SELECT sequence, length(body) FROM result WHERE batch IS NULL ORDER BY sequence LIMIT 100"
            ).fetchall()
            if not rows:
                break
            for sequence, length in rows:
                if self._bytes <= self._max_bytes:
                    break
                connection.execute("DELETE FROM result WHERE sequence = ?", (sequence,))
                self._bytes -= length
                dropped += 1
        if dropped:
            logger.error("spool: over %d bytes; the %d oldest results were dropped", self._max_bytes, dropped)
            self._add_dropped(connection, dropped)

    def _add_dropped(self, connection: sqlite3.Connection, count: int) -> None:
        connection.execute("UPDATE meta SET value = value + ? WHERE name = 'dropped'", (count,))

    def next_batch(self, *, max_results: int, max_bytes: int, now: datetime, agent_version: str) -> Batch | None:
        """The batch to send now: the one that is not acknowledged yet, else a new one of the oldest results.

        None when nothing waits. `max_results` and `max_bytes` (of JSON) shape new batches only; one result always fits.
        """
        with self._transaction() as connection:
            number = _value(connection, "acknowledged") + 1
            results = self._read_batch(connection, number)
            if not results:
                self._fill_batch(connection, number, max_results, max_bytes)
                results = self._read_batch(connection, number)
            if not results:
                return None
            return Batch(
                spool=self.id,
                number=number,
                agent_version=agent_version,
                sent_at=now,
                results=tuple(results),
                queued=_count_waiting(connection),
                dropped=_value(connection, "dropped") + self._not_saved,
            )

    def _fill_batch(self, connection: sqlite3.Connection, number: int, max_results: int, max_bytes: int) -> None:
        """Give the oldest results that wait the batch number, up to the limits."""
        rows = connection.execute(
            "SELECT sequence, length(body) FROM result WHERE batch IS NULL ORDER BY sequence LIMIT ?", (max_results,)
        )
        last, room = None, max_bytes
        for sequence, length in rows.fetchall():
            room -= length
            if room < 0 and last is not None:
                break
            last = sequence
        connection.execute("UPDATE result SET batch = ? WHERE batch IS NULL AND sequence <= ?", (number, last))

    def _read_batch(self, connection: sqlite3.Connection, number: int) -> list[Delivered]:
        """The results of a batch, in order. What cannot be read any more is set aside."""
        results = []
        rows = connection.execute("SELECT sequence, body FROM result WHERE batch = ? ORDER BY sequence", (number,))
        for sequence, body in rows.fetchall():
            try:
                result = msgspec.json.decode(body, type=Delivered)
            except msgspec.DecodeError as error:
                self._set_aside(connection, sequence, f"cannot be read from the spool: {error}")
            else:
                results.append(msgspec.structs.replace(result, sequence=sequence))
        return results

    def acknowledge(self, number: int, refused: Iterable[Refusal] = ()) -> None:
        """The centre has batch `number`: its results leave, those that it refused are set aside with the reason."""
        with self._transaction() as connection:
            if number != _value(connection, "acknowledged") + 1:
                return
            for refusal in refused:
                self._set_aside(connection, refusal.sequence, refusal.reason)
            (length,) = connection.execute(
                "SELECT coalesce(sum(length(body)), 0) FROM result WHERE batch = ?", (number,)
            ).fetchone()
            connection.execute("DELETE FROM result WHERE batch = ?", (number,))
            connection.execute("UPDATE meta SET value = ? WHERE name = 'acknowledged'", (number,))
            self._bytes -= length

    def halve_batch(self, number: int, reason: str) -> int:
        """Batch `number` was too large to be read by the centre: leave half of it, the rest waits again.

        A single result that is too large is set aside with `reason`. Returns the results left in the batch.
        """
        with self._transaction() as connection:
            sequences = [
                row[0]
                for row in connection.execute(
                    "SELECT sequence FROM result WHERE batch = ? ORDER BY sequence", (number,)
                )
            ]
            if len(sequences) == 1:
                self._set_aside(connection, sequences[0], reason)
                return 0
            kept = len(sequences) // 2
            for sequence in sequences[kept:]:
                connection.execute("UPDATE result SET batch = NULL WHERE sequence = ?", (sequence,))
            return kept

    def _set_aside(self, connection: sqlite3.Connection, sequence: int, reason: str) -> None:
        row = connection.execute("SELECT body FROM result WHERE sequence = ?", (sequence,)).fetchone()
        if row is None:
            return
        logger.error("spool: result %d set aside: %s", sequence, reason)
        connection.execute(
            "INSERT INTO quarantine VALUES (?, ?, ?, ?)", (sequence, datetime.now(UTC).isoformat(), reason, row[0])
        )
        connection.execute(
            "DELETE FROM quarantine WHERE sequence <= (SELECT sequence FROM quarantine ORDER BY sequence DESC"
            " LIMIT 1 OFFSET ?)",
            (MAX_QUARANTINED,),
        )
        connection.execute("DELETE FROM result WHERE sequence = ?", (sequence,))
        self._bytes -= len(row[0])

    def queued(self) -> int:
        """Results in the spool, those of an unacknowledged batch included."""
        with self._lock:
            count: int = self._connection.execute("SELECT count(*) FROM result").fetchone()[0]
            return count

    def dropped(self) -> int:
        """Results that this spool had to drop, ever."""
        with self._lock:
            return _value(self._connection, "dropped") + self._not_saved

    def quarantined(self) -> list[Refusal]:
        """What was set aside, oldest first."""
        with self._lock:
            rows = self._connection.execute("SELECT sequence, reason FROM quarantine ORDER BY sequence").fetchall()
        return [Refusal(sequence=sequence, reason=reason) for sequence, reason in rows]

    def take_slot(self, slot: ThroughputSlot, now: datetime) -> bool:
        """Take a throughput slot for this agent. False if it was taken before: each slot is run once."""
        with self._transaction() as connection:
            taken = connection.execute(
                "INSERT OR IGNORE INTO slot (slot_id, taken_at, body) VALUES (?, ?, ?)",
                (slot.slot_id, now.isoformat(), msgspec.json.encode(slot)),
            )
            return taken.rowcount == 1

    def end_slot(self, slot_id: int) -> None:
        """A slot ended without a result of ours (we were the server)."""
        with self._transaction() as connection:
            connection.execute("UPDATE slot SET ended = 1 WHERE slot_id = ?", (slot_id,))

    def taken_slots(self) -> set[int]:
        with self._lock:
            return {row[0] for row in self._connection.execute("SELECT slot_id FROM slot")}

    def unfinished_slots(self) -> list[ThroughputSlot]:
        """Slots that were taken and never ended: what ran when the agent was killed."""
        with self._lock:
            rows = self._connection.execute("SELECT body FROM slot WHERE ended = 0 ORDER BY slot_id").fetchall()
        return [msgspec.json.decode(body, type=ThroughputSlot) for (body,) in rows]

    def forget_slots(self, before: datetime) -> None:
        """Forget ended slots that were taken before a moment; no plan names them any more."""
        with self._transaction() as connection:
            connection.execute("DELETE FROM slot WHERE ended = 1 AND taken_at < ?", (before.isoformat(),))


def look_into(path: Path) -> Contents:
    """What is in the spool that an agent may be using now; nothing is changed. Raises `SpoolError`."""
    try:
        with contextlib.closing(sqlite3.connect(f"{path.resolve().as_uri()}?mode=ro", uri=True)) as connection:
            slots = connection.execute("SELECT slot_id FROM slot WHERE ended = 0 ORDER BY slot_id").fetchall()
            return Contents(
                queued=connection.execute("SELECT count(*) FROM result").fetchone()[0],
                set_aside=connection.execute("SELECT count(*) FROM quarantine").fetchone()[0],
                dropped=_value(connection, "dropped"),
                slots=tuple(slot_id for (slot_id,) in slots),
            )
    except sqlite3.Error as error:
        raise SpoolError(f"spool {path}: {error}; run this as the agent's user") from error


def _value(connection: sqlite3.Connection, name: str) -> int:
    value: int = connection.execute("SELECT value FROM meta WHERE name = ?", (name,)).fetchone()[0]
    return value


def _count_waiting(connection: sqlite3.Connection) -> int:
    count: int = connection.execute("SELECT count(*) FROM result WHERE batch IS NULL").fetchone()[0]
    return count


def _open(path: Path) -> sqlite3.Connection:
    """Open the spool file, or begin one. A damaged file is moved aside and a new spool begun in its place."""
    try:
        return _connect(path)
    except sqlite3.DatabaseError as error:
        if error.sqlite_errorcode & 0xFF not in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB):
            raise SpoolError(f"spool {path}: {error}; check its folder's permissions and room") from error
        aside = _move_aside(path)
        logger.error("spool: %s is damaged (%s); moved to %s, a new spool begun", path, error, aside)
        return _connect(path)


def _connect(path: Path) -> sqlite3.Connection:
    connection = sqlite3.connect(path, isolation_level=None, check_same_thread=False, timeout=10.0)
    try:
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = FULL")
        (verdict,) = connection.execute("PRAGMA quick_check(1)").fetchone()
        if verdict != "ok":
            raise _damaged(verdict)
        if not connection.execute("SELECT 1 FROM sqlite_master WHERE name = 'slot'").fetchone():
            _begin(connection)
        _check_format(connection, path)
    except BaseException:
        connection.close()
        raise
    return connection


def _damaged(verdict: str) -> sqlite3.DatabaseError:
    error = sqlite3.DatabaseError(verdict)
    error.sqlite_errorcode = sqlite3.SQLITE_CORRUPT
    return error


def _begin(connection: sqlite3.Connection) -> None:
    values = {"format": FORMAT, "id": secrets.token_hex(8), "acknowledged": 0, "dropped": 0}
    inserts = "".join(f"INSERT INTO meta VALUES ('{name}', {value!r});" for name, value in values.items())
    connection.executescript(f"BEGIN IMMEDIATE;{SCHEMA}{inserts}COMMIT;")


def _check_format(connection: sqlite3.Connection, path: Path) -> None:
    found = _value(connection, "format")
    if found != FORMAT:
        raise SpoolError(f"spool {path} has format {found}, this agent reads {FORMAT}; run the agent that wrote it")


def _move_aside(path: Path) -> Path:
    """Rename the file and its journal, so that what is in it can still be looked at."""
    stamp = datetime.now(UTC).strftime("%Y%m%dT%H%M%S.%fZ")
    aside = path.with_name(f"{path.stem}.damaged-{stamp}{path.suffix}")
    for end in ("", "-wal", "-shm"):
        part = path.with_name(path.name + end)
        if part.exists():
            part.rename(aside.with_name(aside.name + end))
    return aside
