"""The spool: where a result begins to exist, and from where it is delivered at least once.

One SQLite file (WAL, full sync) with one writing process; any of its threads may call. Results go in with `put`, come
out in numbered batches with `next_batch`, and leave with `acknowledge`. A batch, once formed, is the same at each
`next_batch` until it is acknowledged or split, also after a crash. The file also remembers which throughput slots and
which cycles were taken, so that each is run once and none is forgotten (`probes.site.spool.ledger`). Nothing here talks
to the network: that is `probes.site.delivery.deliver`.
"""

from __future__ import annotations

import contextlib
import logging
import sqlite3
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

import msgspec

from probes.capacity.spec import CapacityRun
from probes.disk_to_disk.spec import DiskToDiskRun
from probes.ping.spec import Burst
from probes.site.health import Dropped
from probes.site.spool import ledger
from probes.site.spool.file import NoRoom, SpoolError, SpoolFile, value
from probes.site.spool.ledger import Cycle
from probes.site.wire import AnySlot, Batch, Delivered, GapReason, Refusal, read_slot
from probes.throughput.spec import Served, ThroughputRun

__all__ = ["Contents", "NoRoom", "Spool", "SpoolError", "look_into"]

logger = logging.getLogger(__name__)

MAX_BYTES = 256 * 2**20
MAX_AGE = timedelta(days=90)
MAX_QUARANTINED = 10_000
REASONS_SHOWN = 5
MOST_OFF_S = 300.0
"""A result that begins further ahead of the centre's clock is refused there."""
Measured = Burst | ThroughputRun | CapacityRun | DiskToDiskRun | Served
END_SLOT = "UPDATE slot SET ended = 1 WHERE slot_id = ?"
TOO_MANY, TOO_OLD, DISK_FULL = "too_many", "too_old", "disk_full"


@dataclass(frozen=True, slots=True)
class Contents:
    """How much is in a spool: results that wait or are under way, results set aside, results ever dropped, and the
    throughput slots that run. `dropped_for` tells the dropped ones by kind and reason, `set_aside_for` the commonest
    reasons of the centre with how many they are of."""

    queued: int
    set_aside: int
    dropped: int
    slots: tuple[int, ...]
    dropped_for: tuple[Dropped, ...] = ()
    set_aside_for: tuple[tuple[str, int], ...] = ()


class _Kind(msgspec.Struct):
    kind: str


class _Body(msgspec.Struct):
    """As little of a spooled result as tells whose it is."""

    test: str
    result: _Kind
    every_s: int | None = None
    cycle: int | None = None

    @property
    def of_cycle(self) -> Cycle | None:
        if self.every_s is None or self.cycle is None:
            return None
        return Cycle(self.test, self.every_s, self.cycle)


class Spool:
    """An open spool. `max_bytes` and `max_age` bound the results in it; beyond, the oldest that wait are dropped and
    counted. `clock_off_s` tells how wrong the clock is, where it is; what is spooled then is flagged with it."""

    def __init__(
        self,
        path: Path,
        *,
        max_bytes: int = MAX_BYTES,
        max_age: timedelta = MAX_AGE,
        clock_off_s: Callable[[], float | None] = lambda: None,
        now_s: Callable[[], float] = time.time,
    ) -> None:
        self._clock_off_s = clock_off_s
        self._now_s = now_s
        self._max_bytes = max_bytes
        self._max_age_s = max_age.total_seconds()
        self._unsaved: Counter[str] = Counter()
        self._unsaved_cycles: dict[Cycle, float] = {}
        self._unsaved_beginning: tuple[float, float | None] | None = None
        self._slots_unsaved: set[int] = set()
        self._taken_off_s: dict[Cycle, float | None] = {}
        self._told = 0
        self._began_s = now_s()
        self.lost_cycles = 0
        """That were due since the spool was opened and never began."""
        self._file = SpoolFile(path)
        with self._file.reading() as connection:
            self.id: str = connection.execute("SELECT value FROM meta WHERE name = 'id'").fetchone()[0]
            self._bytes = _count_bytes(connection)

    def close(self) -> None:
        self._file.close()

    @contextlib.contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        """A transaction that also tells what could not be written before. Raises `NoRoom`."""
        try:
            with self._file.transaction(self._forget_unsaved) as connection:
                self._tell_unsaved(connection)
                yield connection
        except BaseException:
            with self._file.reading() as connection:
                self._bytes = _count_bytes(connection)
            raise

    def put(
        self,
        results: Sequence[Delivered],
        *,
        cycle: Cycle | None = None,
        more: bool = False,
        ends_slot: int | None = None,
    ) -> bool:
        """Store results; their sequences are given here. When it returns True they survive any crash.

        False when nothing can be written: the results are lost, counted, and reported as soon as there is room. They
        are of `cycle`, which ends with them unless `more` are to come. With `ends_slot`, the results and the end of
        that slot are stored together.
        """
        off_s = self._clock_off_s()
        bodies = [msgspec.json.encode(one) for one in self._stamped(results, cycle, off_s)]
        now_s = self._now_s()
        try:
            with self._transaction() as connection:
                connection.executemany(
                    "INSERT INTO result (body, spooled_s) VALUES (?, ?)",
                    [(body, now_s - (off_s or 0)) for body in bodies],
                )
                self._bytes += sum(map(len, bodies))
                if ends_slot is not None:
                    connection.execute(END_SLOT, (ends_slot,))
                if cycle is not None and not more:
                    ledger.end(connection, cycle)
                self._make_room(connection, now_s - (off_s or 0))
                ledger.show_life(connection, now_s)
        except NoRoom as error:
            self._lose(results, cycle, off_s)
            logger.error("%s: %d results lost", error, len(bodies))
            return False
        finally:
            if not more and cycle is not None:
                self._taken_off_s.pop(cycle, None)
        return True

    def _stamped(self, results: Sequence[Delivered], cycle: Cycle | None, off_s: float | None) -> Iterator[Delivered]:
        """The results with their cycle by the centre's clock, and with how wrong ours was: when the cycle began, or
        else now."""
        began_off_s = off_s if cycle is None else self._taken_off_s.get(cycle, off_s)
        flagged_s = off_s if began_off_s is None else began_off_s
        now_s = self._now_s() - (off_s or 0.0)
        told = None if cycle is None else cycle.by_centre(began_off_s or 0.0)
        for result in results:
            yield msgspec.structs.replace(
                result,
                sequence=0,
                result=in_time(result.result, flagged_s, now_s),
                clock_off_s=flagged_s,
                every_s=None if told is None else told.every_s,
                cycle=None if told is None else told.number,
            )

    def _lose(self, results: Sequence[Delivered], cycle: Cycle | None, off_s: float | None) -> None:
        """Remember what could not be written."""
        with self._file.reading():
            self._unsaved.update(_kind_of(result) for result in results)
            if cycle is not None:
                self._unsaved_cycles[cycle] = off_s or 0.0

    def _tell_unsaved(self, connection: sqlite3.Connection) -> None:
        """Write it where there is room again."""
        if self._unsaved_beginning is not None:
            now_s, pulse_s = self._unsaved_beginning
            ledger.begin(connection, now_s, self._clock_off_s() or 0.0, pulse_s)
        for kind, count in self._unsaved.items():
            self._add_dropped(connection, kind, DISK_FULL, count)
        for cycle, off_s in self._unsaved_cycles.items():
            ledger.end(connection, cycle)
            self._note(connection, GapReason.DISK_FULL, cycle.by_centre(off_s))

    def _forget_unsaved(self) -> None:
        self._unsaved_beginning = None
        self._unsaved.clear()
        self._unsaved_cycles.clear()

    def _note(self, connection: sqlite3.Connection, reason: GapReason, cycle: Cycle) -> None:
        ledger.note_cycles(connection, reason, cycle, cycle, told=self._told)

    def _make_room(self, connection: sqlite3.Connection, now_s: float) -> None:
        """Drop the oldest results that wait, until the rest is neither too much nor too old."""
        dropped: Counter[tuple[str, str]] = Counter()
        for sequence, body, spooled_s in _oldest(connection):
            if self._bytes > self._max_bytes:
                reason = TOO_MANY
            elif spooled_s is not None and now_s - spooled_s > self._max_age_s:
                reason = TOO_OLD
            else:
                break
            connection.execute("DELETE FROM result WHERE sequence = ?", (sequence,))
            self._bytes -= len(body)
            told = _told(body)
            dropped[told.result.kind, reason] += 1
            if told.of_cycle is not None:
                self._note(connection, GapReason.DROPPED, told.of_cycle)
        for (kind, reason), count in dropped.items():
            logger.error("spool: %s: the %d oldest results of kind %s were dropped", reason, count, kind)
            self._add_dropped(connection, kind, reason, count)

    def _add_dropped(self, connection: sqlite3.Connection, kind: str, reason: str, count: int) -> None:
        connection.execute(
            "INSERT INTO dropped VALUES (?, ?, ?) ON CONFLICT DO UPDATE SET count = count + excluded.count",
            (kind, reason, count),
        )

    def begin(self, pulse_s: float | None = None) -> None:
        """The agent starts: what it did not run while it was away, since its last pulse, is accounted for. To be called
        once, before all."""
        self._began_s = self._now_s()
        self._unsaved_beginning = (self._began_s, pulse_s)
        self._try_to_write()

    def follow(self, newest: Iterable[Cycle]) -> None:
        """The plan repeats these tests and no others; of each the newest cycle that has begun."""
        off_s = self._clock_off_s() or 0.0
        self._try_to_write(lambda connection: ledger.follow(connection, newest, self._now_s(), off_s))

    def _try_to_write(self, write: Callable[[sqlite3.Connection], object] = lambda _: None) -> bool:
        """Whether there was room for what can be written later as well."""
        try:
            with self._transaction() as connection:
                write(connection)
        except NoRoom as error:
            logger.error("%s", error)
            return False
        return True

    def take_cycle(self, cycle: Cycle) -> bool:
        """Take a cycle for this agent, and account for those before it that never began. False if it was taken before:
        each is run once. Where nothing can be written, it is taken all the same: measuring goes on."""
        off_s = self._clock_off_s()
        try:
            with self._transaction() as connection:
                lost = ledger.take(connection, cycle, off_s or 0.0)
                ledger.show_life(connection, self._now_s())
        except NoRoom as error:
            logger.error("%s; measuring goes on", error)
            self._taken_off_s[cycle] = off_s
            return True
        if lost is None:
            return False
        self.lost_cycles += sum(number * cycle.every_s >= self._began_s for number in lost)
        self._taken_off_s[cycle] = off_s
        return True

    def end_cycle(self, cycle: Cycle, *, failed: bool = False) -> None:
        """A cycle leaves no more results; one that failed may have left none."""
        off_s = self._taken_off_s.pop(cycle, None) or 0.0

        def end(connection: sqlite3.Connection) -> None:
            ledger.end(connection, cycle)
            if failed:
                self._note(connection, GapReason.AGENT_FAILED, cycle.by_centre(off_s))

        if not self._try_to_write(end):
            self._lose([], cycle, off_s)

    def next_batch(
        self,
        *,
        max_results: int,
        max_bytes: int,
        now: datetime,
        agent_version: str,
        only: int | None = None,
        without: Collection[int] = (),
    ) -> Batch | None:
        """The batch to send now: the one that is not acknowledged yet, else a new one of the oldest results.

        None when nothing waits. `max_results` and `max_bytes` (of JSON) shape new batches only; one result always fits.
        So do `only`, the sequence of the one result to take, and `without`, those to leave waiting. Raises `NoRoom`
        where a new one cannot be noted.
        """
        with self._transaction() as connection:
            number = value(connection, "acknowledged") + 1
            results = self._read_batch(connection, number)
            if not results:
                waiting = _waiting(only, without)
                self._fill_batch(connection, number, max_results, max_bytes, waiting)
                results = self._read_batch(connection, number)
            if not results:
                return None
            queued = _count_waiting(connection)
            is_last = queued == 0 and not self._unsaved
            account, self._told = ledger.account(
                connection, now.timestamp(), self._clock_off_s() or 0.0, is_last=is_last
            )
            return Batch(
                spool=self.id,
                number=number,
                agent_version=agent_version,
                sent_at=now,
                results=tuple(results),
                queued=queued,
                dropped=_count_dropped(connection) + self._unsaved.total(),
                account=account,
            )

    def _fill_batch(
        self, connection: sqlite3.Connection, number: int, max_results: int, max_bytes: int, waiting: str
    ) -> None:
        """Give the oldest results that wait, by this condition, the batch number, up to the limits."""
        rows = connection.execute(
            f"SELECT sequence, length(body) FROM result WHERE {waiting} ORDER BY sequence LIMIT ?", (max_results,)
        )
        last, room = None, max_bytes
        for sequence, length in rows.fetchall():
            room -= length
            if room < 0 and last is not None:
                break
            last = sequence
        connection.execute(f"UPDATE result SET batch = ? WHERE {waiting} AND sequence <= ?", (number, last))

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
            if number != value(connection, "acknowledged") + 1:
                return
            for refusal in refused:
                self._set_aside(connection, refusal.sequence, refusal.reason)
            (length,) = connection.execute(
                "SELECT coalesce(sum(length(body)), 0) FROM result WHERE batch = ?", (number,)
            ).fetchone()
            connection.execute("DELETE FROM result WHERE batch = ?", (number,))
            connection.execute("UPDATE meta SET value = ? WHERE name = 'acknowledged'", (number,))
            ledger.forget_told(connection, self._told)
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

    def release_batch(self, number: int) -> None:
        """The results of batch `number`, which is not acknowledged, wait again."""
        with self._transaction() as connection:
            connection.execute("UPDATE result SET batch = NULL WHERE batch = ?", (number,))

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
        cycle = _told(row[0]).of_cycle
        if cycle is not None:
            self._note(connection, GapReason.SET_ASIDE, cycle)

    @property
    def has_results(self) -> bool:
        """Whether anything is to be delivered; asks no file."""
        return self._bytes > 0

    def queued(self) -> int:
        """Results in the spool, those of an unacknowledged batch included."""
        with self._file.reading() as connection:
            count: int = connection.execute("SELECT count(*) FROM result").fetchone()[0]
            return count

    def dropped(self) -> int:
        """Results that this spool had to drop, ever."""
        with self._file.reading() as connection:
            return _count_dropped(connection) + self._unsaved.total()

    def dropped_for(self) -> tuple[Dropped, ...]:
        """The same by kind and reason, but for what is not written yet."""
        with self._file.reading() as connection:
            return _dropped(connection)

    def set_aside(self) -> int:
        """How many results are set aside."""
        with self._file.reading() as connection:
            count: int = connection.execute("SELECT count(*) FROM quarantine").fetchone()[0]
            return count

    def quarantined(self) -> list[Refusal]:
        """What was set aside, oldest first."""
        with self._file.reading() as connection:
            rows = connection.execute("SELECT sequence, reason FROM quarantine ORDER BY sequence").fetchall()
        return [Refusal(sequence=sequence, reason=reason) for sequence, reason in rows]

    def take_slot(self, slot: AnySlot, now: datetime) -> bool:
        """Take a slot for this agent. False if it was taken before: each slot is run once."""
        try:
            with self._transaction() as connection:
                taken = connection.execute(
                    "INSERT OR IGNORE INTO slot (slot_id, taken_at, body) VALUES (?, ?, ?)",
                    (slot.slot_id, now.isoformat(), msgspec.json.encode(slot)),
                )
                return taken.rowcount == 1 and slot.slot_id not in self._slots_unsaved
        except NoRoom as error:
            logger.error("%s; measuring goes on", error)
        if slot.slot_id in self.taken_slots():
            return False
        self._slots_unsaved.add(slot.slot_id)
        return True

    def end_slot(self, slot_id: int) -> None:
        """A slot ended without a result of ours (we were the server)."""
        self._try_to_write(lambda connection: connection.execute(END_SLOT, (slot_id,)))

    def taken_slots(self) -> set[int]:
        with self._file.reading() as connection:
            return {row[0] for row in connection.execute("SELECT slot_id FROM slot")} | self._slots_unsaved

    def unfinished_slots(self) -> list[AnySlot]:
        """Slots that were taken and never ended: what ran when the agent was killed."""
        with self._file.reading() as connection:
            rows = connection.execute("SELECT body FROM slot WHERE ended = 0 ORDER BY slot_id").fetchall()
        return [read_slot(body) for (body,) in rows]

    def forget_slots(self, before: datetime) -> None:
        """Forget ended slots that were taken before a moment; no plan names them any more."""
        self._try_to_write(
            lambda connection: connection.execute(
                "DELETE FROM slot WHERE ended = 1 AND taken_at < ?", (before.isoformat(),)
            )
        )


def look_into(path: Path) -> Contents:
    """What is in the spool that an agent may be using now; nothing is changed. Raises `SpoolError`."""
    try:
        with contextlib.closing(sqlite3.connect(f"{path.resolve().as_uri()}?mode=ro", uri=True)) as connection:
            slots = connection.execute("SELECT slot_id FROM slot WHERE ended = 0 ORDER BY slot_id").fetchall()
            return Contents(
                queued=connection.execute("SELECT count(*) FROM result").fetchone()[0],
                set_aside=connection.execute("SELECT count(*) FROM quarantine").fetchone()[0],
                dropped=_count_dropped(connection),
                slots=tuple(slot_id for (slot_id,) in slots),
                dropped_for=_dropped(connection),
                set_aside_for=_commonest_reasons(connection),
            )
    except sqlite3.Error as error:
        raise SpoolError(f"spool {path}: {error}; run this as the agent's user") from error


def in_time(measured: Measured, off_s: float | None, now_s: float) -> Measured:
    """A result that was measured just now, by the centre's clock: where ours is off by more than the centre bears, and
    the time of the result comes nearer to now without that, it is taken off. The clock may have been set since then."""
    if off_s is None or abs(off_s) <= MOST_OFF_S:
        return measured
    off, now = timedelta(seconds=off_s), datetime.fromtimestamp(now_s, UTC)
    if abs(measured.started_at - off - now) >= abs(measured.started_at - now):
        return measured
    return msgspec.structs.replace(measured, started_at=measured.started_at - off)


def _kind_of(result: Delivered) -> str:
    return str(type(result.result).__struct_config__.tag)


def _told(body: bytes) -> _Body:
    """What a spooled result says of itself, as far as it can be read."""
    try:
        return msgspec.json.decode(body, type=_Body)
    except msgspec.DecodeError:
        return _Body(test="", result=_Kind(kind="unreadable"))


def _count_bytes(connection: sqlite3.Connection) -> int:
    count: int = connection.execute("SELECT coalesce(sum(length(body)), 0) FROM result").fetchone()[0]
    return count


def _oldest(connection: sqlite3.Connection) -> Iterator[tuple[int, bytes, float | None]]:
    """The results that wait, oldest first; they may be deleted meanwhile."""
    last = 0
    while rows := connection.execute(
        "SELECT sequence, body, spooled_s FROM result WHERE batch IS NULL AND sequence > ? ORDER BY sequence LIMIT 100",
        (last,),
    ).fetchall():
        yield from rows
        last = rows[-1][0]


def _waiting(only: int | None, without: Collection[int]) -> str:
    """The condition on results that a new batch may have."""
    condition = "batch IS NULL"
    if only is not None:
        condition += f" AND sequence = {only:d}"
    if without:
        condition += f" AND sequence NOT IN ({', '.join(f'{sequence:d}' for sequence in without)})"
    return condition


def _count_waiting(connection: sqlite3.Connection) -> int:
    count: int = connection.execute("SELECT count(*) FROM result WHERE batch IS NULL").fetchone()[0]
    return count


def _count_dropped(connection: sqlite3.Connection) -> int:
    count: int = connection.execute("SELECT coalesce(sum(count), 0) FROM dropped").fetchone()[0]
    return count


def _dropped(connection: sqlite3.Connection) -> tuple[Dropped, ...]:
    rows = connection.execute("SELECT kind, reason, count FROM dropped ORDER BY kind, reason").fetchall()
    return tuple(Dropped(kind=kind, reason=reason, count=count) for kind, reason, count in rows)


def _commonest_reasons(connection: sqlite3.Connection) -> tuple[tuple[str, int], ...]:
    rows = connection.execute(
        "SELECT reason, count(*) FROM quarantine GROUP BY reason ORDER BY count(*) DESC, reason LIMIT ?",
        (REASONS_SHOWN,),
    )
    return tuple(rows.fetchall())
