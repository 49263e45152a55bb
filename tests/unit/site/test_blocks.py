"""Bursts in columns: made of a cycle's results, told apart again, and what the agent itself reads from them."""

from datetime import UTC, datetime, timedelta

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from probes.contract import Outcome, Target
from probes.packets.columns import RECORD, BurstArrays, PingResults, PlacedColumns
from probes.packets.spec import Burst
from probes.site.delivery.health_report import clock_offs
from probes.site.spool.blocks import (
    LARGEST_BLOCK,
    SMALLEST_BLOCK,
    BurstReplies,
    figures_of,
    read_block,
    results_of,
    stamps_of,
    starts_of,
    to_deliver,
    without_blocks,
)
from probes.site.spool.ledger import Cycle
from probes.site.spool.spool import Spool
from probes.site.wire import Batch, BurstBlock, Delivered
from tests.burst_blocks import block_of, or_none

AT = datetime(2026, 11, 21, 12, 0, tzinfo=UTC)
STAMPS = ("hardware", "kernel", "user")
RTTS = st.lists(st.none() | st.integers(0, 10**9).map(lambda ns: ns / 1e6), min_size=1, max_size=6)


def burst(rtts_ms, place: int = 0, **fields) -> Burst:
    values = {
        "target": f"host{place}",
        "address": f"192.0.2.{1 + place % 250}",
        "family": 4,
        "packet_bytes": 100,
        "started_at": AT + timedelta(microseconds=place),
        "outcome": Outcome.MEASURED,
        "sent": len(rtts_ms),
        "received": len(rtts_ms) - rtts_ms.count(None),
        "rtts_ms": tuple(rtts_ms),
        "clock_source": "tsc",
    }
    return Burst(**{**values, **fields})


@st.composite
def bursts(draw):
    count = st.integers(0, 9)
    return [
        burst(
            draw(RTTS),
            place,
            late=draw(count),
            duplicates=draw(count),
            reordered=draw(count),
            ttl=draw(st.none() | st.integers(0, 255)),
            ttl_changes=draw(count),
            stamp=draw(st.none() | st.sampled_from(STAMPS)),
            stamps_lost=draw(count),
            waited=draw(count),
            rate_limited=draw(st.none() | st.booleans()),
            flow=draw(st.none() | st.integers(1, 0xFFFE)),
            source_address=draw(st.none() | st.just("192.0.2.9")),
            detail=draw(st.none() | st.just("näh")),
        )
        for place in range(draw(st.integers(1, 4)))
    ]


def alone(measured, first: int = 1, **fields) -> list[Delivered]:
    return [
        Delivered(sequence=first + place, path_id=100 + place, test="pinger", result=each, **fields)
        for place, each in enumerate(measured)
    ]


@given(measured=bursts())
def test_a_block_is_told_apart_into_the_same_results(measured):
    results = alone(measured, 7, every_s=60, cycle=5, clock_off_s=2.0)

    assert list(results_of(block_of(results))) == results


def columns_of(measured: list[Burst]) -> BurstArrays:
    """Columns as a cycle makes them."""
    records = np.zeros(len(measured), RECORD)
    for place, each in enumerate(measured):
        for name in set(RECORD.names) & set(Burst.__struct_fields__) - {"stamp"}:
            records[name][place] = or_none(getattr(each, name))
        records["stamp"][place] = -1 if each.stamp is None else STAMPS.index(each.stamp)
        records["started_us"][place] = (each.started_at - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1)
    rtts_ms = [rtt for each in measured for rtt in each.rtts_ms]
    return BurstArrays(
        family=4,
        clock_source="tsc",
        records=records,
        rtts_ns=np.array([-1 if rtt is None else round(rtt * 1e6) for rtt in rtts_ms], np.int64),
        targets=[each.target for each in measured],
        addresses=[each.address for each in measured],
        source_addresses=[each.source_address for each in measured],
        details=[each.detail for each in measured],
    )


def measured_at(count: int, others: dict[int, Burst]) -> tuple[list[Burst], PingResults]:
    """All bursts of a cycle, in order, and the same in columns except for the `others`."""
    everything = [others.get(place, burst([1.0 + place, None], place, ttl=60)) for place in range(count)]
    places = [place for place in range(count) if place not in others]
    columns = columns_of([everything[place] for place in places])
    for place in places:
        columns.records["path_id"][places.index(place)] = 1 + place // 2
    return everything, PingResults([PlacedColumns(columns, np.array(places))], others)


def targets(count: int) -> list[Target]:
    return [Target(1 + number, f"name{number}", 4, None) for number in range(count)]


def test_a_cycle_is_delivered_in_blocks_and_others():
    unanswered = burst([], 3, sent=0, received=0, outcome=Outcome.NO_ROUTE, address=None)
    loaded = burst([1.0], 10, loaded_rtts_ms=())
    everything, answer = measured_at(600, {3: unanswered, 10: loaded})

    messages = to_deliver(answer, "pinger", targets(300))

    blocks = [message for message in messages if isinstance(message, BurstBlock)]
    assert [len(block) for block in blocks] == [LARGEST_BLOCK, LARGEST_BLOCK, 98]
    results = [
        *(each for block in blocks for each in results_of(block)),
        *(message for message in messages if isinstance(message, Delivered)),
    ]
    found = {(each.path_id, each.result.started_at): each for each in results}
    assert len(found) == len(everything) == 600
    for place, each in enumerate(everything):
        got = found[1 + place // 2, each.started_at]
        assert got.result == msgspec.structs.replace(each, target=f"name{place // 2}")
        assert (got.test, got.during_test) == ("pinger", place == 10)


def test_few_bursts_are_delivered_one_by_one():
    everything, answer = measured_at(SMALLEST_BLOCK - 1, {})

    messages = to_deliver(answer, "pinger", targets(SMALLEST_BLOCK - 1))

    assert [type(message) for message in messages] == [Delivered] * len(everything)


def test_results_as_a_sequence_are_in_the_order_of_the_targets():
    everything, answer = measured_at(20, {4: burst([None], 4, errors=())})

    assert list(answer) == everything
    assert (len(answer), answer[4], answer[2:5]) == (20, everything[4], tuple(everything[2:5]))


def test_the_agent_reads_the_same_figures_from_a_block_as_from_its_results():
    results = alone([burst([3.0, 1.5, None], ttl=60), burst([None, None], 1), burst([2.0], 2, packet_bytes=1000)])

    expected = [
        BurstReplies(100, 100, 3, 2, 60, 1.5),
        BurstReplies(101, 100, 2, 0, None, None),
        BurstReplies(102, 1000, 1, 1, None, 2.0),
    ]
    assert list(figures_of(results)) == list(figures_of([block_of(results)])) == expected


def test_the_stamps_and_starts_of_a_block_are_known():
    block = block_of(alone([burst([1.0], 5, stamp="kernel"), burst([1.0], 2, stamp="user"), burst([None], 9)]))

    assert stamps_of(block) == {"kernel", "user"}
    assert starts_of(block) == (AT + timedelta(microseconds=2), AT + timedelta(microseconds=9))
    (period,) = clock_offs([msgspec.structs.replace(block, clock_off_s=3.0)])
    assert period.offset_s == 3.0
    assert clock_offs([block]) == ()


def test_a_batch_for_an_earlier_centre_has_each_result_in_order():
    results = alone([burst([1.0], place) for place in range(5)])
    batch = Batch(
        spool="a",
        number=1,
        agent_version="0",
        sent_at=AT,
        results=tuple(results[2:3]),
        blocks=(block_of(results[3:]), block_of(results[:2])),
    )

    assert without_blocks(batch) == msgspec.structs.replace(batch, results=tuple(results), blocks=msgspec.UNSET)
    assert sorted(batch.sequences) == [1, 2, 3, 4, 5]


@pytest.mark.parametrize(("off_s", "shifted_s"), [(None, 0), (120.0, 0), (3600.0, -3600)])
def test_the_starts_in_a_block_are_corrected_as_those_of_results(tmp_path, off_s, shifted_s):
    now_s = AT.timestamp() + 30.0
    spool = Spool(tmp_path / "spool.sqlite3", clock_off_s=lambda: off_s, now_s=lambda: now_s)
    began = burst([1.0], started_at=AT + timedelta(seconds=off_s or 0.0))
    cycle = Cycle("pinger", 60, 100_000)
    spool.claim_cycle(cycle)

    spool.put([block_of(alone([began, began])), *alone([began])], cycle=cycle)

    batch = spool.next_batch(max_results=9, max_bytes=10**6, now=AT, agent_version="0")
    results = [*results_of(batch.all_blocks[0]), *batch.results]
    assert {each.result.started_at for each in results} == {began.started_at + timedelta(seconds=shifted_s)}
    assert len({(each.clock_off_s, each.every_s, each.cycle) for each in results}) == 1
    assert results[0].clock_off_s == off_s


def test_a_block_with_columns_of_different_lengths_is_told():
    block = block_of(alone([burst([1.0]), burst([1.0], 1)]))

    with pytest.raises(ValueError, match="different lengths"):
        read_block(msgspec.structs.replace(block, addresses=("192.0.2.1",)))
    with pytest.raises(ValueError, match="1 RTTs for 2 sent"):
        read_block(msgspec.structs.replace(block, rtts_ns=block.rtts_ns[:8]))
