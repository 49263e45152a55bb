"""Packets that are no data of a transfer: copies, keep-alives, window probes; and clocks that go back."""

from __future__ import annotations

import random
import struct
from dataclasses import replace

import pytest

from monitor.analysis.packets import captured_figures_of, connections_of, figures_of, read_capture, time_sequence
from monitor.analysis.packets.connections import ACK, FIN, SYN
from monitor.analysis.packets.wording import capture_rows
from tests.captures import Record, behind, ipv4, pcap_file, pcapng_file, records_of

MS = 1_000_000
RAW = 101
SENDER, RECEIVER = (bytes((192, 0, 2, 1)), 40000), (bytes((192, 0, 2, 2)), 5201)


class Conversation:
    """Packets of a connection, written one by one; each has the next IP identification of its end, or none."""

    def __init__(self, has_ids=True, version=4):
        self.records, self.ids, self.has_ids, self.version = [], {SENDER: 100, RECEIVER: 7000}, has_ids, version
        self.at_ns = 10**18

    def add(self, source, sequence, ack, payload=0, *, after_ms=0.0, flags=ACK, window=500):
        """A packet; returns its record."""
        self.at_ns += int(after_ms * MS)
        self.ids[source] += 1
        destination = RECEIVER if source == SENDER else SENDER
        options = b"\x02\x04\x05\xb4" if flags & SYN else b""
        tcp = struct.pack(
            ">HHIIBBHHH", source[1], destination[1], sequence, ack, (20 + len(options)) << 2, flags, window, 0, 0
        )
        length = 20 + len(options) + payload
        if self.version == 4:
            number = self.ids[source] if self.has_ids else 0
            head = struct.pack(">BBHHHBBH", 0x45, 0, 20 + length, number, 0x4000, 64, 6, 0) + source[0] + destination[0]
        else:
            head = struct.pack(">IHBB", 6 << 28, length, 6, 64) + source[0] * 4 + destination[0] * 4
        frame = head + tcp + options
        self.records.append(Record(self.at_ns, frame, len(frame) + payload))
        return self.records[-1]

    def open(self):
        self.add(SENDER, 999, 0, flags=SYN)
        self.add(RECEIVER, 1999, 1000, flags=SYN | ACK, after_ms=20)
        self.add(SENDER, 1000, 2000)
        return self

    def transfer(self, segments=12, begin=1000):
        """Segments of 200 bytes, each with its ACK 20 ms later, 1 ms apart."""
        for place in range(segments):
            self.add(SENDER, begin + place * 200, 2000, 200, after_ms=1)
        for place in range(segments):
            self.add(RECEIVER, 2000, begin + (place + 1) * 200, after_ms=20 if not place else 1)
        return self

    def figures(self):
        return of_records(self.records)


def of_records(records):
    [connection] = connections_of(read_capture(pcap_file(records, RAW)))
    return figures_of(connection)


def doubled(records, apart_ns, change=lambda frame: frame):
    copies = [replace(record, at_ns=record.at_ns + apart_ns, frame=change(record.frame)) for record in records]
    return sorted([*records, *copies], key=lambda record: record.at_ns)


def routed(frame):
    """A router has taken one of its hops; the network card has filled in the checksum."""
    changed = bytearray(frame)
    changed[8] -= 1
    changed[36:38] = b"\xab\xcd"
    return bytes(changed)


@pytest.mark.parametrize("apart_ms", [0.0, 0.004, 0.9, 3.0])
@pytest.mark.parametrize("change", [lambda frame: frame, routed], ids=["same", "routed"])
def test_a_packet_captured_twice_counts_once(apart_ms, change):
    records = Conversation().open().transfer().records

    figures = of_records(doubled(records, int(apart_ms * MS), change))

    assert (figures.resent_packets, figures.loss_events) == (0, 0)
    assert figures.copies == len(records)
    assert figures.data_packets == 12
    assert figures.rtt_samples == of_records(records).rtt_samples
    assert f"{len(records)} packets" in dict(capture_rows(figures))["copies"]


@pytest.mark.parametrize("options", [{"has_ids": False}, {"version": 6}], ids=["without ids", "IPv6"])
def test_copies_without_an_id_count_once(options):
    records = Conversation(**options).open().transfer().records

    figures = of_records(doubled(records, 40_000))

    assert figures.resent_packets == 0
    assert figures.copies == len(records)


def test_copies_behind_all_packets_are_no_step_of_the_clock():
    """Two captures of the same transfer, in one file after the other."""
    records = Conversation().open().transfer().records
    later = [replace(record, at_ns=record.at_ns + 40_000) for record in records]

    figures = of_records([*records, *later])

    assert (figures.copies, figures.rate_bps) == (len(records), of_records(records).rate_bps)


def test_copies_of_a_real_transfer_count_once():
    """With losses, SACK and retransmissions; mirrored with delays that differ, so that packets overtake copies."""
    chance, records = random.Random(1), records_of("lossy-sender")
    copies = [replace(record, at_ns=record.at_ns + chance.randrange(2 * MS)) for record in records]
    whole = max(
        connections_of(read_capture(pcap_file(records))), key=lambda connection: connection.sender.payload_bytes
    )
    mirrored = sorted([*records, *copies], key=lambda record: record.at_ns)
    twice = max(
        connections_of(read_capture(pcap_file(mirrored))), key=lambda connection: connection.sender.payload_bytes
    )

    before, after = figures_of(whole), figures_of(twice)

    # The resets at the end have no identification.
    assert after.copies == pytest.approx(sum(len(way.segments) for way in whole.directions), abs=3)
    of_resets = {"copies": 0, "duration_ms": before.duration_ms, "ack_packets": before.ack_packets}
    assert replace(after, **of_resets) == replace(before, **of_resets)


def segmented(is_joined_first, resent_ms=None):
    """Data of 3,000 bytes joined by the host in a packet, and cut by the network card, both captured."""
    conversation = Conversation().open()
    joined = conversation.add(SENDER, 1000, 2000, 3000, after_ms=1)
    conversation.ids[SENDER] -= 1
    parts = [
        conversation.add(SENDER, 1000 + begin, 2000, size) for begin, size in ((0, 1448), (1448, 1448), (2896, 104))
    ]
    if not is_joined_first:
        conversation.records[-4:] = [*parts, joined]
    if resent_ms is not None:
        conversation.add(SENDER, 1000 + 1448, 2000, 1448, after_ms=resent_ms)
    conversation.add(RECEIVER, 2000, 4000, after_ms=20)
    return conversation.figures()


@pytest.mark.parametrize("is_joined_first", [True, False])
def test_data_captured_joined_and_cut_counts_once(is_joined_first):
    figures = segmented(is_joined_first)

    assert (figures.resent_packets, figures.unique_bytes) == (0, 3000)
    assert figures.copies == (3 if is_joined_first else 1)


@pytest.mark.parametrize("is_joined_first", [True, False])
@pytest.mark.parametrize("resent_ms", [0.5, 300])
def test_a_part_that_is_sent_again_is_no_copy(is_joined_first, resent_ms):
    figures = segmented(is_joined_first, resent_ms)

    assert (figures.resent_packets, figures.resent_bytes) == (1, 1448)


def test_a_packet_and_its_copy_in_a_tunnel_count_once():
    records = Conversation().open().transfer().records
    ethernet = behind(
        [Record(record.at_ns, bytes(14) + record.frame, record.wire_bytes + 14) for record in records], ipv4(4)
    )

    figures = of_records(sorted([*records, *ethernet], key=lambda record: record.at_ns))

    assert (figures.copies, figures.resent_packets) == (len(records), 0)


@pytest.mark.parametrize("options", [{}, {"has_ids": False}, {"version": 6}], ids=["ids", "without ids", "IPv6"])
@pytest.mark.parametrize("apart_ms", [0.3, 25.0, 300.0])
def test_a_retransmission_is_no_copy(options, apart_ms):
    """One of twelve was lost, in a local network too, where it is sent again within a millisecond."""
    conversation = Conversation(**options).open()
    for place in range(12):
        conversation.add(SENDER, 1000 + place * 200, 2000, 200, after_ms=0.01)
    conversation.add(SENDER, 1000 + 11 * 200, 2000, 200, after_ms=apart_ms)
    conversation.add(RECEIVER, 2000, 1000 + 12 * 200, after_ms=1)

    figures = conversation.figures()

    assert (figures.resent_packets, figures.copies) == (1, 0)


@pytest.mark.parametrize("payload", [0, 1])
def test_keep_alives_are_no_loss(payload):
    conversation = Conversation().open().transfer()
    before = conversation.figures()
    for _ in range(5):
        conversation.add(SENDER, 1000 + 12 * 200 - 1, 2000, payload, after_ms=5000)
        conversation.add(RECEIVER, 2000, 1000 + 12 * 200, after_ms=20)

    figures = conversation.figures()

    assert (figures.resent_packets, figures.loss_events) == (0, 0)
    assert figures.rate_bps == before.rate_bps
    assert figures.unique_bytes == before.unique_bytes
    assert figures.pauses == ()


def test_data_after_keep_alives_is_a_pause_of_the_application():
    conversation = Conversation().open().transfer()
    conversation.add(SENDER, 1000 + 12 * 200 - 1, 2000, 1, after_ms=5000)
    conversation.add(RECEIVER, 2000, 1000 + 12 * 200, after_ms=20)
    conversation.transfer(begin=1000 + 12 * 200)

    figures = conversation.figures()

    assert figures.resent_packets == 0
    assert figures.unique_bytes == 2 * 12 * 200
    assert len(figures.pauses) == 1


def test_a_lost_byte_that_is_sent_again_is_no_keep_alive():
    conversation = Conversation().open().transfer()
    for _ in range(2):
        conversation.add(SENDER, 1000 + 12 * 200, 2000, 1, after_ms=300)
    conversation.add(RECEIVER, 2000, 1001 + 12 * 200, after_ms=20)

    assert conversation.figures().resent_packets == 1


@pytest.mark.parametrize("is_taken", [False, True], ids=["refused", "taken"])
def test_window_probes_are_no_loss(is_taken):
    """The byte of a probe, which the receiver may take, is sent again and again, and last within more data."""
    conversation = Conversation().open().transfer()
    end = 1000 + 12 * 200
    conversation.add(RECEIVER, 2000, end, window=0)
    for wait_ms in (300, 600, 1200):
        conversation.add(SENDER, end, 2000, 1, after_ms=wait_ms)
        conversation.add(RECEIVER, 2000, end, after_ms=20, window=0)
    conversation.add(RECEIVER, 2000, end + is_taken, after_ms=500)
    conversation.add(SENDER, end + is_taken, 2000, 200, after_ms=1)
    conversation.add(RECEIVER, 2000, end + is_taken + 200, after_ms=20)

    figures = conversation.figures()

    assert (figures.resent_packets, figures.loss_events) == (0, 0)
    assert figures.unique_bytes == 13 * 200 + is_taken


@pytest.mark.parametrize("back_ms", [3_600_000, 500, 20])
def test_a_clock_that_went_back_gives_no_rate(back_ms):
    records = Conversation().open().transfer().records
    moved = [replace(one, at_ns=one.at_ns - back_ms * MS) if place > 12 else one for place, one in enumerate(records)]
    [connection] = connections_of(read_capture(pcap_file(moved, RAW)))

    for figures in (figures_of(connection), captured_figures_of(connection, ())):
        rows = dict(capture_rows(figures))
        assert (figures.rate_bps, figures.duration_ms, figures.rtt_median_ms, figures.pauses) == (None, None, None, ())
        assert figures.unique_bytes == 12 * 200
        assert "went back" in rows["clock"]
        assert "-" not in rows["data"]
    assert time_sequence(connection).duration_s >= 0


def test_a_clock_counts_where_a_connection_has_both_sides():
    """Two captures in one file, the later first: each connection lies within one of them."""
    first, second = Conversation().open().transfer().records, Conversation().open().transfer().records
    earlier = [replace(record, at_ns=record.at_ns - 10**15) for record in second]
    ports = [replace(record, frame=record.frame.replace(b"\x9c\x40", b"\x9c\x41")) for record in earlier]

    connections = connections_of(read_capture(pcap_file([*first, *ports], RAW)))

    assert len(connections) == 2
    assert all(figures_of(connection).rate_bps for connection in connections)


def test_stamps_of_two_interfaces_may_lie_apart():
    """Programs write packets of interfaces in portions: those of one are in order, those of two are not."""
    records = Conversation().open().transfer().records
    data = [replace(record, interface=0) for record in records if record.frame[12:16] == SENDER[0]]
    acks = [replace(record, interface=1) for record in records if record.frame[12:16] == RECEIVER[0]]

    [connection] = connections_of(read_capture(pcapng_file([*data, *acks], (RAW, RAW))))

    assert figures_of(connection) == of_records(records)


def test_packets_in_disorder_by_less_are_no_step_of_a_clock():
    records = Conversation().open().transfer().records
    records[5], records[6] = records[6], records[5]

    assert of_records(records).rate_bps


def test_the_byte_of_fin_is_no_keep_alive():
    conversation = Conversation().open().transfer()
    for _ in range(2):
        conversation.add(SENDER, 1000 + 12 * 200, 2000, flags=FIN | ACK, after_ms=300)

    assert conversation.figures().resent_packets == 0
