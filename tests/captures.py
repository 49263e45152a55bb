"""Captures of both ends of a transfer, as agents deliver them."""

from __future__ import annotations

import gzip
import struct
import zlib
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from monitor.analysis.packets import read_capture
from probes.transfers.spec import CapturedHeaders

FOLDER = Path(__file__).parent / "fixtures" / "captures"


def pcap_of(name: str) -> bytes:
    return gzip.decompress((FOLDER / f"{name}.pcap.gz").read_bytes())


def captured(name: str, left_out_packets: int = 0) -> CapturedHeaders:
    data = pcap_of(name)
    packets = sum(1 for _ in read_capture(data))
    return CapturedHeaders(pcap_zlib=zlib.compress(data), packets=packets, left_out_packets=left_out_packets)


@dataclass(frozen=True, slots=True)
class Record:
    """A frame as captured; its length on the wire."""

    at_ns: int
    frame: bytes
    wire_bytes: int
    interface: int = 0


def records_of(name: str) -> list[Record]:
    """The frames of a fixture: pcap, little-endian."""
    data, at, records = pcap_of(name), 24, []
    unit_ns = 1 if data[0] == 0x4D else 1000
    while at < len(data):
        seconds, fraction, captured, wire = struct.unpack_from("<IIII", data, at)
        frame = data[at + 16 : at + 16 + captured]
        records.append(Record(seconds * 10**9 + fraction * unit_ns, frame, wire))
        at += 16 + captured
    return records


def pcap_file(records: Iterable[Record], link: int = 1, order: str = "<") -> bytes:
    """A pcap file with stamps in nanoseconds."""
    parts = [struct.pack(f"{order}IHHiIII", 0xA1B23C4D, 2, 4, 0, 0, 262144, link)]
    for record in records:
        seconds, fraction = divmod(record.at_ns, 10**9)
        parts.append(struct.pack(f"{order}IIII", seconds, fraction, len(record.frame), record.wire_bytes))
        parts.append(record.frame)
    return b"".join(parts)


ENHANCED, OBSOLETE, SIMPLE = 6, 2, 3


def pcapng_file(
    records: Iterable[Record], links: Iterable[int] = (1,), kind: int = ENHANCED, order: str = "<"
) -> bytes:
    """A pcapng file with stamps in nanoseconds, its packets in blocks of this kind."""
    blocks = [_block(order, 0x0A0D0D0A, struct.pack(f"{order}IHHq", 0x1A2B3C4D, 1, 0, -1))]
    blocks += [_block(order, 1, struct.pack(f"{order}HHIHHB3xHH", link, 0, 0, 9, 1, 9, 0, 0)) for link in links]
    blocks += [_block(order, kind, _head(record, kind, order) + record.frame) for record in records]
    return b"".join(blocks)


def _head(record: Record, kind: int, order: str) -> bytes:
    stamp = record.at_ns >> 32, record.at_ns & 0xFFFFFFFF, len(record.frame), record.wire_bytes
    if kind == SIMPLE:
        return struct.pack(f"{order}I", record.wire_bytes)
    if kind == OBSOLETE:
        return struct.pack(f"{order}HHIIII", record.interface, 0xFFFF, *stamp)
    return struct.pack(f"{order}IIIII", record.interface, *stamp)


def _block(order: str, kind: int, body: bytes) -> bytes:
    length = 12 + len(body) + -len(body) % 4
    return struct.pack(f"{order}II", kind, length) + body + bytes(-len(body) % 4) + struct.pack(f"{order}I", length)


def behind(records: Iterable[Record], header: bytes) -> list[Record]:
    """The IP packets of Ethernet frames behind another header."""
    return [
        Record(record.at_ns, header + record.frame[14:], record.wire_bytes - 14 + len(header), record.interface)
        for record in records
    ]


def ipv4(protocol: int, length: int = 0, fragment: int = 0) -> bytes:
    """The header of a tunnel's IPv4 packet, without checksum."""
    ends = bytes((192, 0, 2, 1, 192, 0, 2, 2))
    return struct.pack(">BBHHHBBH", 0x45, 0, length, 7, fragment, 64, protocol, 0) + ends


def ipv6(following: int) -> bytes:
    """The header of a tunnel's IPv6 packet."""
    return struct.pack(">IHBB", 6 << 28, 0, following, 64) + bytes(32)


MAC = b"\x02" * 12
UDP_TO_VXLAN = struct.pack(">HHHH", 50000, 4789, 0, 0)
ENCAPSULATIONS: dict[str, tuple[int, bytes]] = {
    "Ethernet": (1, MAC + b"\x08\x00"),
    "VLAN": (1, MAC + b"\x81\x00\x00\x05\x08\x00"),
    "QinQ": (1, MAC + b"\x88\xa8\x00\x05\x81\x00\x00\x06\x08\x00"),
    "SNAP": (1, MAC + b"\x00\x60\xaa\xaa\x03\x00\x00\x00\x08\x00"),
    "raw IP": (101, b""),
    "raw IP of BSD": (12, b""),
    "IPv4": (228, b""),
    "loopback": (0, b"\x02\x00\x00\x00"),
    "loopback of OpenBSD": (108, b"\x00\x00\x00\x02"),
    "PPP": (9, b"\xff\x03\x00\x21"),
    "cooked": (113, bytes(14) + b"\x08\x00"),
    "cooked with VLAN": (113, bytes(14) + b"\x81\x00\x00\x05\x08\x00"),
    "cooked 2": (276, b"\x08\x00" + bytes(18)),
    "cooked 2 with VLAN": (276, b"\x81\x00" + bytes(18) + b"\x00\x05\x08\x00"),
    "PPPoE": (1, MAC + b"\x88\x64\x11\x00\x00\x01\x00\x00\x00\x21"),
    "MPLS": (1, MAC + b"\x88\x47\x00\x01\x01\x40"),
    "MPLS with two labels": (1, MAC + b"\x88\x47\x00\x01\x00\x40\x00\x02\x01\x40"),
    "IP in IP": (1, MAC + b"\x08\x00" + ipv4(4)),
    "IPv4 in IPv6": (1, MAC + b"\x86\xdd" + ipv6(4)),
    "IPv4 in IPv6 with options": (1, MAC + b"\x86\xdd" + ipv6(60) + b"\x04\x00\x01\x04" + bytes(4)),
    "GRE": (101, ipv4(47) + b"\x00\x00\x08\x00"),
    "GRE with key and sequence": (101, ipv4(47) + b"\x30\x00\x08\x00" + bytes(8)),
    "Ethernet in GRE": (101, ipv4(47) + b"\x00\x00\x65\x58" + MAC + b"\x08\x00"),
    "ERSPAN": (101, ipv4(47) + b"\x10\x00\x88\xbe" + bytes(12) + MAC + b"\x08\x00"),
    "first fragment of GRE": (101, ipv4(47, fragment=0x2000) + b"\x00\x00\x08\x00"),
    "VXLAN": (101, ipv4(17) + UDP_TO_VXLAN + b"\x08" + bytes(7) + MAC + b"\x08\x00"),
    "VXLAN of Flannel": (101, ipv4(17) + b"\xc3\x50\x21\x18" + bytes(4) + b"\x08" + bytes(7) + MAC + b"\x08\x00"),
    "Geneve": (101, ipv4(17) + b"\xc3\x50\x17\xc1" + bytes(4) + b"\x01\x00\x65\x58" + bytes(8) + MAC + b"\x08\x00"),
}
"""Link type, and the header in front of an IPv4 packet."""
