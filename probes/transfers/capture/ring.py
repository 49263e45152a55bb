"""A kernel ring of packets that pass a filter, until full (packet(7), PACKET_RX_RING)."""

from __future__ import annotations

import mmap
import socket
import struct
from collections.abc import Sequence
from dataclasses import dataclass

from probes.packets.icmp.packet_filter import Instruction, attach

SOL_PACKET, PACKET_RX_RING, PACKET_STATISTICS, PACKET_VERSION, TPACKET_V2 = 263, 5, 6, 10, 1
SO_TIMESTAMPNS = 35
ETH_P_ALL = 3
OUTGOING = 4
# The bit of a frame's status that says that the kernel has written it.
IS_OURS = 1
FRAME_BYTES, BLOCK_BYTES = 256, 1 << 16
FRAME_HEADER = struct.Struct("=IIIHHIIHH4x")
LINK_ADDRESS = struct.Struct("=HHiHBB8s")
NS = 1_000_000_000


@dataclass(frozen=True, slots=True)
class Frame:
    """A packet from its IP header up to the end of its TCP header."""

    at_ns: int
    wire_bytes: int
    headers: bytes
    interface: int
    is_outgoing: bool


@dataclass(frozen=True, slots=True)
class RingFrames:
    """The first frames that passed the filter, and the count of those after."""

    frames: list[Frame]
    missed: int

    @property
    def until_ns(self) -> int | None:
        """Time until which none is missing; None to the end."""
        return self.frames[-1].at_ns if self.missed and self.frames else None


class Ring:
    """An open ring. Raises OSError where the kernel refuses it."""

    def __init__(self, program: Sequence[Instruction], most_packets: int) -> None:
        blocks = -(-most_packets * FRAME_BYTES // BLOCK_BYTES)
        self._most = most_packets
        # What arrives before the filter is there is in no ring.
        self._socket = socket.socket(socket.AF_PACKET, socket.SOCK_DGRAM, socket.htons(ETH_P_ALL))
        try:
            attach(self._socket, program)
            self._socket.setsockopt(socket.SOL_SOCKET, SO_TIMESTAMPNS, 1)
            self._socket.setsockopt(SOL_PACKET, PACKET_VERSION, TPACKET_V2)
            ring = struct.pack("=IIII", BLOCK_BYTES, blocks, FRAME_BYTES, blocks * BLOCK_BYTES // FRAME_BYTES)
            self._socket.setsockopt(SOL_PACKET, PACKET_RX_RING, ring)
            self._ring = mmap.mmap(self._socket.fileno(), blocks * BLOCK_BYTES)
        except OSError:
            self._socket.close()
            raise

    def close(self) -> None:
        self._ring.close()
        self._socket.close()

    def read(self) -> RingFrames:
        """Read the frames; call it once, at the end."""
        _, missed = struct.unpack("=II", self._socket.getsockopt(SOL_PACKET, PACKET_STATISTICS, 8))
        frames = []
        for at in range(0, len(self._ring), FRAME_BYTES):
            status, wire, captured, _, network, seconds, nanoseconds, _, _ = FRAME_HEADER.unpack_from(self._ring, at)
            if not status & IS_OURS:
                break
            _, _, interface, _, packet_type, _, _ = LINK_ADDRESS.unpack_from(self._ring, at + FRAME_HEADER.size)
            ip = self._ring[at + network : at + network + min(captured, FRAME_BYTES - network)]
            at_ns = seconds * NS + nanoseconds
            frames.append(Frame(at_ns, wire, _headers(ip), interface, packet_type == OUTGOING))
        missed += max(0, len(frames) - self._most)
        return RingFrames(frames[: self._most], missed)


def _headers(ip: bytes) -> bytes:
    at = 40 if ip[0] >> 4 == 6 else (ip[0] & 0x0F) * 4
    return ip[: at + (ip[at + 12] >> 4) * 4] if len(ip) > at + 12 else ip
