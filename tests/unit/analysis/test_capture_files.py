"""Files of captures: which are read, and what is said of the packets and the files that are not."""

from __future__ import annotations

import gzip
import struct
from collections import Counter
from dataclasses import replace
from io import StringIO

import pytest
from django.core.management import CommandError, call_command

from monitor.analysis.packets import CaptureError, Unread, connections_of, figures_of, read_capture, unread_sentences
from monitor.analysis.packets.encapsulation import LINKS
from monitor.analysis.packets.wording import capture_rows
from tests.captures import (
    ENCAPSULATIONS,
    OBSOLETE,
    SIMPLE,
    Record,
    behind,
    ipv4,
    pcap_file,
    pcapng_file,
    records_of,
)

RECORDS = records_of("stalled-sender")
WHOLE = pcap_file(RECORDS)
RAW = 101


def ip_of(data: bytes) -> list[tuple[int, bytes, int]]:
    return [(packet.at_ns, packet.ip, packet.wire_bytes) for packet in read_capture(data)]


def unread_in(data: bytes) -> str:
    unread: Counter[Unread] = Counter()
    connections_of(read_capture(data, unread), unread)
    return " ".join(unread_sentences(unread))


@pytest.mark.parametrize("name", ENCAPSULATIONS)
def test_the_innermost_packet_is_read(name):
    link, header = ENCAPSULATIONS[name]

    assert ip_of(pcap_file(behind(RECORDS, header), link)) == ip_of(WHOLE)


def test_each_link_type_has_an_encapsulation_here():
    assert {link for link, _ in ENCAPSULATIONS.values()} | {229} == set(LINKS)


@pytest.mark.parametrize("order", "<>")
def test_packet_blocks_of_old_files_are_read(order):
    assert ip_of(pcapng_file(RECORDS, kind=OBSOLETE, order=order)) == ip_of(WHOLE)


def test_the_packets_beside_an_unread_interface_are_read():
    urbs = [Record(record.at_ns, b"\x01" * 64, 64, 1) for record in RECORDS[:5]]
    data = pcapng_file([*urbs, *(replace(record, interface=2) for record in RECORDS)], (1, 189, 1))

    assert ip_of(data) == ip_of(WHOLE)
    assert "5 packets of link type 189 (USB)" in unread_in(data)


def test_packets_without_a_stamp_are_counted():
    assert f"{len(RECORDS)} packets without a time stamp" in unread_in(pcapng_file(RECORDS, kind=SIMPLE))


@pytest.mark.parametrize(
    ("header", "says"),
    [
        (ipv4(50), "within IPsec"),
        (ipv4(17) + struct.pack(">HHHH", 4500, 4500, 0, 0), "within IPsec"),
        (ipv4(17) + struct.pack(">HHHH", 50000, 2152, 0, 0), "within GTP-U"),
        (ipv4(47) + b"\x20\x01\x88\x0b" + bytes(8), "within PPTP"),
        (ipv4(47) + b"\x00\x00\x88\xe5", "within MACsec"),
        (ipv4(6, fragment=0x2000), "fragments of TCP"),
    ],
    ids=["ESP", "ESP over UDP", "GTP-U", "PPTP", "MACsec", "fragments"],
)
def test_tunnels_that_are_not_read_are_named(header, says):
    sentence = unread_in(pcap_file(behind(RECORDS, header), RAW))

    assert f"{len(RECORDS)} packets" in sentence
    assert says in sentence
    assert "capture" in sentence


def test_packets_of_other_protocols_are_not_worth_a_word():
    arp = Record(0, b"\xff" * 12 + b"\x08\x06" + bytes(28), 42)
    dns = Record(0, b"\xff" * 12 + b"\x08\x00" + ipv4(17) + struct.pack(">HHHH", 50000, 53, 0, 0), 42)

    assert unread_in(pcap_file([arp, dns])) == ""


@pytest.mark.parametrize("length", [14, 20, 34, 40, 53])
def test_headers_that_are_cut_off_are_named(length):
    data = pcap_file(replace(record, frame=record.frame[:length]) for record in RECORDS)

    assert f"{len(RECORDS)} packets cut before the end of their headers: capture with `tcpdump -s 128`" in unread_in(
        data
    )


def test_options_that_the_capture_cuts_off_are_not_known():
    whole = figures_of(connections_of(read_capture(WHOLE))[0])
    cut = figures_of(
        connections_of(read_capture(pcap_file(replace(record, frame=record.frame[:60]) for record in RECORDS)))[0]
    )

    assert "not known" in dict(capture_rows(cut))["SACK"]
    assert cut.window_max_bytes is None
    assert cut.unique_bytes == whole.unique_bytes


def test_a_tunnel_within_itself_ends():
    header = bytearray(ipv4(4))
    header[0] = 0x40

    assert ip_of(pcap_file([Record(0, bytes(header) * 4, 80)], RAW)) == []


@pytest.mark.parametrize(
    "packed",
    [gzip.compress(WHOLE), gzip.compress(WHOLE[:1000]) + gzip.compress(WHOLE[1000:])],
    ids=["one member", "two members"],
)
def test_a_file_of_gzip_is_read(packed):
    assert ip_of(packed) == ip_of(WHOLE)


def test_a_file_of_gzip_that_ends_early_is_read_so_far():
    packed = gzip.compress(WHOLE)

    read = ip_of(packed[: len(packed) // 2])

    assert 0 < len(read) < len(ip_of(WHOLE))
    assert read == ip_of(WHOLE)[: len(read)]


def test_a_file_of_gzip_is_unpacked_up_to_a_limit():
    bomb = gzip.compress(WHOLE[:24] + bytes(30 << 20))

    with pytest.raises(CaptureError, match="more than 4 MB"):
        read_capture(bomb, most_bytes=4 << 20)


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (b"snoop\0\0\0\0\0\0\x02\0\0\0\x04", "snoop.*editcap"),
        (b"GMBU\0\x02", "Network Monitor.*editcap"),
        (b"\xfd7zXZ\0\0", "xz.*unpack"),
        (b"\x28\xb5\x2f\xfd\0", "zstd.*unpack"),
        (b"PK\x03\x04", "zip.*unpack"),
        (gzip.compress(gzip.compress(WHOLE)), "twice.*unpack"),
        (b"12:00:00.1 IP 192.0.2.1.5201 > 192.0.2.2.4000: Flags [.]\n", "text.*tcpdump -w"),
        (b"", "empty"),
        (b"\x1f\x8b\x08" + bytes(7) + b"no deflate", "gunzip"),
        (b"\x1f\x8b\x08\0", "gzip.*too early"),
        (bytes(100), "not a pcap.*tcpdump -w.*editcap"),
    ],
    ids=[
        "snoop",
        "NetMon",
        "xz",
        "zstd",
        "zip",
        "gzip twice",
        "text",
        "empty",
        "damaged gzip",
        "beginning of gzip",
        "unknown",
    ],
)
def test_other_files_are_named_with_the_remedy(data, says):
    with pytest.raises(CaptureError, match=says):
        read_capture(data)


def test_a_pcap_of_an_unread_link_type_says_how_to_capture():
    with pytest.raises(CaptureError, match=r"link type 127 \(IEEE 802.11 with radiotap\).*capture on"):
        list(read_capture(pcap_file(RECORDS, 127)))


def command(path, *arguments):
    output, errors = StringIO(), StringIO()
    call_command("throughput", "packets", str(path), *arguments, stdout=output, stderr=errors)
    return output.getvalue(), errors.getvalue()


@pytest.mark.parametrize(("arguments", "place"), [((), 0), (("--json",), 1)])
def test_the_command_names_the_packets_not_read(tmp_path, arguments, place):
    other = Record(0, b"\x01" * 64, 64, 1)
    (tmp_path / "it").write_bytes(gzip.compress(pcapng_file([other, *RECORDS], (1, 105))))

    printed = command(tmp_path / "it", *arguments)

    assert "Not read: 1 packet of link type 105 (IEEE 802.11)" in printed[place]
    assert "Not read" not in printed[1 - place]


def test_the_command_says_why_a_capture_has_no_data(tmp_path):
    (tmp_path / "it").write_bytes(pcap_file(replace(record, frame=record.frame[:40]) for record in RECORDS))

    with pytest.raises(CommandError, match=f"no TCP packets with data in it; {len(RECORDS)} packets cut"):
        command(tmp_path / "it")
