"""The results in the spool's SQLite file: a queue, oldest first, from which numbered batches are formed.

Functions on the connection, called by `probes.site.spool.spool` within its transactions. A row of the table `result`
waits while its `batch` is null; its body is a `Delivered` as JSON.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Collection, Iterable, Iterator
from typing import Any

import msgspec

from probes.site.spool.ledger import Cycle
from probes.site.wire import Delivered


class _Kind(msgspec.Struct):
    kind: str


class ResultHeader(msgspec.Struct):
    """The part of a stored result that names its kind, its test and its cycle."""

    test: str
    result: _Kind
    every_s: int | None = None
    cycle: int | None = None

    @property
    def kind(self) -> str:
        return self.result.kind

    @property
    def of_cycle(self) -> Cycle | None:
        if self.every_s is None or self.cycle is None:
            return None
        return Cycle(self.test, self.every_s, self.cycle)


class UncheckedResult(Delivered, frozen=True, kw_only=True):
    """A stored result that does not decode here; the centre stores it, or refuses it with the reason."""

    result: Any


def decode(body: bytes) -> Delivered:
    """A stored result, or an `UncheckedResult`. Raises `msgspec.DecodeError`."""
    try:
        return msgspec.json.decode(body, type=Delivered)
    except msgspec.ValidationError as error:
        unchecked = msgspec.json.decode(body, type=UncheckedResult)
        try:
            msgspec.msgpack.encode(unchecked)  # which has no integers of more than 64 bits
        except OverflowError:
            raise error from None
        return unchecked


def read_header(body: bytes) -> ResultHeader:
    """The header of a stored result; kind `unreadable` if it cannot be parsed."""
    try:
        return msgspec.json.decode(body, type=ResultHeader)
    except msgspec.DecodeError:
        return ResultHeader(test="", result=_Kind(kind="unreadable"))


def kind_of(result: Delivered) -> str:
    result_type: Any = type(result.result)
    return str(result_type.__struct_config__.tag)


def insert(connection: sqlite3.Connection, bodies: Iterable[bytes], spooled_s: float) -> None:
    """Append results. `spooled_s` is seconds since the epoch, by the centre's clock."""
    connection.executemany("INSERT INTO result (body, spooled_s) VALUES (?, ?)", [(body, spooled_s) for body in bodies])


def delete(connection: sqlite3.Connection, sequence: int) -> None:
    connection.execute("DELETE FROM result WHERE sequence = ?", (sequence,))


def read_body(connection: sqlite3.Connection, sequence: int) -> bytes | None:
    row = connection.execute("SELECT body FROM result WHERE sequence = ?", (sequence,)).fetchone()
    return None if row is None else row[0]


def oldest_waiting(connection: sqlite3.Connection) -> Iterator[tuple[int, bytes, float | None]]:
    """Sequence, body and `spooled_s` of the results that wait, oldest first; rows may be deleted meanwhile."""
    last = 0
    while rows := connection.execute(
        "SELECT sequence, body, spooled_s FROM result WHERE batch IS NULL AND sequence > ? ORDER BY sequence LIMIT 100",
        (last,),
    ).fetchall():
        yield from rows
        last = rows[-1][0]


def count(connection: sqlite3.Connection) -> int:
    """Results in the spool, those of an unacknowledged batch included."""
    number: int = connection.execute("SELECT count(*) FROM result").fetchone()[0]
    return number


def count_waiting(connection: sqlite3.Connection) -> int:
    number: int = connection.execute("SELECT count(*) FROM result WHERE batch IS NULL").fetchone()[0]
    return number


def count_bytes(connection: sqlite3.Connection) -> int:
    number: int = connection.execute("SELECT coalesce(sum(length(body)), 0) FROM result").fetchone()[0]
    return number


def fill_batch(
    connection: sqlite3.Connection,
    number: int,
    max_results: int,
    max_bytes: int,
    *,
    only: int | None,
    without: Collection[int],
) -> None:
    """Give the oldest results that wait the batch number, up to the limits; a single result always fits.

    With `only`, that result alone; those in `without` stay waiting.
    """
    waiting = _waiting(only, without)
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


def _waiting(only: int | None, without: Collection[int]) -> str:
    """The SQL condition for the results that a new batch may contain."""
    condition = "batch IS NULL"
    if only is not None:
        condition += f" AND sequence = {only:d}"
    if without:
        condition += f" AND sequence NOT IN ({', '.join(f'{sequence:d}' for sequence in without)})"
    return condition


def bodies_of_batch(connection: sqlite3.Connection, number: int) -> list[tuple[int, bytes]]:
    """Sequence and body of each result of a batch, in order."""
    return connection.execute(
        "SELECT sequence, body FROM result WHERE batch = ? ORDER BY sequence", (number,)
    ).fetchall()


def sequences_of_batch(connection: sqlite3.Connection, number: int) -> list[int]:
    rows = connection.execute("SELECT sequence FROM result WHERE batch = ? ORDER BY sequence", (number,))
    return [sequence for (sequence,) in rows]


def delete_batch(connection: sqlite3.Connection, number: int) -> int:
    """Delete the results of a batch; the bytes that they took."""
    (length,) = connection.execute(
        "SELECT coalesce(sum(length(body)), 0) FROM result WHERE batch = ?", (number,)
    ).fetchone()
    connection.execute("DELETE FROM result WHERE batch = ?", (number,))
    return int(length)


def release(connection: sqlite3.Connection, sequences: Iterable[int]) -> None:
    """Take these results out of their batch: they wait again."""
    connection.executemany("UPDATE result SET batch = NULL WHERE sequence = ?", [(number,) for number in sequences])


def release_batch(connection: sqlite3.Connection, number: int) -> None:
    """Take all results of a batch out of it: they wait again."""
    connection.execute("UPDATE result SET batch = NULL WHERE batch = ?", (number,))
