"""The IP packets of a capture file: pcap (draft-ietf-opsawg-pcap) and pcapng (draft-ietf-opsawg-pcapng), also gzipped,
from the innermost IP header on."""

from __future__ import annotations

import gzip
import io
import struct
import zlib
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

from monitor.analysis.packets.encapsulation import ip_offset, is_link_read
from monitor.analysis.packets.unread import NO_STAMP, Unread, unread_link

NS = 1_000_000_000
# First bytes: byte order, and nanoseconds of a unit of the timestamps.
PCAP_MAGICS = {
    b"\xa1\xb2\xc3\xd4": (">", 1000),
    b"\xd4\xc3\xb2\xa1": ("<", 1000),
    b"\xa1\xb2\x3c\x4d": (">", 1),
    b"\x4d\x3c\xb2\xa1": ("<", 1),
}
PCAPNG_MAGIC = b"\x0a\x0d\x0d\x0a"
# The most bytes of a packet that tcpdump keeps; a length beyond it is a damaged file.
MOST_CAPTURED_BYTES = 262_144

GZIP_MAGIC = b"\x1f\x8b"
MOST_UNPACKED_BYTES = 1 << 30
CONVERT = "convert it with `editcap -F pcap FILE NEW`"
UNPACK = "unpack it first"
# First bytes: the format, and how to convert it.
OTHER_FORMATS = {
    b"": ("an empty file", "capture with `tcpdump -w FILE`"),
    b"snoop\0": ("a file of snoop", CONVERT),
    b"\x34\xcd\xb2\xa1": ("a modified pcap", CONVERT),
    b"\xa1\xb2\xcd\x34": ("a modified pcap", CONVERT),
    b"iptrace ": ("a file of iptrace", CONVERT),
    b"GMBU": ("a file of Microsoft Network Monitor", CONVERT),
    b"RTSS": ("a file of Microsoft Network Monitor", CONVERT),
    b"TRSNIFF data": ("a file of Sniffer", CONVERT),
    b"XCP\0": ("a file of NetXRay or Sniffer", CONVERT),
    b"TR\0\x64": ("a file of nettl", CONVERT),
    b"\x05VNF": ("a file of Visual Networks", CONVERT),
    b"\xfd7zXZ\0": ("compressed with xz", UNPACK),
    b"BZh": ("compressed with bzip2", UNPACK),
    b"\x28\xb5\x2f\xfd": ("compressed with zstd", UNPACK),
    b"\x04\x22\x4d\x18": ("compressed with lz4", UNPACK),
    b"PK\x03\x04": ("a zip archive", UNPACK),
    b"7z\xbc\xaf": ("a 7z archive", UNPACK),
    GZIP_MAGIC: ("compressed twice", UNPACK),
}

SECTION, INTERFACE, OBSOLETE, SIMPLE, ENHANCED = 0x0A0D0D0A, 1, 2, 3, 6
TIMESTAMP_RESOLUTION, TIMESTAMP_OFFSET = 9, 14


class CaptureError(ValueError):
    """A file that is no capture or is damaged; says where."""


@dataclass(frozen=True, slots=True)
class CapturedPacket:
    """A packet from its IP header on. Packets of the same interface have timestamps of the same clock."""

    at_ns: int
    ip: bytes  # as far as captured
    wire_bytes: int  # length on the wire from the IP header on
    interface: int = 0


def read_capture(
    data: bytes, unread: Counter[Unread] | None = None, most_bytes: int = MOST_UNPACKED_BYTES
) -> Iterator[CapturedPacket]:
    """The IP packets of a pcap or pcapng file, possibly truncated; gzip unpacks `most_bytes` at most.

    Raises CaptureError for other files, a pcap of an unknown link type, and impossible lengths.
    """
    counts: Counter[Unread] = Counter() if unread is None else unread
    if data[:2] == GZIP_MAGIC:
        data = _gunzipped(data, most_bytes)
    if data[:4] in PCAP_MAGICS:
        return _pcap(data, counts)
    if data[:4] == PCAPNG_MAGIC:
        return _pcapng(data, counts)
    raise CaptureError(f"not a pcap or pcapng file{_other_format(data)}")


def _other_format(data: bytes) -> str:
    for magic, (name, remedy) in OTHER_FORMATS.items():
        if data.startswith(magic) and (magic or not data):
            return f" but {name}: {remedy}"
    if b"\n" in data[:500] and data[:500].isascii() and b"\0" not in data[:500]:
        return " but text: capture with `tcpdump -w FILE`"
    return f": capture with `tcpdump -w FILE`, or {CONVERT}"


def _gunzipped(data: bytes, most_bytes: int) -> bytes:
    """Unpack all gzip members, a truncated one as far as it goes."""
    parts, size = [], 0
    with gzip.GzipFile(fileobj=io.BytesIO(data)) as stream:
        try:
            while part := stream.read1(1 << 20):
                parts.append(part)
                size += len(part)
                if size > most_bytes:
                    raise CaptureError(f"more than {most_bytes >> 20} MB when unpacked: bring less of the time")
        except EOFError:
            pass
        except (zlib.error, OSError) as error:
            raise CaptureError(f"cannot be unpacked with gunzip: {error}") from error
    if not parts:
        raise CaptureError("a file of gzip that ends too early, before its first packet")
    return b"".join(parts)


def _pcap(data: bytes, unread: Counter[Unread]) -> Iterator[CapturedPacket]:
    order, unit_ns = PCAP_MAGICS[data[:4]]
    header = struct.Struct(f"{order}IIII")
    if len(data) < 24:
        raise CaptureError("the file ends within its header, at byte 24")
    link = struct.unpack_from(f"{order}I", data, 20)[0] & 0xFFFF
    if not is_link_read(link):
        kind = unread_link(link)
        raise CaptureError(f"packets {kind.name} are not read: {kind.remedy}")
    interface = _Interface(0, link, float(unit_ns), 0)
    at = 24
    while at + header.size <= len(data):
        seconds, fraction, captured, wire = header.unpack_from(data, at)
        _check_length(captured, at)
        begin, at = at + header.size, at + header.size + captured
        if at > len(data):
            return
        packet = _from_ip(interface, data[begin:at], wire, seconds * NS + fraction * unit_ns, unread)
        if packet is not None:
            yield packet


@dataclass(frozen=True, slots=True)
class _Interface:
    place: int
    link: int
    unit_ns: float  # of a timestamp
    offset_ns: int


@dataclass(slots=True)
class _Section:
    order: str
    interfaces: list[_Interface] = field(default_factory=list)


def _pcapng(data: bytes, unread: Counter[Unread]) -> Iterator[CapturedPacket]:
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
            section.interfaces.append(_interface(section, body, at))
        elif kind == SIMPLE:
            unread[NO_STAMP] += 1
        elif kind in (ENHANCED, OBSOLETE):
            packet = _packet_of_block(section, kind, body, at, unread)
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


def _interface(section: _Section, body: bytes, at: int) -> _Interface:
    order = section.order
    if len(body) < 8:
        raise CaptureError(f"interface of {len(body)} bytes at byte {at}: the file is damaged")
    link = struct.unpack_from(f"{order}H", body)[0]
    unit_ns, offset_ns, option = 1000.0, 0, 8
    while option + 4 <= len(body):
        code, length = struct.unpack_from(f"{order}HH", body, option)
        value = body[option + 4 : option + 4 + length]
        if code == TIMESTAMP_RESOLUTION and len(value) == 1:
            unit_ns = NS * (2.0 ** -(value[0] & 0x7F) if value[0] & 0x80 else 10.0 ** -value[0])
        elif code == TIMESTAMP_OFFSET and len(value) == 8:
            offset_ns = struct.unpack(f"{order}q", value)[0] * NS
        option += 4 + length + (-length % 4)
    return _Interface(len(section.interfaces), link, unit_ns, offset_ns)


def _packet_of_block(
    section: _Section, kind: int, body: bytes, at: int, unread: Counter[Unread]
) -> CapturedPacket | None:
    if len(body) < 20:
        raise CaptureError(f"packet block of {len(body)} bytes at byte {at}: the file is damaged")
    number, high, low, captured, wire = struct.unpack_from(f"{section.order}IIIII", body)
    if kind == OBSOLETE:
        # Two numbers of 16 bits: the interface, and the packets dropped before this one.
        number = struct.unpack_from(f"{section.order}H", body)[0]
    if number >= len(section.interfaces):
        raise CaptureError(f"packet of interface {number}, which the file does not describe, at byte {at}")
    _check_length(captured, at)
    interface = section.interfaces[number]
    if not is_link_read(interface.link):
        unread[unread_link(interface.link)] += 1
        return None
    units, unit_ns = high << 32 | low, interface.unit_ns
    at_ns = interface.offset_ns + (units * int(unit_ns) if unit_ns >= 1 else int(units * unit_ns))
    return _from_ip(interface, body[20 : 20 + captured], wire, at_ns, unread)


def _check_length(captured: int, at: int) -> None:
    if captured > MOST_CAPTURED_BYTES:
        raise CaptureError(f"packet of {captured} captured bytes at byte {at}: the file is damaged")


def _from_ip(
    interface: _Interface, frame: bytes, wire_bytes: int, at_ns: int, unread: Counter[Unread]
) -> CapturedPacket | None:
    begin = ip_offset(interface.link, frame)
    if isinstance(begin, Unread):
        unread[begin] += 1
        return None
    return CapturedPacket(at_ns, frame[begin:], wire_bytes - begin, interface.place)
