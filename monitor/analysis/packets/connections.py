"""The TCP connections of a capture, each with the segments of both directions (RFC 9293, RFC 7323, RFC 2018)."""

from __future__ import annotations

import ipaddress
import struct
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

from monitor.analysis.packets.capture_file import CapturedPacket
from monitor.analysis.packets.copies import LEAST_COPIED_RATIO, RecentPackets
from monitor.analysis.packets.encapsulation import EXTENSION_HEADERS, TCP
from monitor.analysis.packets.unread import CUT, FRAGMENTS, NOT_TCP, Unread

FIN, SYN, RST, ACK = 1, 2, 4, 16
IPV6_FRAGMENT = 44
MSS_OPTION, SCALE_OPTION, SACK_OPTION = 2, 3, 5
SEQUENCE_NUMBERS = 1 << 32
# Address, 4 or 16 bytes, and port.
End = tuple[bytes, int]
# RFC 7323, section 2.3.
LARGEST_SCALE = 14
# The most that Linux hands to a network card as a segment (GSO_MAX_SIZE).
LONGEST_SEGMENT_BYTES = 8 * 65_535
# Packets of an interface are timestamped in order, but for a few milliseconds on a busy host.
CLOCK_STEP_NS = 10_000_000


@dataclass(frozen=True, slots=True)
class TcpSegment:
    at_ns: int
    begin: int  # from the direction's first sequence number; SYN and FIN count one
    end: int
    payload_bytes: int
    flags: int
    ack: int | None  # from the other direction's first sequence number, as sack
    window: int
    sack: tuple[tuple[int, int], ...] = ()


@dataclass(slots=True)
class TcpDirection:
    """One direction of a connection; fields that its SYN would give are None without it."""

    source_end: End
    destination_end: End
    segments: list[TcpSegment] = field(default_factory=list)
    mss_bytes: int | None = None
    window_scale: int | None = None
    first: int | None = None
    newest: int = 0
    # Segments with options missing in the capture.
    cut_packets: int = 0
    recent: RecentPackets = field(default_factory=RecentPackets)
    acknowledged: int | None = None
    # Whether the newest window that it offers is zero.
    is_closed: bool = False
    # The byte that it sent into a closed window, to learn when it opens.
    probed: int | None = None

    @property
    def source(self) -> str:
        return _name(self.source_end)

    @property
    def destination(self) -> str:
        return _name(self.destination_end)

    @property
    def payload_bytes(self) -> int:
        """All bytes of payload in its segments, including retransmissions."""
        return sum(segment.payload_bytes for segment in self.segments)

    def offset(self, number: int) -> int:
        """A sequence number as distance from the first, nearest to the newest, since it wraps at 4 GB."""
        if self.first is None:
            self.first = number
        near = (number - self.first - self.newest) % SEQUENCE_NUMBERS
        return self.newest + (near if near < SEQUENCE_NUMBERS // 2 else near - SEQUENCE_NUMBERS)


@dataclass(slots=True)
class TcpConnection:
    """A connection: first the direction of the end that opened it, or of the first packet captured."""

    directions: tuple[TcpDirection, TcpDirection]
    clock_back_ns: int | None = None  # last backward step of the capture's clock within it; None without
    clock_steps: int | None = None

    @property
    def sender(self) -> TcpDirection:
        """The direction with more payload."""
        first, second = self.directions
        return first if first.payload_bytes >= second.payload_bytes else second

    def other(self, direction: TcpDirection) -> TcpDirection:
        first, second = self.directions
        return second if direction is first else first


@dataclass(frozen=True, slots=True)
class _TcpPacket:
    ip_id: int
    header: bytes  # of TCP, without its checksum, which network cards may fill in later
    source: End
    destination: End
    sequence: int
    acknowledged: int
    flags: int
    window: int
    payload_bytes: int
    options: bytes
    has_options: bool


@dataclass(slots=True)
class _Clocks:
    newest_ns: dict[int, int] = field(default_factory=dict)  # newest timestamp by interface
    steps: int = 0  # how often a clock went back
    last_step_ns: int = 0

    def read(self, packet: CapturedPacket) -> None:
        newest_ns = self.newest_ns.get(packet.interface, packet.at_ns)
        if packet.at_ns < newest_ns - CLOCK_STEP_NS:
            self.steps, self.last_step_ns, newest_ns = self.steps + 1, newest_ns - packet.at_ns, packet.at_ns
        self.newest_ns[packet.interface] = max(newest_ns, packet.at_ns)


def connections_of(packets: Iterable[CapturedPacket], unread: Counter[Unread] | None = None) -> list[TcpConnection]:
    """TCP connections in order of their first packets; a SYN on used ports begins a new one. Skipped packets are
    counted in `unread`, copies in their direction."""
    connections: list[TcpConnection] = []
    latest: dict[frozenset[End], TcpConnection] = {}
    clocks = _Clocks()
    for packet in packets:
        tcp = _tcp_packet(packet)
        if isinstance(tcp, Unread):
            if unread is not None:
                unread[tcp] += 1
            continue
        ends = frozenset((tcp.source, tcp.destination))
        connection = latest.get(ends)
        if connection is None or _begins_anew(connection, tcp):
            connection = latest[ends] = _opened(tcp)
            connections.append(connection)
        if not _add(connection, tcp, packet.at_ns):
            continue
        clocks.read(packet)
        if connection.clock_steps not in (None, clocks.steps):
            connection.clock_back_ns = clocks.last_step_ns
        connection.clock_steps = clocks.steps
    for connection in connections:
        _leave_out_copies(connection)
    return connections


def _leave_out_copies(connection: TcpConnection) -> None:
    places = [set(way.recent.likely_copies) for way in connection.directions]
    data, copied = 0, 0
    for way, likely in zip(connection.directions, places, strict=True):
        carrying = [place for place, segment in enumerate(way.segments) if segment.payload_bytes]
        data, copied = data + len(carrying), copied + len(likely.intersection(carrying))
    for way, likely in zip(connection.directions, places, strict=True):
        if likely and copied >= LEAST_COPIED_RATIO * data:
            way.recent.copies += len(likely)
            way.segments = [segment for place, segment in enumerate(way.segments) if place not in likely]
        way.recent.forget()


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


def _add(connection: TcpConnection, tcp: _TcpPacket, at_ns: int) -> bool:
    """Add a packet unless it is a copy; return whether it was added."""
    direction = _direction_of(connection, tcp)
    other = connection.other(direction)
    # Linux answers a SYN with identification 0 too, but sends none again within a second.
    key, is_sure = (tcp.ip_id, tcp.header, tcp.payload_bytes), bool(tcp.ip_id or tcp.flags & SYN)
    if direction.recent.is_copy(key, is_sure, at_ns, len(direction.segments)):
        return False
    direction.cut_packets += not tcp.has_options
    if tcp.flags & SYN and tcp.has_options:
        _add_syn_options(direction, tcp.options)
    begin, payload_bytes = direction.offset(tcp.sequence), tcp.payload_bytes
    if payload_bytes > 1 and direction.recent.is_copied_part(tcp.ip_id, begin, payload_bytes, at_ns, direction.newest):
        return False
    if not tcp.flags & (SYN | FIN | RST):
        begin, payload_bytes = _without_probe(direction, other, begin, payload_bytes)
    end = begin + payload_bytes + bool(tcp.flags & SYN) + bool(tcp.flags & FIN)
    direction.newest = max(direction.newest, end)
    ack = other.offset(tcp.acknowledged) if tcp.flags & ACK else None
    if ack is not None:
        direction.acknowledged, direction.is_closed = max(ack, direction.acknowledged or 0), not tcp.window
    sack = tuple((other.offset(left), other.offset(right)) for left, right in _sack_blocks(tcp.options))
    segment = TcpSegment(at_ns, begin, end, payload_bytes, tcp.flags, ack, tcp.window, sack)
    direction.segments.append(segment)
    return True


def _without_probe(direction: TcpDirection, other: TcpDirection, begin: int, payload_bytes: int) -> tuple[int, int]:
    """Segment data without the byte of a keep-alive (RFC 9293, section 3.8.4) or repeated window probe (section
    3.8.6.1)."""
    if payload_bytes == 1:
        is_keep_alive = begin + 1 == direction.newest and (other.acknowledged or begin + 1) > begin
        if begin < direction.newest and (is_keep_alive or other.is_closed):
            return begin, 0
        if other.is_closed:
            direction.probed = begin
    elif payload_bytes and begin == direction.probed:
        direction.probed = None
        return begin + 1, payload_bytes - 1
    return begin, payload_bytes


def _add_syn_options(direction: TcpDirection, options: bytes) -> None:
    values = dict(_options(options))
    mss, scale = values.get(MSS_OPTION, b""), values.get(SCALE_OPTION, b"")
    direction.mss_bytes = struct.unpack(">H", mss)[0] if len(mss) == 2 else None
    direction.window_scale = min(scale[0], LARGEST_SCALE) if len(scale) == 1 else None


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


def _tcp_packet(packet: CapturedPacket) -> _TcpPacket | Unread:
    ip = packet.ip
    layout = _ipv4(ip, packet.wire_bytes) if ip[0] >> 4 == 4 else _ipv6(ip, packet.wire_bytes)
    if isinstance(layout, Unread):
        return layout
    at = layout.header_bytes
    if len(ip) < at + 20:
        return CUT
    ports = struct.unpack_from(">HHIIBBH", ip, at)
    source_port, destination_port, sequence, acknowledged, offset, flags, window = ports
    end = at + (offset >> 4) * 4
    if end < at + 20:
        return NOT_TCP
    return _TcpPacket(
        ip_id=layout.ip_id,
        header=ip[at : at + 16] + ip[at + 18 : end],
        source=(layout.source, source_port),
        destination=(layout.destination, destination_port),
        sequence=sequence,
        acknowledged=acknowledged,
        flags=flags,
        window=window,
        payload_bytes=max(0, layout.total_bytes - end),
        options=ip[at + 20 : end],
        has_options=len(ip) >= end,
    )


@dataclass(frozen=True, slots=True)
class _IpHeader:
    """The header of an IP packet that carries TCP."""

    source: bytes
    destination: bytes
    header_bytes: int
    total_bytes: int
    ip_id: int = 0  # 0 where it has none


def _ipv4(ip: bytes, wire_bytes: int) -> _IpHeader | Unread:
    if len(ip) < 20:
        return CUT
    total, ip_id, fragment = struct.unpack_from(">HHH", ip, 2)
    if ip[9] != TCP:
        return NOT_TCP
    if fragment & 0x3FFF:
        return FRAGMENTS
    # A segment of 64 kB and more, before the network card cuts it, has no length of its own.
    total = total or min(wire_bytes, LONGEST_SEGMENT_BYTES)
    return _IpHeader(ip[12:16], ip[16:20], (ip[0] & 0x0F) * 4, total, ip_id)


def _ipv6(ip: bytes, wire_bytes: int) -> _IpHeader | Unread:
    if len(ip) < 40:
        return CUT
    length, following = struct.unpack_from(">HB", ip, 4)
    at = 40
    while following in EXTENSION_HEADERS and len(ip) >= at + 2:
        following, at = ip[at], at + 8 + ip[at + 1] * 8
    if following == IPV6_FRAGMENT and len(ip) > at and ip[at] == TCP:
        return FRAGMENTS
    if following != TCP:
        return CUT if following in EXTENSION_HEADERS else NOT_TCP
    return _IpHeader(ip[8:24], ip[24:40], at, 40 + length if length else min(wire_bytes, LONGEST_SEGMENT_BYTES))
