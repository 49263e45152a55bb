"""Monotonic send times of an even cycle: random near the beginning of each part of the period.

An address's constant phase joins cycles without gaps, and spreads targets.
"""

from __future__ import annotations

import hashlib
import socket
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from probes.packets.addresses import FAMILY, SocketAddress
from probes.packets.arrays import Int64s
from probes.packets.engine.packet_outcomes import SendPattern
from probes.packets.engine.randomness import Uniform
from probes.packets.engine.schedule import LATE_NS, LONGEST_WAIT_NS
from probes.packets.flow import machine_key
from probes.packets.spec import JITTER_RATIO

NS_PER_S = 1_000_000_000


@dataclass(frozen=True, slots=True)
class EvenTimes:
    """The packets in sending order."""

    cells: Int64s  # as in `PacketTable`
    due_ns: Int64s  # times from the beginning on


def even_times(family: int, addresses: Sequence[SocketAddress], pattern: SendPattern, random: Uniform) -> EvenTimes:
    due_ns = even_due_ns(family, addresses, len(pattern.turn_bytes), pattern.spacing_s, random).ravel()
    cells = np.argsort(due_ns, kind="stable")
    return EvenTimes(cells, due_ns[cells])


def even_due_ns(
    family: int, addresses: Sequence[SocketAddress], turns: int, spacing_s: float, random: Uniform
) -> Int64s:
    """Draw times from the beginning on; shape (turns, addresses)."""
    phases = np.array([_phase(family, address) for address in addresses])
    numbers = np.arange(turns)[:, np.newaxis]
    jitter = JITTER_RATIO * random.random((turns, len(addresses)))
    due_ns: Int64s = ((numbers + phases + jitter) * spacing_s * NS_PER_S).astype(np.int64)
    return due_ns


def _phase(family: int, address: SocketAddress) -> float:
    """Phase from 0 to 1, always the same from this machine to an address."""
    host = socket.inet_pton(FAMILY[family], address[0].partition("%")[0])
    digest = hashlib.blake2b(host, key=machine_key(), person=b"even phase", digest_size=8).digest()
    return int.from_bytes(digest) / 2**64


class EvenSchedule:
    """The send times of an even cycle, as `probes.packets.engine.schedule.Schedule` for bursts."""

    def __init__(self, start_ns: int, due_ns: Int64s, spacing_ns: int) -> None:
        """`due_ns` is ascending from `start_ns` on."""
        self.total = len(due_ns)
        self.longest_wait_ns = min(LONGEST_WAIT_NS, spacing_ns // 4)
        self.late_ns = min(LATE_NS, spacing_ns // 4)
        self._start_ns = start_ns
        self._due_ns = due_ns

    def due_at_ns(self, packet: int) -> int:
        return self._start_ns + int(self._due_ns[packet])

    def due(self, now_ns: int) -> int:
        """First packet that is not due yet."""
        return int(np.searchsorted(self._due_ns, now_ns - self._start_ns, side="right"))

    def postpone(self, packet: int, now_ns: int, *, planned_wait_ns: int = 0) -> None:
        """Postpone this and later packets if more than `late_ns` late."""
        late_ns = now_ns - self.due_at_ns(packet) - planned_wait_ns
        if late_ns > self.late_ns:
            self._start_ns += late_ns
