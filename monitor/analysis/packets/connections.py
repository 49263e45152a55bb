"""The TCP connections of a capture, each with the segments of both directions (RFC 9293, RFC 7323, RFC 2018)."""

from __future__ import annotations

import ipaddress
import struct
from collections.abc import Iterable
from dataclasses import dataclass, field

from monitor.analysis.packets.capture_file import CapturedPacket

TCP = 6
FIN, SYN, RST, ACK = 1, 2, 4, 16
EXTENSION_HEADERS = {0, 43, 60}
MSS_OPTION, SCALE_OPTION, SACK_PERMITTED_OPTION, SACK_OPTION = 2, 3, 4, 5
SEQUENCE_NUMBERS = 1 << 32
End = tuple[bytes, int]
"""Address, 4 or 16 bytes, and port."""
LARGEST_SCALE = 14
"""RFC 7323, section 2.3."""
LONGEST_SEGMENT_BYTES = 8 * 65_535
"""The most that Linux hands to a network card as a segment (GSO_MAX_SIZE)."""


@dataclass(frozen=True, slots=True)
class TcpSegment:
    """A segment as captured. `begin` and `end` count from the direction's first sequence number (SYN and FIN take one
    each), `ack` and the SACK blocks from that of the other direction."""

    at_ns: int
    begin: int
    end: int
    payload_bytes: int
    flags: int
    ack: int | None
    window: int
    sack: tuple[tuple[int, int], ...] = ()


@dataclass(slots=True)
class TcpDirection:
    """One direction of a connection; None where its SYN was not captured or does not say so."""

    source_end: End
    destination_end: End
    segments: list[TcpSegment] = field(default_factory=list)
    mss_bytes: int | None = None
    window_scale: int | None = None
    sack_permitted: bool | None = None
    first: int | None = None
    newest: int = 0

    @property
    def source(self) -> str:
        """Address and port."""
        return _name(self.source_end)

    @property
    def destination(self) -> str:
        """Address and port."""
        return _name(self.destination_end)

    @property
    def payload_bytes(self) -> int:
        """All bytes of payload in its segments, repeated ones too."""
        return sum(segment.payload_bytes for segment in self.segments)

    def offset(self, number: int) -> int:
        """A sequence number as distance from the first: the one nearest to the newest, since they wrap at 4 GB."""
        if self.first is None:
            self.first = number
        near = (number - self.first - self.newest) % SEQUENCE_NUMBERS
        return self.newest + (near if near < SEQUENCE_NUMBERS // 2 else near - SEQUENCE_NUMBERS)


@dataclass(slots=True)
class TcpConnection:
    """A connection: first the direction of the end that opened it, or of the first packet captured."""

    directions: tuple[TcpDirection, TcpDirection]

    @property
    def sender(self) -> TcpDirection:
        """The direction with more payload."""
        first, second = self.directions
        return first if first.payload_bytes >= second.payload_bytes else second

    def other(self, direction: TcpDirection) -> TcpDirection:
        """The opposite direction."""
        first, second = self.directions
        return second if direction is first else first


@dataclass(frozen=True, slots=True)
class _TcpPacket:
    source: End
    destination: End
    sequence: int
    acknowledged: int
    flags: int
    window: int
    payload_bytes: int
    options: bytes


def connections_of(packets: Iterable[CapturedPacket]) -> list[TcpConnection]:
    """The TCP connections in the order of their first packets. A SYN on ports used before begins a new one.

    Packets that are not TCP, fragments and headers that were cut are left out.
    """
    connections: list[TcpConnection] = []
    latest: dict[frozenset[End], TcpConnection] = {}
    for packet in packets:
        tcp = _tcp_packet(packet)
        if tcp is None:
            continue
        ends = frozenset((tcp.source, tcp.destination))
        connection = latest.get(ends)
        if connection is None or _begins_anew(connection, tcp):
            connection = latest[ends] = _opened(tcp)
            connections.append(connection)
        _add(connection, tcp, packet.at_ns)
    return connections


def _begins_anew(connection: TcpConnection, tcp: _TcpPacket) -> bool:
    if tcp.flags & (SYN | ACK) != SYN:
        return False
    direction = _direction_of(connection, tcp)
    return direction.first is not None and direction.first != tcp.sequence


def _opened(tcp: _TcpPacket) -> TcpConnection:
    ways = (TcpDirection(tcp.source, tcp.destination), TcpDirection(tcp.destination, tcp.source))
    return TcpConnection(ways[::-1] if tcp.flags & (SYN | ACK) == SYN | ACK else ways)


def _name(end: End) -> str:
    address, port = ipaddress.ip_address(end[0]), end[1]
    return f"{address}:{port}" if address.version == 4 else f"[{address}]:{port}"


def _direction_of(connection: TcpConnection, tcp: _TcpPacket) -> TcpDirection:
    first, second = connection.directions
    return first if first.source_end == tcp.source else second


def _add(connection: TcpConnection, tcp: _TcpPacket, at_ns: int) -> None:
    direction = _direction_of(connection, tcp)
    other = connection.other(direction)
    if tcp.flags & SYN:
        _add_syn_options(direction, tcp.options)
    begin = direction.offset(tcp.sequence)
    end = begin + tcp.payload_bytes + bool(tcp.flags & SYN) + bool(tcp.flags & FIN)
    direction.newest = max(direction.newest, end)
    ack = other.offset(tcp.acknowledged) if tcp.flags & ACK else None
    sack = tuple((other.offset(left), other.offset(right)) for left, right in _sack_blocks(tcp.options))
    segment = TcpSegment(at_ns, begin, end, tcp.payload_bytes, tcp.flags, ack, tcp.window, sack)
    direction.segments.append(segment)


def _add_syn_options(direction: TcpDirection, options: bytes) -> None:
    values = dict(_options(options))
    mss, scale = values.get(MSS_OPTION, b""), values.get(SCALE_OPTION, b"")
    direction.mss_bytes = struct.unpack(">H", mss)[0] if len(mss) == 2 else None
    direction.window_scale = min(scale[0], LARGEST_SCALE) if len(scale) == 1 else None
    direction.sack_permitted = SACK_PERMITTED_OPTION in values


def _sack_blocks(options: bytes) -> list[tuple[int, int]]:
    if not options:
        return []
    blocks = dict(_options(options)).get(SACK_OPTION, b"")
    return [struct.unpack_from(">II", blocks, at) for at in range(0, len(blocks) - 7, 8)]


def _options(options: bytes) -> Iterable[tuple[int, bytes]]:
    at = 0
    while at < len(options) and options[at] != 0:
        if options[at] == 1:
            at += 1
            continue
        length = options[at + 1] if at + 1 < len(options) else 0
        if length < 2 or at + length > len(options):
            return
        yield options[at], options[at + 2 : at + length]
        at += length


def _tcp_packet(packet: CapturedPacket) -> _TcpPacket | None:
    ip = packet.ip
    if ip[0] >> 4 == 4:
        layout = _ipv4(ip, packet.wire_bytes)
    elif ip[0] >> 4 == 6:
        layout = _ipv6(ip, packet.wire_bytes)
    else:
        return None
    if layout is None:
        return None
    source, destination, at, ip_bytes = layout
    if len(ip) < at + 20:
        return None
    ports = struct.unpack_from(">HHIIBBH", ip, at)
    source_port, destination_port, sequence, acknowledged, offset, flags, window = ports
    header_bytes = (offset >> 4) * 4
    if header_bytes < 20:
        return None
    return _TcpPacket(
        source=(source, source_port),
        destination=(destination, destination_port),
        sequence=sequence,
        acknowledged=acknowledged,
        flags=flags,
        window=window,
        payload_bytes=max(0, ip_bytes - at - header_bytes),
        options=ip[at + 20 : at + header_bytes],
    )


def _ipv4(ip: bytes, wire_bytes: int) -> tuple[bytes, bytes, int, int] | None:
    """Source, destination, offset of the TCP header, length in bytes; None for other protocols and for fragments."""
    if len(ip) < 20 or ip[9] != TCP or struct.unpack_from(">H", ip, 6)[0] & 0x3FFF:
        return None
    # A segment of 64 kB and more, before the network card cuts it, has no length of its own.
    total = struct.unpack_from(">H", ip, 2)[0] or min(wire_bytes, LONGEST_SEGMENT_BYTES)
    return ip[12:16], ip[16:20], (ip[0] & 0x0F) * 4, total


def _ipv6(ip: bytes, wire_bytes: int) -> tuple[bytes, bytes, int, int] | None:
    if len(ip) < 40:
        return None
    length, following = struct.unpack_from(">HB", ip, 4)
    at = 40
    while following in EXTENSION_HEADERS and len(ip) >= at + 2:
        following, at = ip[at], at + 8 + ip[at + 1] * 8
    if following != TCP:
        return None
    return ip[8:24], ip[24:40], at, 40 + length if length else min(wire_bytes, LONGEST_SEGMENT_BYTES)
