"""Packets of a session of traces, and their sender.

Each packet is a turn of its own, with target and TTL chosen when planned.
"""

from __future__ import annotations

import socket
import struct
from collections.abc import Collection
from dataclasses import dataclass

import numpy as np

from probes.packets.arrays import Bytes, Int64s
from probes.packets.engine.packet_outcomes import PacketTable, SendPattern
from probes.packets.engine.sender import Sender
from probes.packets.icmp import icmp_errors
from probes.packets.icmp.echo import word_sum
from probes.packets.icmp.icmp_errors import Errors
from probes.packets.icmp.kernel import KernelSendBatch
from probes.trace.spec import MOST_LABELS, MplsLabel

VERSION = 2
HEADER = struct.Struct(">BBH")
OBJECT = struct.Struct(">HBB")
LABEL_STACK = (1, 1)
ENTRY_BYTES = 4
BOTTOM = 0x100


# ICMP payload, as of ping(8) and PingER's priming packet.
PACKET_BYTES = 56


@dataclass(frozen=True, slots=True)
class RouterError:
    router: bytes  # address in network order
    name: str
    arrived_ns: int
    mpls: tuple[MplsLabel, ...]


class TraceTable(PacketTable):
    """Packets of a session, up to `capacity`; `planned` is the next.

    `has_short_quotes`: an error quoted no payload.
    """

    def __init__(self, family: int, capacity: int, timeout_s: float) -> None:
        super().__init__(1, SendPattern((PACKET_BYTES,), capacity, 0.0, timeout_s))
        self.planned = 0
        self.ranks: Int64s = np.zeros(capacity, np.int64)
        self.ttls: Int64s = np.zeros(capacity, np.int64)
        self.errors: dict[int, RouterError] = {}
        self.unanswered: Collection[int] = ()
        self.has_short_quotes = False
        self._family = family

    def plan(self, rank: int, ttl: int) -> int:
        """Plan a packet; return its number."""
        number = self.planned
        self.ranks[number], self.ttls[number] = rank, ttl
        self.planned += 1
        return number

    def places(self, packets: Int64s) -> tuple[Int64s, Int64s]:
        return packets, self.ranks[packets]

    def packets_at(self, turns: Int64s, ranks: Int64s) -> Int64s:
        return turns

    def enter_errors(
        self, packets: Int64s, errors: Errors, routers: Bytes, arrived_ns: Int64s, *, may_be_answered: bool = False
    ) -> None:
        """Keep the first error about each packet."""
        for row, packet in enumerate(packets.tolist()):
            icmp_type, icmp_code = int(errors.icmp_type[row]), int(errors.icmp_code[row])
            if packet not in self.errors and self.replies[packet] == 0:
                self.errors[packet] = RouterError(
                    routers[row].tobytes(),
                    icmp_errors.name_of(self._family, icmp_type, icmp_code),
                    int(arrived_ns[row]),
                    read_labels(_extensions(errors, row)),
                )

    def sent_ns(self, packet: int, arrived_ns: int) -> int:
        """When a packet left, by kernel timestamp or call."""
        stamped_ns = int(self.stamped_ns[packet])
        return stamped_ns if 0 < stamped_ns <= arrived_ns else int(self.called_ns[packet])


def _extensions(errors: Errors, row: int) -> bytes:
    at = int(errors.extension_at[row])
    return b"" if at == 0 else errors.messages[row, at : int(errors.message_bytes[row])].tobytes()


class TraceSender(Sender):
    """Sends planned packets, each with its TTL."""

    _table: TraceTable

    def send(self, stop: int) -> bool:
        if not self._channel.is_raw:
            # Each ICMP error would make a call fail; the errors themselves are on the error queue.
            self._channel.socket.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
        return super().send(stop)

    def _make_batch(self, rows: int) -> KernelSendBatch:
        self._limited = self._channel.limited_batch(self.names, rows, self._format.head_bytes, self._format.padding)
        return self._limited

    def _write(self) -> None:
        self._written_first = self._table.next
        self._written_stop = min(self._written_first + self._rows, self._table.planned)
        numbers = np.arange(self._written_first, self._written_stop)
        ranks = self._table.ranks[numbers]
        self._format.write(self._batch.heads[: len(numbers)], numbers, numbers, ranks, self._tail_sums[numbers])
        self._batch.set_destinations(ranks, np.full(len(numbers), len(self._format.padding)))
        self._limited.set_hop_limits(self._table.ttls[numbers])


def read_labels(extensions: bytes) -> tuple[MplsLabel, ...]:
    """Read the label stack, topmost first; empty if malformed."""
    if len(extensions) < HEADER.size:
        return ()
    version, _, checksum = HEADER.unpack_from(extensions)
    # A checksum of 0 means that the router computed none.
    if version >> 4 != VERSION or (checksum != 0 and not _is_sound(extensions)):
        return ()
    at = HEADER.size
    while at + OBJECT.size <= len(extensions):
        length, *kind = OBJECT.unpack_from(extensions, at)
        if not OBJECT.size <= length <= len(extensions) - at:
            return ()
        if tuple(kind) == LABEL_STACK:
            return _entries(extensions[at + OBJECT.size : at + length])
        at += length
    return ()


def _is_sound(extensions: bytes) -> bool:
    total = word_sum(extensions)
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return total == 0xFFFF


def _entries(stack: bytes) -> tuple[MplsLabel, ...]:
    # Label 20 bits, traffic class 3, bottom 1, TTL 8 (RFC 3032, section 2.1).
    if len(stack) % ENTRY_BYTES:
        return ()
    labels = []
    for (entry,) in struct.iter_unpack(">I", stack):
        labels.append(MplsLabel(label=entry >> 12, traffic_class=(entry >> 9) & 7, ttl=entry & 0xFF))
        if entry & BOTTOM or len(labels) == MOST_LABELS:
            break
    return tuple(labels)
