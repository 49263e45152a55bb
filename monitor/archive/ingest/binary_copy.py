"""Encode bursts in PostgreSQL's binary COPY format and copy them.

https://www.postgresql.org/docs/current/sql-copy.html, "Binary Format"; types as their `recv` functions in PostgreSQL's
sources read them.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from ipaddress import ip_address
from itertools import chain, repeat
from operator import attrgetter
from typing import Any

import msgspec
import numpy as np
from django.db import connection
from django.db.models import BooleanField, Field, GenericIPAddressField, IntegerField, SmallIntegerField, TextField
from numpy.typing import NDArray

from monitor.archive.models import Burst as BurstRow
from probes.contract import Outcome
from probes.free_text import cleaned
from probes.packets import columns as burst_columns
from probes.packets.columns import LOST_NS, NONE, NS_PER_MS, STAMPS, BurstArrays
from probes.packets.spec import Burst, IcmpError
from probes.site.wire import Delivered

EPOCH = datetime(2000, 1, 1, tzinfo=UTC)
MICROSECOND = timedelta(microseconds=1)
EPOCH_US = (EPOCH - burst_columns.EPOCH) // MICROSECOND
# First columns of a row: fixed width, never null; `measured_us` is the column `measured_at`.
HEAD = {"path_id": ">i4", "measured_us": ">i8", "packet_bytes": ">i4", "sent": ">i2", "received": ">i2"}
FIRST = ("path_id", "measured_at", "packet_bytes", "sent", "received", "during_test")
# Columns with an encoding of their own; all others, `COMMON`, come between.
LAST = ("detail", "errors", "loaded_rtts_ms", "rtts_ms")
BEGIN = b"PGCOPY\n\xff\r\n\0" + struct.pack("!ii", 0, 0)
END = struct.pack("!h", -1)
NULL = struct.pack("!i", -1)
REAL_OID = 700
ELEMENT = struct.Struct("!if")
INET_FAMILY = {4: 2, 6: 3}
JSONB_VERSION = "\1"
ROWS_AT_ONCE = 1000

Integers = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Rows:
    """Encoded bursts with their keys and sequence numbers."""

    path_id: Integers
    measured_us: Integers
    packet_bytes: Integers
    sequence: Integers
    packed: list[bytes]

    def __len__(self) -> int:
        return len(self.packed)

    def take(self, places: Integers) -> Rows:
        """Select rows at these positions, in this order."""
        return Rows(
            self.path_id[places],
            self.measured_us[places],
            self.packet_bytes[places],
            self.sequence[places],
            [self.packed[place] for place in places.tolist()],
        )

    def by_key(self) -> Rows:
        """Sort rows by the table's key."""
        return self.take(np.lexsort((self.packet_bytes, self.measured_us, self.path_id)))

    def without(self, sequences: Iterable[int]) -> Rows:
        """Drop the rows with these sequence numbers."""
        return self.take(np.flatnonzero(~np.isin(self.sequence, list(sequences))))


def concatenate_rows(parts: Sequence[Rows]) -> Rows:
    nothing = np.empty(0, np.int64)
    return Rows(
        np.concatenate([nothing, *(part.path_id for part in parts)]),
        np.concatenate([nothing, *(part.measured_us for part in parts)]),
        np.concatenate([nothing, *(part.packet_bytes for part in parts)]),
        np.concatenate([nothing, *(part.sequence for part in parts)]),
        [packed for part in parts for packed in part.packed],
    )


def microseconds(at: datetime) -> int:
    """Microseconds since PostgreSQL's epoch, 2000-01-01."""
    return (at - EPOCH) // MICROSECOND


def pack(results: Sequence[Delivered]) -> Rows:
    """Encode results, all valid bursts, as rows in order."""
    # Numbers are packed by NumPy, since psycopg calls a dumper for each value and each array element.
    bursts: list[Burst] = [delivered.result for delivered in results]  # type: ignore[misc]
    columns = {
        "path_id": np.array([delivered.path_id for delivered in results], np.int64),
        "measured_us": np.array([(burst.started_at - EPOCH) // MICROSECOND for burst in bursts], np.int64),
        "packet_bytes": np.array([burst.packet_bytes for burst in bursts], np.int64),
        "sent": np.array([burst.sent for burst in bursts], np.int64),
        "received": np.array([burst.received for burst in bursts], np.int64),
    }
    middles = [
        (DURING_TEST if delivered.during_test else NOT_DURING_TEST) + _common(*common_of(burst)) + _rare(burst)
        for delivered, burst in zip(results, bursts, strict=True)
    ]
    parts = zip(_heads(columns), middles, round_trips(bursts), strict=True)
    return Rows(
        columns["path_id"],
        columns["measured_us"],
        columns["packet_bytes"],
        np.array([delivered.sequence for delivered in results], np.int64),
        [head + middle + rtts for head, middle, rtts in parts],
    )


def pack_columns(columns: BurstArrays, places: Integers, first_sequence: int) -> Rows:
    """Encode valid bursts at these places as rows in order."""
    records = columns.records[places]
    keys = {name: records[name].astype(np.int64) for name in ("path_id", "packet_bytes", "sent", "received")}
    keys["measured_us"] = records["started_us"] - EPOCH_US
    heads = _heads(keys)
    values: dict[str, Iterable[Any]] = {
        "outcome": repeat(Outcome.MEASURED),
        "clock_source": repeat(columns.clock_source),
        "path_mtu_bytes": repeat(None),
        "address": [columns.addresses[place] for place in places.tolist()],
        "source_address": [columns.source_addresses[place] for place in places.tolist()],
        "rate_limited": _mapped(records["rate_limited"], bool),
        "stamp": _mapped(records["stamp"], STAMPS.__getitem__),
        "ttl": _mapped(records["ttl"], int),
        "flow": _mapped(records["flow"], int),
    }
    counted = {name: records[name].tolist() for name in COMMON if name not in values}
    common = zip(heads, *((values | counted)[name] for name in COMMON), strict=False)
    packed = [head + NOT_DURING_TEST + _common(*rest) for head, *rest in common]
    details = [columns.details[place] for place in places.tolist()] if columns.details else [None] * len(places)
    rare = {text: _line(text) + _json(()) + NULL for text in set(details)}
    rtts = _round_trips_of(columns, places)
    return Rows(
        keys["path_id"],
        keys["measured_us"],
        keys["packet_bytes"],
        first_sequence + places,
        [begin + rare[text] + end for begin, text, end in zip(packed, details, rtts, strict=True)],
    )


def _mapped(numbers: NDArray[Any], convert: Callable[[int], Any]) -> list[Any]:
    return [None if number == NONE else convert(number) for number in numbers.tolist()]


def _round_trips_of(columns: BurstArrays, places: Integers) -> list[bytes]:
    ends = np.cumsum(columns.records["sent"])[places]
    sent, received = columns.records["sent"][places], columns.records["received"][places]
    rtts_ms = columns.rtts_ns / NS_PER_MS
    packed: list[bytes] = [b""] * len(places)
    for length in np.unique(sent).tolist():
        complete = np.flatnonzero((sent == length) & (received == length))
        arrays = _complete(rtts_ms[ends[complete, np.newaxis] - length + np.arange(length)])
        for row, array in zip(complete.tolist(), arrays, strict=True):
            packed[row] = array
    for row in np.flatnonzero(received < sent).tolist():
        own = columns.rtts_ns[ends[row] - sent[row] : ends[row]].tolist()
        packed[row] = _array(tuple(None if rtt_ns == LOST_NS else rtt_ns / NS_PER_MS for rtt_ns in own))
    return packed


def _heads(columns: dict[str, Integers]) -> list[bytes]:
    """Column count, then HEAD columns with their lengths."""
    fields = [("columns", ">i2")]
    for name, form in HEAD.items():
        fields += [(f"length of {name}", ">i4"), (name, form)]
    heads = np.empty(len(columns["path_id"]), dtype=fields)
    heads["columns"] = len(COLUMNS)
    for name, form in HEAD.items():
        heads[f"length of {name}"] = np.dtype(form).itemsize
        heads[name] = columns[name]
    return _sliced(heads)


def _sliced(block: NDArray[Any]) -> list[bytes]:
    data, size = block.tobytes(), block.itemsize
    return [data[first : first + size] for first in range(0, len(data), size)]


@lru_cache(maxsize=16_384)
def _common(*values: Any) -> bytes:
    """Encode columns nearly constant for a path."""
    return b"".join(encode(value) for encode, value in zip(COMMON.values(), values, strict=True))


def _value(form: str) -> Callable[[int | None], bytes]:
    """Return a packer of length and number in this `struct` format."""
    packer = struct.Struct("!i" + form)
    return lambda value: NULL if value is None else packer.pack(packer.size - 4, value)


def _text(text: str | None) -> bytes:
    if text is None:
        return NULL
    encoded = text.encode()
    return struct.pack("!i", len(encoded)) + encoded


def _line(text: str | None) -> bytes:
    return NULL if text is None else _text(cleaned(text))


def _inet(text: str | None) -> bytes:
    if text is None:
        return NULL
    address = ip_address(text)
    packed = address.packed
    return (
        struct.pack("!iBBBB", 4 + len(packed), INET_FAMILY[address.version], 8 * len(packed), 0, len(packed)) + packed
    )


def _json(errors: tuple[IcmpError, ...]) -> bytes:
    return _text(JSONB_VERSION + msgspec.json.encode(errors).decode()) if errors else NULL


def _rare(burst: Burst) -> bytes:
    """Encode columns that are empty in most bursts."""
    if burst.detail is None and burst.loaded_rtts_ms is None and not burst.errors:
        return NOTHING_RARE
    loaded = NULL if burst.loaded_rtts_ms is None else _array(burst.loaded_rtts_ms)
    return _line(burst.detail) + _json(burst.errors) + loaded


ENCODERS: dict[type[Field[Any, Any]], Callable[[Any], bytes]] = {
    SmallIntegerField: _value("h"),
    IntegerField: _value("i"),
    BooleanField: _value("?"),
    TextField: _line,
    GenericIPAddressField: _inet,
}
COMMON = {
    column.name: ENCODERS[type(column)]
    for column in BurstRow._meta.concrete_fields
    if column.name not in (*FIRST, *LAST)
}
"""Columns that have the name of a field of `probes.packets.spec.Burst`, with their encoders."""
COLUMNS = (*FIRST, *COMMON, *LAST)
common_of: Callable[[Burst], tuple[Any, ...]] = attrgetter(*COMMON)
DURING_TEST, NOT_DURING_TEST = ENCODERS[BooleanField](True), ENCODERS[BooleanField](False)
NOTHING_RARE = _line(None) + _json(()) + NULL


def round_trips(bursts: Sequence[Burst]) -> list[bytes]:
    """Encode the RTTs of each burst as `real[]`."""
    packed: list[bytes] = [b""] * len(bursts)
    complete: dict[int, list[int]] = {}
    for place, burst in enumerate(bursts):
        if burst.received == burst.sent > 0:
            complete.setdefault(burst.sent, []).append(place)
        else:
            packed[place] = _array(burst.rtts_ms)
    for length, places in complete.items():
        rtts_ms = np.fromiter(chain.from_iterable(bursts[place].rtts_ms for place in places), np.float64)
        arrays = _complete(rtts_ms.reshape(-1, length))
        for place, array in zip(places, arrays, strict=True):
            packed[place] = array
    return packed


def _array(rtts_ms: tuple[float | None, ...]) -> bytes:
    """Encode RTTs with None for lost packets."""
    elements = b"".join([NULL if rtt_ms is None else ELEMENT.pack(4, rtt_ms) for rtt_ms in rtts_ms])
    return _array_head(len(rtts_ms), len(elements), has_nulls=None in rtts_ms) + elements


def _complete(rtts_ms: NDArray[np.float64]) -> list[bytes]:
    length = rtts_ms.shape[1]
    head = _array_head(length, 8 * length, has_nulls=False)
    element = np.dtype([("length", ">i4"), ("rtt_ms", ">f4")])
    arrays = np.empty(len(rtts_ms), dtype=[("head", f"V{len(head)}"), ("elements", element, (length,))])
    arrays["head"] = np.void(head)
    arrays["elements"]["length"] = 4
    arrays["elements"]["rtt_ms"] = rtts_ms
    return _sliced(arrays)


def _array_head(length: int, elements_bytes: int, *, has_nulls: bool) -> bytes:
    """Head of an array value; an empty array has no dimension."""
    if length == 0:
        return struct.pack("!iiiI", 12, 0, 0, REAL_OID)
    return struct.pack("!iiiIii", 20 + elements_bytes, 1, has_nulls, REAL_OID, length, 1)


def copy_into(table: str, rows: Rows) -> None:
    """COPY rows into a table with `burst`'s columns."""
    statement = f"COPY {table} ({', '.join(COLUMNS)}) FROM STDIN (FORMAT BINARY)"
    with connection.cursor() as cursor, connection.wrap_database_errors, cursor.copy(statement) as copy:
        copy.write(BEGIN)
        for first in range(0, len(rows), ROWS_AT_ONCE):
            copy.write(b"".join(rows.packed[first : first + ROWS_AT_ONCE]))
        copy.write(END)
