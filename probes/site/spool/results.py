"""The queue of results in the spool's SQLite file, in numbered batches, oldest first.

Call within the spool's transactions. A block has the sequence of its last result; a null `batch` waits.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Collection, Iterable, Iterator
from typing import Any

import msgspec

from probes.site.spool.blocks import BURST_KIND, results_of
from probes.site.spool.ledger import Cycle
from probes.site.wire import BurstBlock, Delivered, ToDeliver

COUNT = "coalesce(sum(coalesce(block, 1)), 0)"


class _Kind(msgspec.Struct):
    kind: str


class ResultHeader(msgspec.Struct):
    """Kind, test and cycle of a stored result."""

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


class BlockHeader(msgspec.Struct):
    """As `ResultHeader`, of a block."""

    test: str
    every_s: int | None = None
    cycle: int | None = None


class UncheckedResult(Delivered, frozen=True, kw_only=True):
    """A stored result that does not decode here; the centre stores or refuses it."""

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


def encode(message: ToDeliver) -> tuple[bytes, int | None]:
    """The body of a row, and its number of results if a block."""
    if isinstance(message, BurstBlock):
        return msgspec.msgpack.encode(message), len(message)
    return msgspec.json.encode(message), None


def decode_block(body: bytes, last: int, count: int) -> BurstBlock:
    """A stored block, with the sequence of its first result. Raises `msgspec.DecodeError`."""
    block = msgspec.msgpack.decode(body, type=BurstBlock)
    return msgspec.structs.replace(block, first=last - count + 1)


def read_header(body: bytes, block: int | None = None) -> ResultHeader:
    """The header of a stored result or block; kind `unreadable` if it cannot be parsed."""
    try:
        if block is None:
            return msgspec.json.decode(body, type=ResultHeader)
        header = msgspec.msgpack.decode(body, type=BlockHeader)
        return ResultHeader(test=header.test, result=_Kind(kind=BURST_KIND), every_s=header.every_s, cycle=header.cycle)
    except msgspec.DecodeError:
        return ResultHeader(test="", result=_Kind(kind="unreadable"))


def kinds_of(message: ToDeliver) -> list[str]:
    if isinstance(message, BurstBlock):
        return [BURST_KIND] * len(message)
    result_type: Any = type(message.result)
    return [str(result_type.__struct_config__.tag)]


def insert(connection: sqlite3.Connection, bodies: Iterable[tuple[bytes, int | None]], spooled_s: float) -> None:
    """Append bodies from `encode`; `spooled_s` is epoch seconds by the centre's clock."""
    newest = connection.execute("SELECT seq FROM sqlite_sequence WHERE name = 'result'").fetchone()
    last = 0 if newest is None else newest[0]
    rows = []
    for body, block in bodies:
        last += block or 1
        rows.append((last, body, spooled_s, block))
    connection.executemany("INSERT INTO result (sequence, body, spooled_s, block) VALUES (?, ?, ?, ?)", rows)


def tell_apart(connection: sqlite3.Connection, last: int) -> int:
    """Replace a block by a row for each result; returns the additional bytes.

    Raises `msgspec.DecodeError` or `ValueError` for an unreadable block.
    """
    batch, body, spooled_s, count = connection.execute(
        "SELECT batch, body, spooled_s, block FROM result WHERE sequence = ?", (last,)
    ).fetchone()
    rows = [
        (result.sequence, batch, msgspec.json.encode(msgspec.structs.replace(result, sequence=0)), spooled_s)
        for result in results_of(decode_block(body, last, count))
    ]
    delete(connection, last)
    connection.executemany("INSERT INTO result (sequence, batch, body, spooled_s) VALUES (?, ?, ?, ?)", rows)
    return sum(len(row[2]) for row in rows) - len(body)


def block_with(connection: sqlite3.Connection, sequence: int) -> int | None:
    """The sequence of the block around a result, or None."""
    row = connection.execute(
        "SELECT sequence, block FROM result WHERE sequence >= ? ORDER BY sequence LIMIT 1", (sequence,)
    ).fetchone()
    return row[0] if row is not None and row[1] is not None and sequence > row[0] - row[1] else None


def oldest_waiting_block(
    connection: sqlite3.Connection, max_results: int, *, only: int | None, without: Collection[int]
) -> int | None:
    """The oldest waiting block, if larger than the next batch may be."""
    row = connection.execute(
        f"SELECT sequence, block FROM result WHERE {_waiting(only, without)} ORDER BY sequence LIMIT 1"
    ).fetchone()
    return None if row is None or (row[1] or 1) <= max_results else row[0]


def delete(connection: sqlite3.Connection, sequence: int) -> None:
    connection.execute("DELETE FROM result WHERE sequence = ?", (sequence,))


def read_body(connection: sqlite3.Connection, sequence: int) -> tuple[bytes, int | None] | None:
    """The body of a row, and its size if a block."""
    row: tuple[bytes, int | None] | None = connection.execute(
        "SELECT body, block FROM result WHERE sequence = ?", (sequence,)
    ).fetchone()
    return row


def oldest_waiting(connection: sqlite3.Connection) -> Iterator[tuple[int, bytes, float | None, int | None]]:
    """Sequence, body, `spooled_s` and size of waiting rows, oldest first."""
    last = 0
    while rows := connection.execute(
        "SELECT sequence, body, spooled_s, block FROM result WHERE batch IS NULL AND sequence > ?"
        " ORDER BY sequence LIMIT 100",
        (last,),
    ).fetchall():
        yield from rows
        last = rows[-1][0]


def count(connection: sqlite3.Connection) -> int:
    number: int = connection.execute(f"SELECT {COUNT} FROM result").fetchone()[0]
    return number


def count_waiting(connection: sqlite3.Connection) -> int:
    number: int = connection.execute(f"SELECT {COUNT} FROM result WHERE batch IS NULL").fetchone()[0]
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
    """Number the oldest waiting results up to the limits; a single result always fits."""
    waiting = _waiting(only, without)
    rows = connection.execute(
        f"SELECT sequence, length(body), coalesce(block, 1) FROM result WHERE {waiting} ORDER BY sequence LIMIT ?",
        (max_results,),
    )
    last, room_bytes, room = None, max_bytes, max_results
    for sequence, length, count_of_row in rows.fetchall():
        room_bytes -= length
        room -= count_of_row
        if min(room_bytes, room) < 0 and last is not None:
            break
        last = sequence
    connection.execute(f"UPDATE result SET batch = ? WHERE {waiting} AND sequence <= ?", (number, last))


def _waiting(only: int | None, without: Collection[int]) -> str:
    condition = "batch IS NULL"
    if only is not None:
        condition += f" AND sequence = {only:d}"
    if without:
        condition += f" AND sequence NOT IN ({', '.join(f'{sequence:d}' for sequence in without)})"
    return condition


def bodies_of_batch(connection: sqlite3.Connection, number: int) -> list[tuple[int, bytes, int | None]]:
    """Sequence, body and size of each row of a batch, in order."""
    return connection.execute(
        "SELECT sequence, body, block FROM result WHERE batch = ? ORDER BY sequence", (number,)
    ).fetchall()


def sizes_in_batch(connection: sqlite3.Connection, number: int) -> list[tuple[int, int]]:
    """Sequence of each row of a batch, and its number of results."""
    return connection.execute(
        "SELECT sequence, coalesce(block, 1) FROM result WHERE batch = ? ORDER BY sequence", (number,)
    ).fetchall()


def delete_batch(connection: sqlite3.Connection, number: int) -> int:
    """Delete the results of a batch; returns their bytes."""
    (length,) = connection.execute(
        "SELECT coalesce(sum(length(body)), 0) FROM result WHERE batch = ?", (number,)
    ).fetchone()
    connection.execute("DELETE FROM result WHERE batch = ?", (number,))
    return int(length)


def release(connection: sqlite3.Connection, sequences: Iterable[int]) -> None:
    connection.executemany("UPDATE result SET batch = NULL WHERE sequence = ?", [(number,) for number in sequences])


def release_batch(connection: sqlite3.Connection, number: int) -> None:
    connection.execute("UPDATE result SET batch = NULL WHERE batch = ?", (number,))
