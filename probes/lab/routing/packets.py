"""The bytes that a router reads and writes: flow, TTL, and its ICMP messages. Pure."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Sequence

IPV4, IPV6 = 4, 6
ICMP, UDP, ICMPV6, FRAGMENT_HEADER = 1, 17, 58, 44
# TTL of a router's own packets, as most routers send them.
INITIAL_TTL = 255

TIME_EXCEEDED = {IPV4: (11, 0), IPV6: (3, 0)}
PORT_UNREACHABLE = {IPV4: (3, 3), IPV6: (1, 4)}
# RFC 1812, section 4.3.2.3, and RFC 4443, section 2.4 (c).
LONGEST_ERROR_BYTES = {IPV4: 576, IPV6: 1280}

# Quote before extensions: the minimum of RFC 4884, section 4; tools that ignore its length field expect it.
EXTENDED_QUOTE_BYTES = 128

LENGTH_UNIT_BYTES = {IPV4: 4, IPV6: 8}
EXTENSION_VERSION = 2
LABEL_STACK_CLASS = 1
INCOMING_STACK = 1
# Type of service of ICMP errors (RFC 1812, section 4.3.2.5).
INTERNETWORK_CONTROL = 0xC0

IPV4_HEADER_BYTES = 20
IPV6_HEADER_BYTES = 40
ICMP_HEADER_BYTES = 8
# Type of the reply by protocol and type of the request.
ECHO_REQUESTS = {(ICMP, 8): 0, (ICMPV6, 128): 129}

# ICMP messages that are no errors; an error about an error is never sent.
ICMP_QUERIES = frozenset({0, 8, 13, 14, 15, 16, 17, 18})

FIRST_QUERY_OF_ICMPV6 = 128
_MIX = 0x9E3779B1


def internet_checksum(data: bytes) -> int:
    """The checksum of RFC 1071."""
    if len(data) % 2:
        data += b"\0"
    total: int = sum(struct.unpack(f"!{len(data) // 2}H", data))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return ~total & 0xFFFF


def ttl(packet: bytes) -> int:
    return packet[8] if packet[0] >> 4 == IPV4 else packet[7]


def flow_hash(packet: bytes, salt: int = 0) -> int:
    """A hash of the flow, 0 to 65535; fragments have only addresses."""
    if packet[0] >> 4 == IPV4:
        start = 4 * (packet[0] & 15)
        is_fragment = packet[6] & 0x3F or packet[7]
        flow = packet[12:20] + packet[9:10] + (b"" if is_fragment else packet[start : start + 4])
    else:
        flow = packet[8:40] + packet[6:7] + (b"" if packet[6] == FRAGMENT_HEADER else packet[40:44])
    # A CRC alone would give flows whose ports differ in a bit the same difference each time.
    mixed = zlib.crc32(flow, salt) * _MIX & 0xFFFFFFFF
    return (mixed ^ mixed >> 15) * _MIX >> 16 & 0xFFFF


def lower_ttl(packet: bytes, routers: int) -> bytes:
    """The packet after `routers` routers, with its IPv4 header checksum updated (RFC 1624, equation 3)."""
    if not routers:
        return packet
    if packet[0] >> 4 == IPV6:
        return packet[:7] + bytes((packet[7] - routers,)) + packet[8:]
    before, protocol, checksum = packet[8], packet[9], packet[10] << 8 | packet[11]
    total = (~checksum & 0xFFFF) + (~(before << 8 | protocol) & 0xFFFF) + ((before - routers) << 8 | protocol)
    total = (total & 0xFFFF) + (total >> 16)
    total = (total & 0xFFFF) + (total >> 16)
    return packet[:8] + struct.pack("!BBH", before - routers, protocol, ~total & 0xFFFF) + packet[12:]


def allows_error(packet: bytes) -> bool:
    """Whether an ICMP error about the packet is allowed (RFC 1812, section 4.3.2.7; RFC 4443, section 2.4 (e))."""
    if packet[0] >> 4 == IPV6:
        is_multicast = packet[8] == 0xFF or packet[24] == 0xFF
        is_error = packet[6] == ICMPV6 and packet[40:41] < bytes((FIRST_QUERY_OF_ICMPV6,))
        return not is_multicast and not is_error and any(packet[8:24])
    offset = (packet[6] & 0x1F) << 8 | packet[7]
    is_unicast = 0 < packet[12] < 224 and packet[12] != 127 and packet[16] < 224
    start = 4 * (packet[0] & 15)
    is_error = packet[9] == ICMP and packet[start] not in ICMP_QUERIES if len(packet) > start else False
    return is_unicast and not offset and not is_error


def icmp_error(
    kind: tuple[int, int], packet: bytes, router: bytes, labels: Sequence[int] = (), identification: int = 0
) -> bytes:
    """The ICMP error `kind` (type, code) about `packet` (RFC 1812, RFC 4443).

    With MPLS `labels` it quotes 128 bytes and the stack (RFC 4884, RFC 4950).
    """
    family = packet[0] >> 4
    header_bytes = IPV4_HEADER_BYTES if family == IPV4 else IPV6_HEADER_BYTES
    quote = packet[: LONGEST_ERROR_BYTES[family] - header_bytes - ICMP_HEADER_BYTES]
    length, extension = 0, b""
    if labels:
        quote = packet[:EXTENDED_QUOTE_BYTES].ljust(EXTENDED_QUOTE_BYTES, b"\0")
        length, extension = EXTENDED_QUOTE_BYTES // LENGTH_UNIT_BYTES[family], label_stack(labels)
    # The length field is the second byte after the checksum in IPv4, and the first in IPv6.
    rest = struct.pack("!BBH", 0, length, 0) if family == IPV4 else struct.pack("!BBH", length, 0, 0)
    source = packet[12:16] if family == IPV4 else packet[8:24]
    return _icmp_packet(kind, rest + quote + extension, router, source, identification)


def label_stack(labels: Sequence[int]) -> bytes:
    """MPLS label stack extension, topmost first (RFC 4950), each with TTL 1."""
    entries = b"".join(
        struct.pack("!I", label << 12 | (position == len(labels)) << 8 | 1) for position, label in enumerate(labels, 1)
    )
    payload = struct.pack("!HBB", 4 + len(entries), LABEL_STACK_CLASS, INCOMING_STACK) + entries
    header = struct.pack("!BBH", EXTENSION_VERSION << 4, 0, 0)
    return header[:2] + struct.pack("!H", internet_checksum(header + payload)) + payload


def answer_of_router(packet: bytes, identification: int = 0) -> bytes | None:
    """Echo reply or port unreachable of a router to `packet`; None for other packets."""
    family = packet[0] >> 4
    start = 4 * (packet[0] & 15) if family == IPV4 else IPV6_HEADER_BYTES
    protocol = packet[9] if family == IPV4 else packet[6]
    source, router = (packet[12:16], packet[16:20]) if family == IPV4 else (packet[8:24], packet[24:40])
    if protocol == UDP and allows_error(packet):
        return icmp_error(PORT_UNREACHABLE[family], packet, router, (), identification)
    reply = ECHO_REQUESTS.get((protocol, packet[start])) if len(packet) >= start + ICMP_HEADER_BYTES else None
    if reply is None:
        return None
    return _icmp_packet((reply, 0), packet[start + 4 :], router, source, identification)


def _icmp_packet(kind: tuple[int, int], rest: bytes, source: bytes, destination: bytes, identification: int) -> bytes:
    length = 4 + len(rest)
    if len(source) == 16:
        pseudo = source + destination + struct.pack("!II", length, ICMPV6)
        checksum = internet_checksum(pseudo + struct.pack("!BBH", *kind, 0) + rest)
        header = struct.pack("!IHBB", IPV6 << 28, length, ICMPV6, INITIAL_TTL) + source + destination
        return header + struct.pack("!BBH", *kind, checksum) + rest
    checksum = internet_checksum(struct.pack("!BBH", *kind, 0) + rest)
    size = IPV4_HEADER_BYTES + length
    fields = (0x45, INTERNETWORK_CONTROL, size, identification & 0xFFFF, 0, INITIAL_TTL, ICMP)
    header = struct.pack("!BBHHHBBH", *fields, 0) + source + destination
    header = struct.pack("!BBHHHBBH", *fields, internet_checksum(header)) + source + destination
    return header + struct.pack("!BBH", *kind, checksum) + rest
