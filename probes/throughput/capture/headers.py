"""A bounded capture of the TCP headers of a test, at either end: what tcpdump would keep, without it.

The kernel writes the packets of the test's peer and port into a ring that both share (packet(7), PACKET_RX_RING), until
it is full: no process runs for it during the test. After the test the ring is read: the connections with the most bytes
are the test's data; packets are cut after their TCP header, so that no payload is kept, and written as pcap with stamps
in nanoseconds. Needs CAP_NET_RAW.
"""

from __future__ import annotations

import ipaddress
import mmap
import socket
import struct
import zlib
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from types import TracebackType
from typing import Self

from probes.ping.icmp.packet_filter import (
    JUMP_IF_EQUAL,
    LOAD_BYTE,
    LOAD_HALF,
    LOAD_HALF_AT_X,
    RETURN,
    X_IS_IP_HEADER_LENGTH,
    Instruction,
    Step,
    assemble,
    attach,
)
from probes.throughput.spec import MOST_CAPTURE_BYTES, MOST_CAPTURED_PACKETS, CapturedHeaders

SNAP_BYTES = 128
"""Enough for the headers of IPv6 and TCP with all options."""

SOL_PACKET, PACKET_RX_RING, PACKET_STATISTICS, PACKET_VERSION, TPACKET_V2 = 263, 5, 6, 10, 1
ETH_P_ALL = 3
ETHER_TYPES = {4: 0x0800, 6: 0x86DD}
OUTGOING = 4
IS_OURS = 1
"""The bit of a frame's status that says that the kernel has written it."""
FRAME_BYTES, BLOCK_BYTES = 256, 1 << 16
FRAME_HEADER = struct.Struct("=IIIHHIIHH4x")
LINK_ADDRESS = struct.Struct("=HHiHBB8s")

LOAD_WORD, JUMP_IF_SET = 0x20, 0x45
PROTOCOL = 0xFFFFF000
"""SKF_AD_OFF + SKF_AD_PROTOCOL of linux/filter.h: the EtherType."""
FRAGMENTED = 0x3FFF
TCP = socket.IPPROTO_TCP
LINK_RAW = 101


@dataclass(frozen=True, slots=True)
class _Frame:
    at_s: int
    at_ns: int
    wire_bytes: int
    headers: bytes
    interface: int
    is_outgoing: bool


class HeaderCapture:
    """Captures while the context is open. `reason` says why it does not, None if it does."""

    def __init__(self, peer: str, port: int, most_packets: int, streams: int | None = None) -> None:
        """`most_packets` are kept, the first ones; at most `MOST_CAPTURED_PACKETS`. Of the connections those `streams`
        with the most bytes are kept; all of them if that is None."""
        self.reason: str | None = None
        self._peer = ipaddress.ip_address(peer.partition("%")[0])
        self._port = port
        self._most = min(most_packets, MOST_CAPTURED_PACKETS)
        self._streams = streams
        self._socket: socket.socket | None = None
        self._ring: mmap.mmap | None = None

    def __enter__(self) -> Self:
        try:
            self._open()
        except PermissionError:
            self.reason = "capturing needs CAP_NET_RAW"
        except OSError as error:
            self.reason = f"cannot capture: {error.strerror}"
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._ring is not None:
            self._ring.close()
        if self._socket is not None:
            self._socket.close()

    def _open(self) -> None:
        blocks = -(-self._most * FRAME_BYTES // BLOCK_BYTES)
        # What arrives before the filter is there is in no ring.
        sock = self._socket = socket.socket(socket.AF_PACKET, socket.SOCK_DGRAM, socket.htons(ETH_P_ALL))
        attach(sock, filter_program(str(self._peer), self._port))
        sock.setsockopt(SOL_PACKET, PACKET_VERSION, TPACKET_V2)
        ring = struct.pack("=IIII", BLOCK_BYTES, blocks, FRAME_BYTES, blocks * BLOCK_BYTES // FRAME_BYTES)
        sock.setsockopt(SOL_PACKET, PACKET_RX_RING, ring)
        self._ring = mmap.mmap(sock.fileno(), blocks * BLOCK_BYTES)

    def captured(self) -> CapturedHeaders | None:
        """What the test's packets were; None if it could not capture, or there were none. Call it once, at the end."""
        if self._socket is None or self._ring is None:
            return None
        _, dropped = struct.unpack("=II", self._socket.getsockopt(SOL_PACKET, PACKET_STATISTICS, 8))
        frames = list(_of_one_interface(list(self._frames())))
        if self._streams is not None:
            frames = largest_connections(frames, self._streams)
        if not frames:
            return None
        left_out = dropped + max(0, len(frames) - self._most)
        frames = frames[: self._most]
        packed = zlib.compress(pcap(frames), 6)
        while len(packed) > MOST_CAPTURE_BYTES:
            kept = len(frames) * MOST_CAPTURE_BYTES * 9 // (10 * len(packed))
            left_out += len(frames) - kept
            frames = frames[:kept]
            packed = zlib.compress(pcap(frames), 6)
        return CapturedHeaders(pcap_zlib=packed, packets=len(frames), left_out_packets=left_out)

    def _frames(self) -> Iterator[_Frame]:
        assert self._ring is not None
        for at in range(0, len(self._ring), FRAME_BYTES):
            status, wire, captured, _, network, seconds, nanoseconds, _, _ = FRAME_HEADER.unpack_from(self._ring, at)
            if not status & IS_OURS:
                return
            _, _, interface, _, packet_type, _, _ = LINK_ADDRESS.unpack_from(self._ring, at + FRAME_HEADER.size)
            ip = self._ring[at + network : at + network + min(captured, FRAME_BYTES - network)]
            yield _Frame(seconds, nanoseconds, wire, _headers(ip), interface, packet_type == OUTGOING)


def _headers(ip: bytes) -> bytes:
    """The packet up to the end of its TCP header."""
    at = 40 if ip[0] >> 4 == 6 else (ip[0] & 0x0F) * 4
    return ip[: at + (ip[at + 12] >> 4) * 4] if len(ip) > at + 12 else ip


def _of_one_interface(frames: list[_Frame]) -> Iterator[_Frame]:
    """Below a VLAN or a bridge the same packets pass several interfaces; on the loopback each passes twice."""
    if not frames:
        return
    [(interface, _)] = Counter(frame.interface for frame in frames).most_common(1)
    is_loopback = interface == socket.if_nametoindex("lo")
    for frame in frames:
        if frame.interface == interface and not (is_loopback and frame.is_outgoing):
            yield frame


def largest_connections(frames: list[_Frame], count: int) -> list[_Frame]:
    """The frames of so many connections, those with the most bytes."""
    wire_bytes: Counter[frozenset[bytes]] = Counter()
    for frame in frames:
        wire_bytes[_ends(frame.headers)] += frame.wire_bytes
    kept = {ends for ends, _ in wire_bytes.most_common(count)}
    return [frame for frame in frames if _ends(frame.headers) in kept]


def _ends(headers: bytes) -> frozenset[bytes]:
    """The address and port of both ends."""
    is_ipv6 = headers[0] >> 4 == 6
    at = 40 if is_ipv6 else (headers[0] & 0x0F) * 4
    source, destination = (headers[8:24], headers[24:40]) if is_ipv6 else (headers[12:16], headers[16:20])
    return frozenset((source + headers[at : at + 2], destination + headers[at + 2 : at + 4]))


def pcap(frames: list[_Frame]) -> bytes:
    """A capture file of packets that begin with their IP header."""
    parts = [struct.pack("<IHHiIII", 0xA1B23C4D, 2, 4, 0, 0, SNAP_BYTES, LINK_RAW)]
    for frame in frames:
        parts += (struct.pack("<IIII", frame.at_s, frame.at_ns, len(frame.headers), frame.wire_bytes), frame.headers)
    return b"".join(parts)


def filter_program(peer: str, port: int) -> list[Instruction]:
    """Accept TCP packets from or to this address with this port at either end."""
    address = ipaddress.ip_address(peer)
    steps: list[Step] = [(LOAD_HALF, 0, 0, PROTOCOL), (JUMP_IF_EQUAL, 0, "drop", ETHER_TYPES[address.version])]
    if address.version == 4:
        steps += [
            (LOAD_BYTE, 0, 0, 9),
            (JUMP_IF_EQUAL, 0, "drop", TCP),
            (LOAD_HALF, 0, 0, 6),
            (JUMP_IF_SET, "drop", 0, FRAGMENTED),
            *_matches("source", 12, address.packed),
            *_matches("destination", 16, address.packed),
            (RETURN, 0, 0, 0),
            "source",
            "destination",
            (X_IS_IP_HEADER_LENGTH, 0, 0, 0),
            (LOAD_HALF_AT_X, 0, 0, 0),
            (JUMP_IF_EQUAL, "keep", 0, port),
            (LOAD_HALF_AT_X, 0, 0, 2),
        ]
    else:
        steps += [
            (LOAD_BYTE, 0, 0, 6),
            (JUMP_IF_EQUAL, 0, "drop", TCP),
            *_matches("source", 8, address.packed),
            *_matches("destination", 24, address.packed),
            (RETURN, 0, 0, 0),
            "source",
            "destination",
            (LOAD_HALF, 0, 0, 40),
            (JUMP_IF_EQUAL, "keep", 0, port),
            (LOAD_HALF, 0, 0, 42),
        ]
    return assemble(
        [*steps, (JUMP_IF_EQUAL, "keep", "drop", port), "keep", (RETURN, 0, 0, SNAP_BYTES), "drop", (RETURN, 0, 0, 0)]
    )


def _matches(label: str, at: int, packed: bytes) -> list[Step]:
    """Jump to the label if the bytes at an offset are these, four at a time."""
    steps: list[Step] = []
    words = [struct.unpack_from(">I", packed, place)[0] for place in range(0, len(packed), 4)]
    for place, word in enumerate(words):
        is_last = place == len(words) - 1
        steps += [
            (LOAD_WORD, 0, 0, at + 4 * place),
            (JUMP_IF_EQUAL, label if is_last else 0, 0 if is_last else f"not {label}", word),
        ]
    return [*steps, f"not {label}"]
