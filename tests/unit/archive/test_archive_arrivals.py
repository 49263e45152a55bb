"""Parsing of an arriving batch: each result separately, and with bounded memory for any input."""

import json
import re
import tracemalloc
from datetime import UTC, datetime

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import inspect

from monitor.archive.ingest.arrivals import (
    BYTES_AT_ONCE,
    JSON,
    LARGEST_BATCH,
    LARGEST_RESULT_BYTES,
    MESSAGE_PACK,
    BatchRejected,
    BatchTooLarge,
    read,
)
from probes.kinds import KINDS
from probes.packets.spec import IcmpError
from probes.site.spool.spool import Spool
from probes.site.wire import Delivered
from probes.transfers.spec import CpuUse, KernelCounts, ReceivedIntervals, SentIntervals, Transfer, UdpCounts
from tests.db.mesh_of_three import batch, burst, delivered
from tests.facts import lacks

SENT_AT = "2026-03-14T12:30:00Z"
MEGABYTE = 2**20
WRITERS = {"json": (msgspec.json.encode, JSON), "msgpack": (msgspec.msgpack.encode, MESSAGE_PACK)}


def envelope(results: str) -> bytes:
    return f'{{"spool":"a","number":7,"agent_version":"1","sent_at":"{SENT_AT}","results":[{results}]}}'.encode()


def parsed(arrival):
    read_all = [arrival.read(places) for places in arrival.portions()]
    sound = {place: result for results, _ in read_all for place, result in results.items()}
    return sound, [refusal for _, unreadable in read_all for refusal in unreadable]


def peak_bytes(work) -> int:
    tracemalloc.start()
    try:
        work()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("written", WRITERS)
def test_a_batch_reads_the_same_from_either_format(written):
    encode, how = WRITERS[written]
    results = (delivered(3, burst(1.5, None), 41), delivered(4, burst(address=None), 42, during_test=True))

    arrival = read(encode(batch(*results, number=9)), how)

    sound, unreadable = parsed(arrival)
    assert (arrival.envelope.number, unreadable) == (9, [])
    assert [msgspec.to_builtins(result) for result in sound.values()] == [
        msgspec.to_builtins(result) for result in results
    ]


@given(
    st.lists(
        st.recursive(
            st.one_of(st.none(), st.booleans(), st.integers(-(2**63), 2**63), st.floats(), st.text()),
            lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=9), inner, max_size=3),
        ),
        max_size=5,
    ),
    st.integers(0, 5),
)
def test_the_other_results_are_parsed_beside_any_invalid_result(junk, place):
    good = msgspec.to_builtins(delivered(3, burst(1.0), 41))
    results = [*junk[:place], good, *junk[place:]]
    body = {"spool": "a", "number": 7, "agent_version": "1", "sent_at": datetime(2026, 3, 14, tzinfo=UTC)}

    arrival = read(msgspec.msgpack.encode({**body, "results": results}), MESSAGE_PACK)

    sound, unreadable = parsed(arrival)
    assert [result.sequence for result in sound.values()] == [41]
    assert [refusal.place for refusal in unreadable] == [n for n, refusal in enumerate(results) if refusal is not good]
    assert all(refusal.reason for refusal in unreadable)
    for refusal in unreadable:
        text = json.dumps(arrival.as_json(refusal.place), allow_nan=False)
        assert "\\u0000" not in text


@pytest.mark.parametrize(
    ("result", "facts"),
    [
        ('{"sequence":5,"path_id":"x"}', ["Expected `int`", "got `str`", "`$.path_id`"]),
        ('{"sequence":5}', ["missing", "`path_id`"]),
        ('{"sequence":5,"path_id":1e999}', ["out of range"]),
        ('{"sequence":5,"path_id":1,"test":"t","result":{"kind":"other"}}', ["Invalid value 'other'", " at "]),
    ],
)
def test_an_invalid_result_is_identified_by_its_sequence(result, facts):
    _, ((place, sequence, reason),) = parsed(read(envelope(result), JSON))

    assert place == 0
    # A result that is not valid JSON has no readable sequence.
    assert sequence in (5, -(7 * LARGEST_BATCH + 1))
    assert lacks(reason, *facts) == []


@pytest.mark.parametrize("result", ["7", "null", "{}", '{"sequence":-1}', '{"sequence":"x"}', '{"sequence":1e30}'])
def test_a_result_without_a_sequence_is_identified_by_its_place(result):
    _, unreadable = parsed(read(envelope(f"{result},{result}"), JSON))

    assert [refusal.sequence for refusal in unreadable] == [-70001, -70002]


def test_an_impossible_value_from_a_spool_is_refused_alone(tmp_path):
    spool = Spool(tmp_path / "spool.sqlite3")
    results = [burst(1.0), burst(1.0, ttl=256), burst(float("nan")), burst(1.0, None, late=2), burst(2.0)]
    spool.put([delivered(3, result, 0) for result in results])
    at = datetime(2026, 3, 14, tzinfo=UTC)
    sent = spool.next_batch(max_results=10, max_bytes=10**6, now=at, agent_version="1")

    sound, unreadable = parsed(read(msgspec.msgpack.encode(sent), MESSAGE_PACK))

    assert [result.result for result in sound.values()] == [results[0], results[4]]
    assert [refusal.sequence for refusal in unreadable] == [2, 3, 4]
    ttl, received, late = (refusal.reason for refusal in unreadable)
    assert lacks(ttl, "`int` <= 255 ", "`$.result.ttl`") == []
    assert lacks(received, "received 1,", " 0 RTTs", "`$.result`") == []
    assert lacks(late, "late 2 ", "more than", " 1 lost", "`$.result`") == []


LITERALS = ["NaN", "Infinity", "-Infinity"]


@pytest.mark.parametrize("literal", LITERALS)
def test_nan_or_infinity_invalidates_its_own_result_only(literal):
    bad, good, words = (
        msgspec.json.encode(delivered(3, result, n)).decode()
        for n, result in enumerate((burst(77.25), burst(1.0, None), burst(address=None, detail=f"said {literal}")), 41)
    )

    arrival = read(envelope(",".join([bad.replace("77.25", literal), good, words])), JSON)

    sound, unreadable = parsed(arrival)
    assert {place: result.sequence for place, result in sound.items()} == {1: 42, 2: 43}
    assert sound[1].result.rtts_ms == (1.0, None)
    assert sound[2].result.detail == f"said {literal}"
    [(place, sequence, reason)] = unreadable
    assert (place, sequence) == (0, 41)
    assert re.search(r"`float` (>= 0\.0|<= 60000\.0) ", reason)
    assert "`$.result.rtts_ms[0]`" in reason
    assert arrival.as_json(0)["result"]["rtts_ms"] == [None]


@pytest.mark.parametrize("literal", LITERALS)
def test_nan_or_infinity_as_batch_number_is_refused(literal):
    body = envelope("").replace(b'"number":7', b'"number":' + literal.encode())

    with pytest.raises(BatchRejected, match="not a batch: Expected `int`"):
        read(body, JSON)


def test_beside_nan_a_number_that_is_too_large_is_refused():
    _, unreadable = parsed(read(envelope('{"sequence":1,"path_id":NaN},{"sequence":2,"path_id":%s}' % (10**30)), JSON))

    assert [(refusal.sequence, "$.path_id" in refusal.reason) for refusal in unreadable] == [(1, True), (2, True)]


@pytest.mark.parametrize("body", [envelope("NaN")[:-1], envelope("NaN,"), envelope("nan"), envelope('"NaN')])
def test_other_invalid_json_beside_nan_is_refused(body):
    with pytest.raises(BatchRejected, match=r"not a batch: .*(malformed|truncated)"):
        read(body, JSON)


def test_very_many_nans_need_smaller_batches():
    with pytest.raises(BatchTooLarge, match=r"NaN or Infinity .*more than 250000 .*smaller batches"):
        read(envelope("NaN," * 250_001 + "0"), JSON)


def test_invalid_utf_8_invalidates_its_own_result_only():
    good = msgspec.json.encode(delivered(3, burst(1.0), 41)).decode()
    body = envelope(f'{{"sequence":1,"test":"@@"}},{good}').replace(b"@@", b"\xff\xfe")

    arrival = read(body, JSON)

    sound, unreadable = parsed(arrival)
    assert ([*sound], [refusal.place for refusal in unreadable]) == ([1], [0])
    assert "\ufffd" in arrival.as_json(0)


def test_deep_nesting_is_refused_without_a_crash():
    nested = "[" * 500 + "]" * 500
    _, unreadable = parsed(read(envelope(f'{{"sequence":1,"path_id":{nested}}}'), JSON))

    assert [refusal.sequence for refusal in unreadable] == [1]
    with pytest.raises(BatchRejected):
        read(envelope("[" * 100_000 + "]" * 100_000), JSON)


@pytest.mark.parametrize("written", WRITERS)
def test_a_batch_with_too_many_results_is_too_large(written):
    encode, how = WRITERS[written]
    results = [delivered(3, burst(), n) for n in range(LARGEST_BATCH)]
    assert len(read(encode(batch(*results)), how)) == LARGEST_BATCH

    with pytest.raises(BatchTooLarge, match=r"more than 10000 results.*smaller batches"):
        read(encode(batch(*results, results[0])), how)


def test_an_oversized_result_is_refused_unread():
    large = f'{{"sequence":1,"path_id":"{"x" * LARGEST_RESULT_BYTES}"}}'

    arrival = read(envelope(large), JSON)

    _, ((_, sequence, reason),) = parsed(arrival)
    assert (sequence, "1048576" in reason) == (1, True)
    assert len(arrival.as_json(0)) <= 10_000


def test_a_long_refused_result_is_truncated():
    long = json.dumps({"sequence": 1, "rtts_ms": [1.5] * 5000}).replace(" ", "")

    arrival = read(envelope(long), JSON)

    assert arrival.as_json(0) == long[:10_000]


@given(st.lists(st.integers(1, 3 * BYTES_AT_ONCE), max_size=8))
def test_portions_contain_every_place_once_and_are_bounded(sizes):
    results = ",".join('"' + "x" * (size - 2 if size > 2 else 0) + '"' for size in sizes)

    arrival = read(envelope(results), JSON)

    portions = list(arrival.portions())
    assert [place for places in portions for place in places] == list(range(len(sizes)))
    for places in portions:
        portion_bytes = sum(len(bytes(arrival.envelope.results[place])) for place in places)
        assert len(places) == 1 or portion_bytes <= BYTES_AT_ONCE


HOSTILE = {
    "json of many results": (envelope("0," * 10_000_000 + "0"), JSON),
    "json of large results": (envelope(",".join(['{"result":{"rtts_ms":[' + "0," * 400_000 + "0]}}"] * 2)), JSON),
    "json of many objects beside a NaN": (
        envelope('{"result":[NaN' + ',{"a":{}}' * 249_000 + "]}"),
        JSON,
    ),
    "msgpack of many results": (
        msgspec.msgpack.encode({"spool": "a", "number": 7, "agent_version": "1", "sent_at": SENT_AT, "results": ()})[
            :-1
        ]
        + b"\xdd\x01\x00\x00\x00"
        + b"\0" * 2**24,
        MESSAGE_PACK,
    ),
    "msgpack of large results": (
        msgspec.msgpack.encode(
            {**json.loads(envelope("")), "results": [{"result": {"rtts_ms": [0] * 1_000_000}}] * 16}
        ),
        MESSAGE_PACK,
    ),
}


@pytest.mark.parametrize("kind", HOSTILE)
def test_parsing_takes_bounded_memory_for_any_input(kind):
    body, how = HOSTILE[kind]

    def measure():
        try:
            arrival = read(body, how)
        except BatchTooLarge:
            return
        for places in arrival.portions():
            arrival.read(places)

    assert peak_bytes(measure) < 100 * MEGABYTE


DECODED = [Delivered, *(result for kind in KINDS.values() for result in kind.results)]
DECODED += [IcmpError, Transfer, SentIntervals, ReceivedIntervals, CpuUse, KernelCounts, UdpCounts]


@pytest.mark.parametrize("kind", DECODED)
def test_every_number_and_stored_text_of_a_result_has_bounds(kind):
    unbounded = []
    for field in inspect.type_info(kind).fields:
        for part in field.type.types if isinstance(field.type, inspect.UnionType) else [field.type]:
            is_number = isinstance(part, inspect.IntType | inspect.FloatType)
            if is_number and (part.ge is part.gt is None or part.le is None):
                unbounded.append(field.name)
            if isinstance(part, inspect.StrType) and part.pattern is None:
                unbounded.append(field.name)

    # The mesh defines which paths and slots exist; addresses are parsed, two short texts are checked elsewhere, and the
    # others are not stored.
    looked_at_apart = {"path_id", "slot_id", "address", "source_address", "router", "clock_source", "test"}
    assert set(unbounded) <= {*looked_at_apart, "target", "clock_off_s"}
