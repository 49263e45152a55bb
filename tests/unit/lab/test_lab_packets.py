"""Packets of the lab's routers, against bytes made by hand from the RFCs."""

from __future__ import annotations

import socket
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from probes.lab.routing import packets

ROUTER = bytes([198, 51, 100, 1])
ROUTER6 = socket.inet_pton(socket.AF_INET6, "2001:db8::1")

# The header of https://en.wikipedia.org/wiki/Internet_checksum, with a UDP header and data.
UDP = bytes.fromhex("4500 0073 0000 4000 4011 b861 c0a8 0001 c0a8 00c7 3039 829a 005f 0000") + bytes(87)
ECHO6 = (
    bytes.fromhex("6000 0000 0010 3a01")
    + socket.inet_pton(socket.AF_INET6, "fd77::1")
    + socket.inet_pton(socket.AF_INET6, "fd77::2")
    + bytes.fromhex("8000 1234 0001 0002")
    + bytes(8)
)


def sum_of_words(data: bytes) -> int:
    """The one's complement sum, 0xffff over data with a valid checksum (RFC 1071)."""
    total = 0
    for at in range(0, len(data), 2):
        total += int.from_bytes(data[at : at + 2].ljust(2, b"\0"), "big")
        total = (total & 0xFFFF) + (total >> 16)
    return total


def ipv4(protocol: int = 1, payload: bytes = bytes.fromhex("0800 f7ff 0000 0000"), **header: object) -> bytes:
    fields = {"offset": 0, "source": "10.77.1.1", "destination": "10.77.2.1", "ttl": 1, **header}
    source, destination = (socket.inet_aton(str(fields[end])) for end in ("source", "destination"))
    start = struct.pack("!BBHHHBB", 0x45, 0, 20 + len(payload), 7, fields["offset"], fields["ttl"], protocol)
    checksum = 0xFFFF - sum_of_words(start + source + destination)
    return start + struct.pack("!H", checksum) + source + destination + payload


def test_a_router_lowers_the_ttl_and_mends_the_checksum() -> None:
    assert packets.lower_ttl(UDP, 1)[:12] == bytes.fromhex("4500 0073 0000 4000 3f11 b961")
    assert packets.lower_ttl(UDP, 1)[12:] == UDP[12:]
    assert packets.lower_ttl(ECHO6, 1) == ECHO6[:7] + b"\0" + ECHO6[8:]
    assert packets.lower_ttl(UDP, 0) is UDP


@given(ttl=st.integers(1, 255), routers=st.integers(0, 64), identification=st.integers(0, 0xFFFF))
def test_header_checksums_stay_valid_over_any_routers(ttl: int, routers: int, identification: int) -> None:
    packet = ipv4(ttl=max(ttl, routers), offset=identification & 0x4000, source=f"10.77.{identification >> 8}.1")

    lowered = packets.lower_ttl(packet, routers)

    assert lowered[8] == packet[8] - routers
    assert sum_of_words(lowered[:20]) == 0xFFFF


def test_time_exceeded_quotes_the_packet_as_received() -> None:
    error = packets.icmp_error(packets.TIME_EXCEEDED[4], UDP, ROUTER, identification=5)

    # RFC 792: type 11, code 0, checksum, 4 unused bytes, then the header and data of the datagram.
    assert error[:10] == bytes.fromhex("45 c0 00 8f 0005 0000 ff 01")
    assert error[12:20] == ROUTER + bytes([192, 168, 0, 1])
    assert error[20:22] == bytes.fromhex("0b 00")
    assert error[24:28] == bytes(4)
    assert error[28:] == UDP
    assert sum_of_words(error[:20]) == sum_of_words(error[20:]) == 0xFFFF


def test_time_exceeded_of_ipv6_has_a_pseudo_header_checksum() -> None:
    error = packets.icmp_error(packets.TIME_EXCEEDED[6], ECHO6, ROUTER6)

    # RFC 4443, section 3.3: type 3, code 0, checksum, 4 unused bytes, then the packet.
    assert error[:8] == bytes.fromhex("6000 0000 0040 3aff")
    assert error[8:24] == ROUTER6
    assert error[24:40] == ECHO6[8:24]
    assert error[40:42] == bytes.fromhex("03 00")
    assert error[44:48] == bytes(4)
    assert error[48:] == ECHO6
    pseudo = error[8:40] + struct.pack("!II", len(error) - 40, 58)
    assert sum_of_words(pseudo + error[40:]) == 0xFFFF


@pytest.mark.parametrize(
    ("packet", "router", "longest", "headers"), [(UDP, ROUTER, 576, 28), (ECHO6, ROUTER6, 1280, 48)]
)
def test_an_error_quotes_as_much_as_the_rfcs_allow(packet: bytes, router: bytes, longest: int, headers: int) -> None:
    large = packet + bytes(1500)

    error = packets.icmp_error((11, 0), large, router)

    assert len(error) == longest
    assert error[headers:] == large[: longest - headers]


def test_mpls_labels_follow_a_padded_quote() -> None:
    error = packets.icmp_error(packets.TIME_EXCEEDED[4], UDP, ROUTER, labels=[24001])

    # RFC 4884, section 4.1: the length, in words of 4 bytes, is the 6th byte: 32 words, padded with zeros.
    assert error[24:28] == bytes.fromhex("00 20 0000")
    assert error[28:156] == UDP + bytes(128 - len(UDP))
    # RFC 4884, section 7, and RFC 4950, section 4: version 2; class 1, type 1; label 24001, bottom of stack, TTL 1.
    assert error[156:] == bytes.fromhex("2000 c819 0008 0101 05dc 1101")
    assert sum_of_words(error[20:]) == 0xFFFF


def test_a_stack_marks_its_last_label_and_counts_words_of_8_in_ipv6() -> None:
    error = packets.icmp_error(packets.TIME_EXCEEDED[6], ECHO6, ROUTER6, labels=[24017, 16004])

    # RFC 4884, section 4.2: the length, in words of 8 bytes, is the 5th byte.
    assert error[44:48] == bytes.fromhex("10 00 0000")
    assert error[48:176] == ECHO6 + bytes(128 - len(ECHO6))
    assert error[180:] == bytes.fromhex("000c 0101 05dd 1001 03e8 4101")
    assert sum_of_words(error[176:]) == 0xFFFF


@pytest.mark.parametrize(
    ("packet", "is_allowed"),
    [
        (ipv4(), True),
        (ipv4(17), True),
        (ipv4(payload=bytes([11, 0, 0, 0, 0, 0, 0, 0])), False),
        (ipv4(payload=bytes([3, 1, 0, 0, 0, 0, 0, 0])), False),
        (ipv4(offset=0x2000), True),
        (ipv4(offset=0x0010), False),
        (ipv4(destination="224.0.0.1"), False),
        (ipv4(source="0.0.0.0"), False),
        (ECHO6, True),
        (ECHO6[:40] + b"\x03" + ECHO6[41:], False),
        (ECHO6[:24] + b"\xff" + ECHO6[25:], False),
        (ECHO6[:8] + bytes(16) + ECHO6[24:], False),
    ],
)
def test_no_error_about_errors_fragments_or_multicast(packet: bytes, is_allowed: bool) -> None:
    assert packets.allows_error(packet) is is_allowed


def test_a_flow_is_the_first_four_bytes_after_the_header() -> None:
    echo = ipv4(payload=bytes.fromhex("0800 f7ff 0001 0001"))
    next_of_flow = ipv4(payload=bytes.fromhex("0800 f7ff 0001 0002"), ttl=9)
    other_checksum = {packets.flow_hash(ipv4(payload=struct.pack("!BBHI", 8, 0, n, 0))) for n in range(100)}

    assert packets.flow_hash(echo) == packets.flow_hash(next_of_flow)
    assert len(other_checksum) > 90
    assert packets.flow_hash(ECHO6) == packets.flow_hash(ECHO6[:44] + bytes([9]) * 12)
    assert packets.flow_hash(ECHO6) != packets.flow_hash(ECHO6[:42] + b"\x12\x35" + ECHO6[44:])
    assert packets.flow_hash(echo, 1) != packets.flow_hash(echo, 2)


@pytest.mark.parametrize("ways", [2, 3, 4])
def test_flows_of_neighbouring_ports_are_spread_evenly(ways: int) -> None:
    counts = [0] * ways
    for port in range(33434, 33434 + 600):
        counts[packets.flow_hash(ipv4(17, struct.pack("!HHHH", 12345, port, 8, 0)), salt=7) % ways] += 1

    # 600 draws: four standard deviations are 49.
    assert all(abs(count - 600 / ways) < 50 for count in counts)


def test_fragments_of_a_packet_keep_one_route() -> None:
    first, last = ipv4(17, bytes.fromhex("3039 829a 005f 0000"), offset=0x2000), ipv4(17, bytes(8), offset=0x0001)

    assert packets.flow_hash(first) == packets.flow_hash(last)


def test_a_router_answers_pings_and_closed_ports() -> None:
    reply = packets.answer_of_router(ipv4(payload=bytes.fromhex("0800 e5ca 1234 0001")))
    unreachable = packets.answer_of_router(UDP)
    reply6 = packets.answer_of_router(ECHO6)

    assert reply is not None
    assert reply[12:20] == socket.inet_aton("10.77.2.1") + socket.inet_aton("10.77.1.1")
    assert reply[20:] == bytes.fromhex("0000 edca 1234 0001")
    assert reply6 is not None
    assert (reply6[40], reply6[44:]) == (129, ECHO6[44:])
    assert unreachable is not None
    assert unreachable[20:22] == bytes.fromhex("03 03")
    assert packets.answer_of_router(ipv4(6, bytes(20))) is None
