"""Figures of captures, compared with tcptrace on the same files, and files that are none."""

from __future__ import annotations

import gzip
import json
import re
import shutil
import struct
import subprocess
from io import StringIO
from pathlib import Path

import pytest
from django.core.management import CommandError, call_command
from hypothesis import given
from hypothesis import strategies as st

from monitor.analysis.packets import CaptureError, connections_of, figures_of, read_capture
from monitor.analysis.packets.figures import Waited
from monitor.analysis.packets.ranges import ByteRanges

FOLDER = Path(__file__).parents[2] / "fixtures" / "captures"
CAPTURES = sorted(path.name.removesuffix(".pcap.gz") for path in FOLDER.glob("*.pcap.gz"))
MICROSECONDS = "stalled-sender"


def capture(name: str) -> bytes:
    return gzip.decompress((FOLDER / f"{name}.pcap.gz").read_bytes())


def data_connection(data: bytes):
    """The connection with the most data: iperf3 has one for control too."""
    return max(connections_of(read_capture(data)), key=lambda connection: connection.sender.payload_bytes)


def figures(name: str):
    return figures_of(data_connection(capture(name)))


def tcptrace(data: bytes, folder: Path) -> tuple[dict[str, float], dict[str, float]]:
    """tcptrace's figures of the connection with the most data: those of the sender and of the receiver."""
    (folder / "it.pcap").write_bytes(data)
    printed = subprocess.run(
        ["tcptrace", "-n", "-lrW", folder / "it.pcap"], capture_output=True, text=True, check=True
    ).stdout
    best: tuple[dict[str, float], dict[str, float]] = ({}, {})
    for part in printed.split("TCP connection ")[1:]:
        rows = re.findall(r"^ {5}([\w/ -]+?): +([\d.]+)(?: \w+)? +\1: +([\d.]+)", part, re.MULTILINE)
        if not rows:
            continue
        ways = {name: float(a) for name, a, _ in rows}, {name: float(b) for name, _, b in rows}
        sender, receiver = sorted(ways, key=lambda way: -way["actual data bytes"])
        if sender["actual data bytes"] > best[0].get("actual data bytes", -1.0):
            best = sender, receiver
    return best


@pytest.mark.parametrize("name", CAPTURES)
def test_counts_are_those_of_tcptrace(name, tmp_path):
    assert shutil.which("tcptrace"), "make system-test installs tcptrace"
    ours = figures(name)
    sender, receiver = tcptrace(capture(name), tmp_path)

    assert ours.packets == sender["total packets"]
    assert ours.data_packets == sender["actual data pkts"]
    assert ours.payload_bytes == sender["actual data bytes"]
    assert ours.unique_bytes == sender["unique bytes sent"]
    assert ours.resent_packets == sender["rexmt data pkts"]
    assert ours.resent_bytes == sender["rexmt data bytes"]
    assert ours.out_of_order_packets == sender["outoforder pkts"]
    assert ours.mss_bytes == min(sender["mss requested"], receiver["mss requested"])
    assert ours.ack_packets == receiver["ack pkts sent"]
    assert ours.sack_packets == receiver["sacks sent"]
    assert ours.most_sack_blocks == receiver["max sack blks/ack"]
    assert ours.window_max_bytes == receiver["max win adv"]
    assert ours.zero_window_packets == receiver["zero win adv"]
    # It counts the FIN and the SYN too.
    assert ours.outstanding_max_bytes == pytest.approx(sender["max owin"], abs=1)
    # It leaves out more of the ACKs near a loss.
    assert 0.7 * sender["RTT samples"] <= ours.rtt_samples <= ours.ack_packets
    assert ours.rtt_max_ms == pytest.approx(sender["RTT max"], rel=0.05, abs=0.1)


def test_a_receiver_that_loses_packets_sees_them_come_later():
    """2% were dropped, and what a full queue dropped besides; next to the sender they are retransmissions."""
    near, far = figures("lossy-sender"), figures("lossy-receiver")

    assert near.unique_bytes == pytest.approx(far.unique_bytes, rel=0.1)
    assert near.resent_packets > 0 == far.resent_packets
    assert far.out_of_order_packets > 0 == near.out_of_order_packets
    assert 0 < near.loss_events < near.resent_packets


def test_pauses_say_what_the_sender_waited_for():
    """The application slept 0.7 s after 100 kB; the receiver 1.2 s after 150 kB, its buffer full soon after."""
    for name in ("stalled-sender", "stalled-receiver"):
        first, second = figures(name).pauses

        assert first.waited_for == Waited.APPLICATION
        assert 600 < first.duration_ms <= 710
        assert second.waited_for == Waited.WINDOW
        assert 1000 < second.duration_ms <= 1210
        assert figures(name).zero_window_packets > 0


def packets_of_pcap(data: bytes) -> list[tuple[int, int, bytes, int]]:
    """Seconds, fraction, bytes, length of each record of a little-endian pcap file."""
    records, at = [], 24
    while at < len(data):
        seconds, fraction, captured, wire = struct.unpack_from("<IIII", data, at)
        records.append((seconds, fraction, data[at + 16 : at + 16 + captured], wire))
        at += 16 + captured
    return records


def as_big_endian(data: bytes) -> bytes:
    head = b"\xa1\xb2\xc3\xd4" + struct.pack(">HHiIII", 2, 4, 0, 0, 262144, 1)
    return head + b"".join(
        struct.pack(">IIII", seconds, fraction, len(frame), wire) + frame
        for seconds, fraction, frame, wire in packets_of_pcap(data)
    )


def block(order: str, kind: int, body: bytes) -> bytes:
    length = 12 + len(body) + -len(body) % 4
    return struct.pack(f"{order}II", kind, length) + body + bytes(-len(body) % 4) + struct.pack(f"{order}I", length)


def as_pcapng(data: bytes, order: str) -> bytes:
    """By draft-ietf-opsawg-pcapng: section, an interface with stamps in nanoseconds, packets; a block to skip."""
    blocks = [
        block(order, 0x0A0D0D0A, struct.pack(f"{order}IHHq", 0x1A2B3C4D, 1, 0, -1)),
        block(order, 1, struct.pack(f"{order}HHIHHB3xHH", 1, 0, 0, 9, 1, 9, 0, 0)),
        block(order, 5, b"statistics, to be skipped "),
    ]
    for seconds, fraction, frame, wire in packets_of_pcap(data):
        units = seconds * 10**9 + fraction * 1000
        head = struct.pack(f"{order}IIIII", 0, units >> 32, units & 0xFFFFFFFF, len(frame), wire)
        blocks.append(block(order, 6, head + frame))
    return b"".join(blocks)


@pytest.mark.parametrize(
    "convert",
    [as_big_endian, lambda data: as_pcapng(data, "<"), lambda data: as_pcapng(data, ">")],
    ids=["big-endian pcap", "pcapng", "big-endian pcapng"],
)
def test_all_kinds_of_files_hold_the_same_packets(convert):
    data = capture(MICROSECONDS)

    assert list(read_capture(convert(data))) == list(read_capture(data))


@pytest.mark.parametrize(
    ("link", "header"),
    [
        (1, b"\x02" * 12 + b"\x81\x00\x00\x05\x08\x00"),
        (101, b""),
        (0, b"\x02\x00\x00\x00"),
        (113, b"\x00" * 14 + b"\x08\x00"),
        (276, b"\x08\x00" + b"\x00" * 18),
    ],
    ids=["VLAN", "raw IP", "loopback", "cooked", "cooked 2"],
)
def test_other_link_types(link, header):
    data = capture(MICROSECONDS)
    head = data[:20] + struct.pack("<I", link)
    other = head + b"".join(
        struct.pack("<IIII", seconds, fraction, len(frame) - 14 + len(header), wire - 14 + len(header))
        + header
        + frame[14:]
        for seconds, fraction, frame, wire in packets_of_pcap(data)
    )

    assert list(read_capture(other)) == list(read_capture(data))


def test_what_is_not_ip_is_left_out():
    data = capture(MICROSECONDS)
    arp = struct.pack("<IIII", 1, 0, 42, 42) + b"\xff" * 12 + b"\x08\x06" + bytes(28)

    assert list(read_capture(data + arp)) == list(read_capture(data))


def test_sequence_numbers_may_wrap():
    """The transfer's first sequence number is moved to just below 4 GB: nothing else changes."""
    data = bytearray(capture(MICROSECONDS))
    [syn, *_] = [packet for packet in read_capture(bytes(data)) if packet.ip[33] == 2]
    moved = (0xFFFFFF00 - struct.unpack_from(">I", syn.ip, 24)[0]) % 2**32
    at = 24
    while at < len(data):
        captured = struct.unpack_from("<I", data, at + 8)[0]
        tcp = at + 16 + 14 + 20
        number = tcp + (4 if data[at + 16 + 26 : at + 16 + 30] == syn.ip[12:16] else 8)
        value = struct.unpack_from(">I", data, number)[0]
        if number == tcp + 4 or data[tcp + 13] & 16:
            struct.pack_into(">I", data, number, (value + moved) % 2**32)
        at += 16 + captured
    before, after = figures(MICROSECONDS), figures_of(data_connection(bytes(data)))

    assert (after.unique_bytes, after.resent_bytes, after.rtt_max_ms) == (
        before.unique_bytes,
        before.resent_bytes,
        before.rtt_max_ms,
    )
    assert after.pauses == before.pauses


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (b"", "not a pcap"),
        (b"PK\x03\x04 a zip file", "not a pcap"),
        (b"\xd4\xc3\xb2\xa1\x02\x00", "within its header"),
        (b"\xd4\xc3\xb2\xa1" + struct.pack("<HHiIII", 2, 4, 0, 0, 262144, 105), "link type 105"),
        (
            b"\xd4\xc3\xb2\xa1"
            + struct.pack("<HHiIII", 2, 4, 0, 0, 262144, 1)
            + struct.pack("<IIII", 0, 0, 1 << 30, 9),
            "byte 24",
        ),
        (as_pcapng(b"", "<")[:28] + struct.pack("<II", 6, 3) + bytes(20), "byte 28"),
    ],
)
def test_a_file_that_is_none_is_refused_with_the_place(data, says):
    with pytest.raises(CaptureError, match=says):
        list(read_capture(data))


def test_a_file_that_ends_within_a_packet_ends_before_it():
    data = capture(MICROSECONDS)

    assert list(read_capture(data[:-5])) == list(read_capture(data))[:-1]
    assert list(read_capture(as_pcapng(data, "<")[:-5])) == list(read_capture(data))[:-1]


@given(st.data())
def test_a_damaged_file_is_read_or_refused(data):
    whole = capture(MICROSECONDS)
    form = data.draw(st.sampled_from([whole, as_pcapng(whole, "<")]))[:6000]
    damaged = bytearray(form)
    for place in data.draw(st.lists(st.integers(0, len(form) - 1), max_size=20)):
        damaged[place] = data.draw(st.integers(0, 255))
    try:
        connections = connections_of(read_capture(bytes(damaged)))
    except CaptureError:
        return
    for connection in connections:
        figures_of(connection)


@given(st.lists(st.tuples(st.integers(0, 60), st.integers(0, 20)), max_size=30))
def test_ranges_count_each_byte_once(parts):
    ranges, seen = ByteRanges(), set()
    for begin, length in parts:
        fresh = set(range(begin, begin + length)) - seen
        assert ranges.add(begin, begin + length) == len(fresh)
        seen |= fresh
        assert ranges.total_bytes == len(seen)
        assert ranges.end == (max(seen) + 1 if seen else None)


def packets(*arguments: str) -> str:
    output = StringIO()
    call_command("throughput", "packets", *arguments, stdout=output)
    return output.getvalue()


@pytest.fixture
def stalled(tmp_path):
    (tmp_path / "it.pcap").write_bytes(capture(MICROSECONDS))
    return str(tmp_path / "it.pcap")


def test_the_command_tells_of_each_connection(stalled):
    figure = figures(MICROSECONDS)
    text = packets(stalled)

    assert f"{figure.unique_bytes:,} bytes" in text
    assert "2 packets, 1.2% of the data" in text
    assert text.count("pause") == len(figure.pauses) == 2
    assert [json.loads(line)["unique_bytes"] for line in packets(stalled, "--json").splitlines()] == [250_000]


@pytest.mark.parametrize(
    ("data", "says"), [(b"GIF89a", "not a pcap"), (None, "No such file"), (b"head", "no TCP packets")]
)
def test_the_command_refuses_what_has_no_transfer(data, says, tmp_path):
    path = tmp_path / "it"
    if data is not None:
        path.write_bytes(capture(MICROSECONDS)[:24] if data == b"head" else data)

    with pytest.raises(CommandError, match=says):
        packets(str(path))
