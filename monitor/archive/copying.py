"""Bursts into PostgreSQL by binary COPY: the rows that ingest stages, and how round trips become `real[]`.

In: accepted results. Out: rows in the temporary table `staged_burst` of this transaction. psycopg's own dumper for
arrays goes through Python once for each element; packing a whole array at once takes a fifth of its time.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from functools import cache
from typing import Any

import msgspec
from django.db import connection
from psycopg.adapt import Dumper
from psycopg.pq import Format

from monitor.archive.statements import statement
from probes.ping.spec import Burst
from probes.site.wire import Delivered

REAL_OID = 700
REAL_ARRAY_OID = 1021
NULL = struct.pack("!i", -1)
COLUMN_TYPES = (
    *("int4", "timestamptz", "int4", "text"),
    *["int2"] * 7,
    *("bool", "bool", "text", "int2", "text", "int2", "text", "int4", "text", "text", "float4[]"),
)


class RoundTripsDumper(Dumper):
    """A tuple of round trips in PostgreSQL's binary form of `real[]`: dimensions, whether there are nulls, type of
    the elements, length, first index; then each element after its length in bytes, -1 for a null."""

    format = Format.BINARY
    oid = REAL_ARRAY_OID

    def dump(self, obj: tuple[float | None, ...]) -> bytes:
        if not obj:
            return struct.pack("!iiI", 0, 0, REAL_OID)
        if None not in obj:
            parts: list[Any] = [4] * (2 * len(obj))
            parts[1::2] = obj
            return _whole(len(obj)).pack(1, 0, REAL_OID, len(obj), 1, *parts)
        elements = (NULL if rtt_ms is None else struct.pack("!if", 4, rtt_ms) for rtt_ms in obj)
        return struct.pack("!iiIii", 1, 1, REAL_OID, len(obj), 1) + b"".join(elements)


@cache
def _whole(length: int) -> struct.Struct:
    """The binary form of an array of this length without nulls."""
    return struct.Struct("!iiIii" + "if" * length)


def stage_bursts(bursts: Iterable[Delivered]) -> None:
    """Copy these results, which must all be bursts, into the empty staging table."""
    with connection.cursor() as cursor, connection.wrap_database_errors:
        cursor.execute(statement("staged_burst"))
        cursor.adapters.register_dumper(None, RoundTripsDumper)
        with cursor.copy("COPY staged_burst FROM STDIN (FORMAT BINARY)") as copy:
            copy.set_types(COLUMN_TYPES)
            for delivered in bursts:
                copy.write_row(row(delivered))


def row(delivered: Delivered) -> tuple[Any, ...]:
    burst = delivered.result
    assert isinstance(burst, Burst)
    return (
        delivered.path_id,
        burst.started_at,
        burst.packet_bytes,
        burst.outcome.value,
        burst.sent,
        burst.received,
        burst.duplicates,
        burst.reordered,
        burst.late,
        burst.ttl,
        burst.ttl_changes,
        delivered.during_test,
        burst.rate_limited,
        burst.stamp,
        burst.stamps_lost,
        burst.clock_source,
        burst.waited,
        msgspec.json.encode(burst.errors).decode() if burst.errors else None,
        burst.path_mtu_bytes,
        burst.address,
        burst.detail,
        burst.rtts_ms,
    )
