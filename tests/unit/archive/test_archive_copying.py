"""Bursts as rows of binary COPY, compared with psycopg's own dumpers for the same values."""

import struct
from datetime import UTC, datetime
from ipaddress import ip_address

import msgspec
from hypothesis import given
from hypothesis import strategies as st
from psycopg.adapt import PyFormat, Transformer
from psycopg.postgres import types
from psycopg.pq import Format
from psycopg.types.json import Jsonb

from monitor.archive.ingest.binary_copy import COLUMNS, concatenate_rows, pack
from monitor.archive.models import Burst as BurstRow
from probes.contract import Outcome
from probes.free_text import cleaned
from probes.packets.spec import Burst, IcmpError
from probes.site.wire import Delivered

TYPES = {
    **dict.fromkeys(("path_id", "packet_bytes", "path_mtu_bytes", "flow"), "int4"),
    **dict.fromkeys(("sent", "received", "duplicates", "reordered", "late", "ttl", "ttl_changes"), "int2"),
    **dict.fromkeys(("stamps_lost", "waited"), "int2"),
    **dict.fromkeys(("outcome", "stamp", "clock_source", "detail"), "text"),
    **dict.fromkeys(("during_test", "rate_limited"), "bool"),
    "measured_at": "timestamptz",
    **dict.fromkeys(("address", "source_address"), "inet"),
    "errors": "jsonb",
    "rtts_ms": "float4",
    "loaded_rtts_ms": "float4",
}

ARRAYS = ("rtts_ms", "loaded_rtts_ms")
small = st.integers(0, 2**15 - 1)
texts = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]))
round_trips = st.lists(st.one_of(st.none(), st.floats(0.0, 60_000.0)), max_size=20).map(tuple)
errors = st.builds(
    IcmpError,
    name=texts,
    icmp_type=st.integers(0, 255),
    icmp_code=st.integers(0, 255),
    router=st.ip_addresses().map(str),
    count=small,
)


@st.composite
def bursts(draw):
    rtts_ms = draw(round_trips)
    return Burst(
        target="cern",
        address=draw(st.one_of(st.none(), st.ip_addresses().map(str))),
        source_address=draw(st.one_of(st.none(), st.ip_addresses().map(str))),
        family=4,
        packet_bytes=draw(st.integers(0, 65_527)),
        started_at=draw(st.datetimes(datetime(2000, 1, 1), datetime(2200, 1, 1), timezones=st.just(UTC))),  # noqa: DTZ001
        outcome=draw(st.sampled_from(Outcome)),
        sent=len(rtts_ms),
        received=len(rtts_ms) - rtts_ms.count(None),
        rtts_ms=rtts_ms,
        late=draw(small),
        duplicates=draw(small),
        reordered=draw(small),
        ttl=draw(st.one_of(st.none(), st.integers(0, 255))),
        ttl_changes=draw(small),
        stamp=draw(st.sampled_from([None, "kernel", "user"])),
        stamps_lost=draw(small),
        clock_source=draw(st.one_of(st.none(), texts)),
        waited=draw(small),
        errors=tuple(draw(st.lists(errors, max_size=2))),
        path_mtu_bytes=draw(st.one_of(st.none(), st.integers(1, 2**31 - 1))),
        rate_limited=draw(st.sampled_from([None, True, False])),
        flow=draw(st.one_of(st.none(), st.integers(1, 2**16 - 2))),
        loaded_rtts_ms=draw(st.one_of(st.none(), round_trips)),
        detail=draw(st.one_of(st.none(), texts)),
    )


delivered = st.builds(
    Delivered,
    sequence=st.integers(0, 2**40),
    path_id=st.integers(1, 2**31 - 1),
    test=st.just("pinger"),
    result=bursts(),
    during_test=st.booleans(),
)


def value_of(result: Delivered, column: str):
    burst = result.result
    if column in ("path_id", "during_test"):
        return getattr(result, column)
    if column == "measured_at":
        return burst.started_at
    if column == "outcome":
        return burst.outcome.value
    if column in ARRAYS:
        rtts_ms = getattr(burst, column)
        return None if rtts_ms is None else list(rtts_ms)
    if column == "errors":
        return Jsonb(msgspec.to_builtins(burst.errors)) if burst.errors else None
    if column in ("address", "source_address"):
        text = getattr(burst, column)
        return None if text is None else ip_address(text)
    value = getattr(burst, column)
    return cleaned(value) if isinstance(value, str) else value


def by_psycopg(result: Delivered, column: str) -> bytes | None:
    oid = types[TYPES[column]].array_oid if column in ARRAYS else types[TYPES[column]].oid
    transformer = Transformer()
    transformer.set_dumper_types([oid], Format.BINARY)
    (dumped,) = transformer.dump_sequence([value_of(result, column)], [PyFormat.BINARY])
    return None if dumped is None else bytes(dumped)


def fields(row: bytes) -> dict[str, bytes | None]:
    """The columns of a row of binary COPY."""
    (count,) = struct.unpack_from("!h", row)
    assert count == len(COLUMNS)
    columns, at = {}, 2
    for column in COLUMNS:
        (length,) = struct.unpack_from("!i", row, at)
        at += 4
        columns[column] = None if length < 0 else row[at : at + length]
        at += max(0, length)
    assert at == len(row)
    return columns


def comparable(column: str, value: bytes | None):
    """As bytes, except for JSON, which has more than one encoding."""
    return (value[:1], msgspec.json.decode(value[1:])) if column == "errors" and value is not None else value


@given(st.lists(delivered, min_size=1, max_size=5))
def test_each_column_of_a_row_equals_psycopgs_encoding(results):
    rows = pack(results)

    for result, packed in zip(results, rows.packed, strict=True):
        columns = fields(packed)
        assert {column: comparable(column, value) for column, value in columns.items()} == {
            column: comparable(column, by_psycopg(result, column)) for column in COLUMNS
        }


@given(st.lists(delivered, max_size=6), st.integers(0, 6))
def test_rows_keep_their_keys_when_packed_in_any_portions(results, cut):
    rows = concatenate_rows([pack(results[:cut]), pack(results[cut:])])

    keys = zip(rows.path_id, rows.packet_bytes, rows.sequence, rows.packed, strict=True)
    assert [tuple(key) for key in keys] == [
        (result.path_id, result.result.packet_bytes, result.sequence, pack([result]).packed[0]) for result in results
    ]


@given(st.lists(delivered, max_size=6))
def test_rows_are_sorted_by_their_key(results):
    rows = pack(results).by_key()

    expected = sorted(
        results, key=lambda result: (result.path_id, result.result.started_at, result.result.packet_bytes)
    )
    assert rows.packed == [pack([result]).packed[0] for result in expected]


def test_every_column_of_the_table_is_copied():
    assert sorted(COLUMNS) == sorted(field.column for field in BurstRow._meta.concrete_fields)
