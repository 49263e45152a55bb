import errno
from collections import Counter
from datetime import UTC, datetime, timedelta
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from probes.contract import LoadedPeriods
from probes.packets.burst_counts import BurstCounts, changes, reordered, sent_under_load, sent_within
from probes.packets.engine.packet_outcomes import PacketTable, SendPattern
from probes.packets.icmp.icmp_errors import Errors, name_of

SECOND = 1_000_000_000
MS = 1_000_000


@given(st.lists(st.one_of(st.none(), st.integers(1, 8)), min_size=1, max_size=12))
def test_a_reply_is_reordered_if_a_later_request_overtook_it(arrivals):
    arrived_ns = np.array([[0 if arrival is None else arrival for arrival in arrivals]])
    in_time = np.array([[arrival is not None for arrival in arrivals]])

    overtaken = sum(
        any(later is not None and later < arrival for later in arrivals[number + 1 :])
        for number, arrival in enumerate(arrivals)
        if arrival is not None
    )

    assert reordered(arrived_ns, in_time).tolist() == [overtaken]


def filled_table(count: int = 3) -> PacketTable:
    """Two targets, two sizes; every request answered after 5 ms, with kernel timestamps."""
    table = PacketTable(2, SendPattern((100, 1000), count, 1.0, 2.0))
    table.next = len(table.called_ns)
    table.called_ns[:] = SECOND * (1 + np.arange(table.next))
    table.stamped_ns[:] = table.called_ns + 1000
    table.arrived_ns[:] = table.stamped_ns + 5 * MS
    table.arrival_trusted[:] = True
    table.replies[:] = 1
    table.hop_limit[:] = 60
    return table


def burst_counts(table: PacketTable) -> BurstCounts:
    return BurstCounts(table.results(np.array([1, 0]), 2 * SECOND, 0), 2)


def test_packets_are_mapped_back_to_their_targets_and_sizes():
    counted = burst_counts(filled_table())

    assert counted.sent == counted.received == [[3, 3], [3, 3]]
    assert counted.rtts_ms(0, 0) == (5.0, 5.0, 5.0)
    # The first target has rank 1: packets 1, 3, 5 and then 7, 9, 11.
    assert counted.started_at_ns == [[2 * SECOND + 1000, 8 * SECOND + 1000], [SECOND + 1000, 7 * SECOND + 1000]]
    assert (counted.ttl(0, 0), counted.stamp(0, 0)) == (60, "kernel")


def test_a_late_reply_is_lost():
    table = filled_table()
    table.arrived_ns[3] += 2 * SECOND

    counted = burst_counts(table)

    assert counted.rtts_ms(0, 0) == (5.0, None, 5.0)
    assert counted.received == [[2, 3], [3, 3]]


def test_without_a_send_stamp_the_call_time_is_used_and_reported():
    table = filled_table()
    table.stamped_ns[1] = 0

    counted = burst_counts(table)

    assert counted.rtts_ms(0, 0) == (pytest.approx(5.001), 5.0, 5.0)
    assert (counted.stamp(0, 0), counted.stamp(0, 1)) == ("user", "kernel")


def test_a_refused_request_is_neither_sent_nor_lost():
    table = filled_table()
    table.refused_errno[[1, 7, 9, 11]] = errno.EHOSTUNREACH
    table.replies[[1, 7, 9, 11]] = 0

    counted = burst_counts(table)

    assert counted.sent == counted.received == [[2, 0], [3, 3]]
    assert counted.rtts_ms(0, 0) == (5.0, 5.0)
    assert counted.refused_errno[0] == [errno.EHOSTUNREACH] * 2
    assert counted.stamp(0, 1) is None


def test_duplicates_are_counted_beyond_the_first():
    table = filled_table()
    table.replies[5] = 4

    assert burst_counts(table).arrays["duplicates"].tolist() == [[3, 0], [0, 0]]


@given(st.lists(st.one_of(st.none(), st.integers(1, 3)), min_size=1, max_size=12))
def test_changes_are_counted_across_gaps(values):
    present = [value for value in values if value is not None]

    counted = changes(
        np.array([[-1 if value is None else value for value in values]]),
        np.array([[value is not None for value in values]]),
    )

    assert counted.tolist() == [sum(before != after for before, after in pairwise(present))]


AFTER_NS = st.integers(-50, 3_000_000).map(lambda after_us: after_us * 1000)
PACKET = st.fixed_dictionaries(
    {
        "replies": st.integers(0, 3),
        "rtt_ns": AFTER_NS,
        "stamped_after_ns": st.one_of(st.none(), AFTER_NS),
        "trusted": st.booleans(),
        "hop_limit": st.sampled_from([-1, 57, 58, 255]),
        "waited": st.booleans(),
        "refused": st.sampled_from([0, 0, 0, errno.EHOSTUNREACH, errno.EPERM]),
        "error": st.one_of(st.none(), st.sampled_from([(3, 1, 0), (3, 4, 1400), (11, 0, 0)])),
        "under_load": st.booleans(),
    }
)


@settings(max_examples=200, deadline=None)
@given(st.data(), st.integers(1, 3), st.integers(1, 2), st.integers(1, 4), st.booleans())
def test_every_count_equals_a_count_packet_by_packet(data, targets, sizes, count, primed):
    """Packets under load are in no count, unless the burst has no others."""
    turns = primed + sizes * count
    total = targets * turns
    packets = data.draw(st.lists(PACKET, min_size=total, max_size=total))
    requested = data.draw(st.integers(0, total))
    rank_of_target = np.array(data.draw(st.permutations(range(targets))))
    table = packet_table(
        packets, requested, targets, SendPattern((100, 1000)[:sizes], count, 1.0, 2.0, 1.0, 56 if primed else None)
    )

    results = table.results(rank_of_target, 2 * SECOND, 0)
    loaded = [
        [packets[turn * targets + rank]["under_load"] for turn in range(primed, turns)] for rank in rank_of_target
    ]

    counted = BurstCounts(results, sizes, 4, np.array(loaded) & results.sent)

    for row, rank in enumerate(rank_of_target.tolist()):
        for column in range(sizes):
            first = primed + column * count
            burst = [(turn * targets + rank) for turn in range(first, first + count)]
            check(counted, row, column, [(packet, packets[packet]) for packet in burst], requested)


def packet_table(packets: list[dict], requested: int, targets: int, pattern: SendPattern) -> PacketTable:
    """The packet table that the receiver would produce: unsent packets have no reply, timestamp or error."""
    table = PacketTable(targets, pattern)
    table.next = requested
    for number, packet in enumerate(packets[:requested]):
        called_ns = SECOND * (1 + number)
        table.called_ns[number] = called_ns
        table.waited[number] = packet["waited"]
        table.refused_errno[number] = packet["refused"]
        if packet["refused"]:
            continue
        if packet["stamped_after_ns"] is not None:
            table.stamped_ns[number] = called_ns + packet["stamped_after_ns"]
        if packet["replies"]:
            table.replies[number] = packet["replies"]
            table.arrived_ns[number] = called_ns + packet["rtt_ns"]
            table.arrival_trusted[number] = packet["trusted"]
            table.hop_limit[number] = packet["hop_limit"]
        if packet["error"] is not None:
            enter_error(table, number, *packet["error"])
    table.waited[requested:] = True
    return table


def enter_error(table: PacketTable, packet: int, icmp_type: int, icmp_code: int, mtu_bytes: int) -> None:
    ones, nothing = np.ones(1, np.int64), np.zeros((1, 4), np.uint8)
    errors = Errors(
        ones * icmp_type,
        ones * icmp_code,
        ones * mtu_bytes,
        nothing,
        np.zeros((1, 24), np.uint8),
        ones * 24,
        messages=np.zeros((1, 24), np.uint8),
        message_bytes=ones * 24,
        extension_at=ones * 0,
    )
    table.enter_errors(np.array([packet]), errors, np.array([[10, 0, 0, 1]], np.uint8), ones)


def check(counted: BurstCounts, row: int, column: int, burst: list[tuple[int, dict]], requested: int) -> None:
    sent = [packet for number, packet in burst if number < requested and not packet["refused"]]
    apart = [packet for packet in sent if packet["under_load"]]
    if apart and len(apart) < len(sent):
        assert counted.loaded_rtts_ms(row, column) == tuple(
            None if rtt is None else pytest.approx(rtt, abs=1e-9) for rtt in map(round_trip_ms, apart)
        )
        sent = [packet for packet in sent if not packet["under_load"]]
    else:
        assert counted.loaded_rtts_ms(row, column) == (() if apart else None)
    rtts_ms = [round_trip_ms(packet) for packet in sent]
    in_time = [packet for packet, rtt_ms in zip(sent, rtts_ms, strict=True) if rtt_ms is not None]
    lost_stamps = sum(not by_kernel(packet) for packet in in_time)
    hop_limits = [packet["hop_limit"] for packet in in_time if packet["hop_limit"] >= 0]
    error_counts = Counter(
        packet["error"] for packet, rtt_ms in zip(sent, rtts_ms, strict=True) if packet["error"] and rtt_ms is None
    )
    refusals = [packet["refused"] for number, packet in burst if number < requested and packet["refused"]]

    assert counted.sent[row][column] == len(sent)
    assert counted.rtts_ms(row, column) == tuple(
        None if rtt is None else pytest.approx(rtt, abs=1e-9) for rtt in rtts_ms
    )
    assert counted.received[row][column] == len(in_time)
    assert counted.arrays["late"][row, column] == sum(bool(packet["replies"]) for packet in sent) - len(in_time)
    assert counted.arrays["duplicates"][row, column] == sum(max(packet["replies"] - 1, 0) for packet in sent)
    assert counted.arrays["waited"][row, column] == sum(packet["waited"] for packet in sent)
    assert counted.refused_errno[row][column] == (refusals[0] if refusals else 0)
    assert counted.arrays["stamps_lost"][row, column] == lost_stamps
    assert counted.stamp(row, column) == (None if not in_time else "user" if lost_stamps else "kernel")
    assert counted.ttl_changes[row][column] == sum(before != after for before, after in pairwise(hop_limits))
    assert counted.ttl(row, column) == (in_time[0]["hop_limit"] if in_time and in_time[0]["hop_limit"] >= 0 else None)
    assert {(error.name, error.mtu_bytes, error.router): error.count for error in counted.errors(row, column)} == {
        (name_of(4, kind, code), mtu_bytes or None, "10.0.0.1"): times
        for (kind, code, mtu_bytes), times in error_counts.items()
    }
    assert sum(error.count for error in counted.errors(row, column)) <= len(sent) - len(in_time)


def test_a_packet_is_under_load_if_it_was_sent_in_a_period():
    """Packets leave a microsecond after each full second since the epoch, target 0 at 2, 4, … and target 1 at 1, 3,
    …"""
    epoch, microsecond = datetime(1970, 1, 1, tzinfo=UTC), timedelta(microseconds=1)
    results = filled_table().results(np.array([1, 0]), 2 * SECOND, 0)

    def seconds_within(*periods: tuple[float, float]) -> set[int]:
        moments = [tuple(epoch + timedelta(seconds=second) for second in period) for period in periods]
        return set((results.sent_at_ns[sent_within(results, moments)] // SECOND).tolist())

    assert seconds_within() == set()
    assert seconds_within((2, 4.5), (4, 5.5), (9.5, 9.9), (11.5, 100)) == {2, 3, 4, 5, 12}
    at = epoch + timedelta(seconds=3) + microsecond
    assert sent_within(results, [(at, at)]).sum() == 1


def test_a_test_at_a_destination_loads_the_packets_to_it_only():
    results = filled_table().results(np.array([1, 0]), 2 * SECOND, 0)
    since, until = (datetime(1970, 1, 1, tzinfo=UTC) + timedelta(seconds=second) for second in (3.5, 7.5))

    # Row 0 has the targets 4 and 6 of the spec, row 1 the target 5.
    rows = [(4, 6), (5,)]
    there = sent_under_load(results, rows, LoadedPeriods(there={6: [(since, until)]}))
    both = sent_under_load(results, rows, LoadedPeriods([(since, since)], {6: [(since, until)], 5: [(since, until)]}))

    assert set((results.sent_at_ns[there] // SECOND).tolist()) == {4, 6}
    assert set((results.sent_at_ns[both] // SECOND).tolist()) == {4, 5, 6, 7}


def left_after_ns(packet: dict) -> int:
    """When the packet left, relative to the call: the kernel's timestamp, unless the reply arrived before it."""
    after_ns = packet["stamped_after_ns"]
    return 0 if after_ns is None or (packet["replies"] and after_ns > packet["rtt_ns"]) else after_ns


def by_kernel(packet: dict) -> bool:
    after_ns = packet["stamped_after_ns"]
    return packet["trusted"] and after_ns is not None and after_ns <= packet["rtt_ns"]


def round_trip_ms(packet: dict) -> float | None:
    rtt_ns = max(packet["rtt_ns"] - left_after_ns(packet), 0)
    return rtt_ns / MS if packet["replies"] and rtt_ns <= 2 * SECOND else None


def test_an_error_about_an_answered_request_is_no_loss():
    table = filled_table()
    enter_error(table, 3, 3, 1, 0)
    table.replies[5] = 0
    enter_error(table, 5, 3, 1, 0)

    assert [(error.name, error.count) for error in burst_counts(table).errors(0, 0)] == [("host_unreachable", 1)]


def test_packets_never_sent_are_not_counted_as_waited():
    table = filled_table()
    table.next = 6
    table.waited[4:] = True

    assert burst_counts(table).arrays["waited"].tolist() == [[1, 0], [1, 0]]
