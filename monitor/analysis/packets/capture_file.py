"""The packets of a capture file: pcap (draft-ietf-opsawg-pcap) and pcapng (draft-ietf-opsawg-pcapng).

In: the file's bytes. Out: the packets, in the order of the file, from the IP header on. Both byte orders, stamps in
microseconds and nanoseconds, Ethernet with VLAN tags, Linux's cooked captures, raw IP and loopback.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass, field

NS = 1_000_000_000
PCAP_MAGICS = {
    b"\xa1\xb2\xc3\xd4": (">", 1000),
    b"\xd4\xc3\xb2\xa1": ("<", 1000),
    b"\xa1\xb2\x3c\x4d": (">", 1),
    b"\x4d\x3c\xb2\xa1": ("<", 1),
}
"""First bytes: byte order, nanoseconds of a unit of its stamps."""
PCAPNG_MAGIC = b"\x0a\x0d\x0d\x0a"
MOST_CAPTURED_BYTES = 262_144
"""The most bytes of a packet that tcpdump keeps; a length beyond it is a damaged file."""

ETHERNET, RAW, RAW_BSD, NULL, LOOP, COOKED, COOKED_2, IPV4, IPV6 = 1, 101, 12, 0, 108, 113, 276, 228, 229
LINK_NAMES = "Ethernet, raw IP, loopback and Linux cooked captures"
IP_TYPES = (0x0800, 0x86DD)
VLAN_TYPES = (0x8100, 0x88A8, 0x9100)

SECTION, INTERFACE, SIMPLE, ENHANCED = 0x0A0D0D0A, 1, 3, 6
TIMESTAMP_RESOLUTION, TIMESTAMP_OFFSET = 9, 14


class CaptureError(ValueError):
    """A file that is no capture or is damaged; says where."""


@dataclass(frozen=True, slots=True)
class CapturedPacket:
    """A packet from its IP header on, as far as it was captured; its length on the wire from there on, in bytes."""

    at_ns: int
    ip: bytes
    wire_bytes: int


def read_capture(data: bytes) -> Iterator[CapturedPacket]:
    """The IP packets of a pcap or pcapng file. A file that ends within a packet ends before it.

    Raises CaptureError for other files, unknown link types, and lengths that cannot be.
    """
    if data[:4] in PCAP_MAGICS:
        return _pcap(data)
    if data[:4] == PCAPNG_MAGIC:
        return _pcapng(data)
    raise CaptureError("not a pcap or pcapng file: it does not begin as either does")


def _pcap(data: bytes) -> Iterator[CapturedPacket]:
    order, unit_ns = PCAP_MAGICS[data[:4]]
    header = struct.Struct(f"{order}IIII")
    if len(data) < 24:
        raise CaptureError("the file ends within its header, at byte 24")
    link = struct.unpack_from(f"{order}I", data, 20)[0] & 0xFFFF
    _check_link(link)
    at = 24
    while at + header.size <= len(data):
        seconds, fraction, captured, wire = header.unpack_from(data, at)
        _check_length(captured, at)
        begin, at = at + header.size, at + header.size + captured
        if at > len(data):
            return
        packet = _from_ip(link, data[begin:at], wire, seconds * NS + fraction * unit_ns)
        if packet is not None:
            yield packet


@dataclass(slots=True)
class _Section:
    """A section of a pcapng file: its byte order; link type, stamp unit and offset of each interface."""

    order: str
    interfaces: list[tuple[int, float, int]] = field(default_factory=list)


def _pcapng(data: bytes) -> Iterator[CapturedPacket]:
    section = _Section("<")
    at = 0
    while at + 12 <= len(data):
        if data[at : at + 4] == PCAPNG_MAGIC:
            section = _Section(_order_of(data, at))
        kind, length = struct.unpack_from(f"{section.order}II", data, at)
        if length < 12 or length % 4 or length > MOST_CAPTURED_BYTES * 4:
            raise CaptureError(f"block of {length} bytes at byte {at}: the file is damaged")
        body = data[at + 8 : at + length - 4]
        if at + length > len(data):
            return
        if kind == INTERFACE:
            section.interfaces.append(_interface(section.order, body, at))
        elif kind in (ENHANCED, SIMPLE):
            packet = _packet_of_block(section, kind, body, at)
            if packet is not None:
                yield packet
        at += length


def _order_of(data: bytes, at: int) -> str:
    mark = data[at + 8 : at + 12]
    if mark == b"\x1a\x2b\x3c\x4d":
        return ">"
    if mark == b"\x4d\x3c\x2b\x1a":
        return "<"
    raise CaptureError(f"section without byte order at byte {at}: the file is damaged")


def _interface(order: str, body: bytes, at: int) -> tuple[int, float, int]:
    """Link type, nanoseconds of a unit, offset in nanoseconds."""
    if len(body) < 8:
        raise CaptureError(f"interface of {len(body)} bytes at byte {at}: the file is damaged")
    link = struct.unpack_from(f"{order}H", body)[0]
    _check_link(link)
    unit_ns, offset_ns, option = 1000.0, 0, 8
    while option + 4 <= len(body):
        code, length = struct.unpack_from(f"{order}HH", body, option)
        value = body[option + 4 : option + 4 + length]
        if code == TIMESTAMP_RESOLUTION and len(value) == 1:
            unit_ns = NS * (2.0 ** -(value[0] & 0x7F) if value[0] & 0x80 else 10.0 ** -value[0])
        elif code == TIMESTAMP_OFFSET and len(value) == 8:
            offset_ns = struct.unpack(f"{order}q", value)[0] * NS
        option += 4 + length + (-length % 4)
    return link, unit_ns, offset_ns


def _packet_of_block(section: _Section, kind: int, body: bytes, at: int) -> CapturedPacket | None:
    if kind == SIMPLE:
        raise CaptureError(f"packet without a stamp at byte {at}: capture with time stamps")
    if len(body) < 20:
        raise CaptureError(f"packet block of {len(body)} bytes at byte {at}: the file is damaged")
    number, high, low, captured, wire = struct.unpack_from(f"{section.order}IIIII", body)
    if number >= len(section.interfaces):
        raise CaptureError(f"packet of interface {number}, which the file does not describe, at byte {at}")
    _check_length(captured, at)
    link, unit_ns, offset_ns = section.interfaces[number]
    units = high << 32 | low
    at_ns = offset_ns + (units * int(unit_ns) if unit_ns >= 1 else int(units * unit_ns))
    return _from_ip(link, body[20 : 20 + captured], wire, at_ns)


def _check_length(captured: int, at: int) -> None:
    if captured > MOST_CAPTURED_BYTES:
        raise CaptureError(f"packet of {captured} captured bytes at byte {at}: the file is damaged")


def _check_link(link: int) -> None:
    if link not in (ETHERNET, RAW, RAW_BSD, NULL, LOOP, COOKED, COOKED_2, IPV4, IPV6):
        raise CaptureError(f"link type {link} is not read; {LINK_NAMES} are")


def _from_ip(link: int, frame: bytes, wire_bytes: int, at_ns: int) -> CapturedPacket | None:
    """The packet without its link header; None for what is not IP."""
    begin = _ip_offset(link, frame)
    if begin is None or len(frame) <= begin:
        return None
    return CapturedPacket(at_ns, frame[begin:], wire_bytes - begin)


def _ip_offset(link: int, frame: bytes) -> int | None:
    if link in (RAW, RAW_BSD, IPV4, IPV6):
        return 0
    if link in (NULL, LOOP):
        return 4
    if link == COOKED_2:
        return 20 if _is_ip(frame, 0) else None
    at = 12 if link == ETHERNET else 14
    while len(frame) >= at + 2 and struct.unpack_from(">H", frame, at)[0] in VLAN_TYPES:
        at += 4
    return at + 2 if _is_ip(frame, at) else None


def _is_ip(frame: bytes, at: int) -> bool:
    return len(frame) >= at + 2 and struct.unpack_from(">H", frame, at)[0] in IP_TYPES
