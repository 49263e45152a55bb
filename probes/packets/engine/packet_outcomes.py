"""The packets of a session, and their outcomes. Times are monotonic nanoseconds, 0 if unset.

Unless reordered, packet p is the (p // targets)-th of the target of rank p % targets.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from probes.packets.arrays import Bools, Bytes, Int64s
from probes.packets.icmp.icmp_errors import Errors

NS_PER_MS = 1_000_000

# Maximum excess of the software RTT over the hardware RTT of the same packet.
HARDWARE_SLACK_NS = 1_000_000

Scalar = TypeVar("Scalar", bound=np.generic)


@dataclass(frozen=True, slots=True)
class SendPattern:
    """The packets for each target of a cycle: `count` requests of each size, size after size."""

    packet_bytes: tuple[int, ...]
    count: int
    spacing_s: float
    timeout_s: float
    late_s: float = 0.0  # replies within this time after the timeout are late
    priming_bytes: int | None = None  # size of an uncounted first request
    is_even: bool = False  # sizes take turns, without priming

    @property
    def turn_bytes(self) -> Int64s:
        """Packet size of each turn, in which each target gets a packet."""
        if self.is_even:
            return np.tile(np.array(self.packet_bytes, np.int64), self.count)
        priming = [] if self.priming_bytes is None else [self.priming_bytes]
        return np.array(priming + [size for size in self.packet_bytes for _ in range(self.count)], np.int64)

    @property
    def first_counted(self) -> int:
        """The first turn after priming."""
        return int(self.priming_bytes is not None and not self.is_even)

    @property
    def turns_by_size(self) -> Int64s:
        """Counted turns, size after size, in sending order."""
        turns = np.arange(self.first_counted, len(self.turn_bytes))
        return turns.reshape(self.count, -1).T.ravel() if self.is_even else turns


@dataclass(frozen=True, slots=True)
class EchoErrors:
    """ICMP errors of a session, at most one per packet."""

    target: Int64s
    turn: Int64s
    icmp_type: Int64s
    icmp_code: Int64s
    mtu_bytes: Int64s
    router: Bytes  # sender of the error, in network order


@dataclass(frozen=True, slots=True)
class EchoResults:
    """Results of a session without priming: arrays of shape (targets, packets)."""

    sent: Bools  # accepted by the kernel
    sent_at_ns: Int64s  # Unix time
    rtt_ms: npt.NDArray[np.float64]  # NaN if no reply came in time
    arrived_ns: Int64s  # monotonic, to order replies by
    late: Bools  # answered after the timeout
    replies: npt.NDArray[np.int32]  # number of replies, late ones included
    hop_limit: npt.NDArray[np.int16]  # of the reply; -1 if unknown
    kernel_stamped: Bools  # send and receive time are kernel timestamps
    hardware_stamped: Bools  # both are hardware timestamps
    waited: Bools  # the send buffer was full when due
    refused_errno: npt.NDArray[np.int16]  # of the kernel's refusal, else 0
    errors: EchoErrors  # with turns counted without priming


class PacketTable:
    """The packets of a session; `next` is the first not yet handed to the kernel."""

    def __init__(self, targets: int, pattern: SendPattern, cells: Int64s | None = None) -> None:
        """`cells`: turn times `targets` plus target rank of each packet, in sending order."""
        self.targets = targets
        self.next = 0
        self.packet_bytes = pattern.turn_bytes
        self._turns_by_size = pattern.turns_by_size
        self._cells = cells
        self._packet_of_cell = None if cells is None else np.argsort(cells)
        self.total = total = targets * len(self.packet_bytes)
        self.called_ns: Int64s = np.zeros(total, np.int64)
        self.stamped_ns: Int64s = np.zeros(total, np.int64)
        self.arrived_ns: Int64s = np.zeros(total, np.int64)
        self.arrival_trusted: Bools = np.zeros(total, np.bool_)
        self.replies: npt.NDArray[np.int32] = np.zeros(total, np.int32)
        self.hop_limit: npt.NDArray[np.int16] = np.full(total, -1, np.int16)
        self.refused_errno: npt.NDArray[np.int16] = np.zeros(total, np.int16)
        self.waited: Bools = np.zeros(total, np.bool_)
        self._errored: Bools = np.zeros(total, np.bool_)
        self._has_uncounted: Bools = np.zeros(total, np.bool_)
        self._errors: list[tuple[Int64s, Errors, Bytes]] = []
        self._hardware_ns: dict[str, Int64s] = {}

    def enter_hardware(self, end: str, packets: Int64s, stamps_ns: Int64s) -> None:
        """Store hardware timestamps (interface clock, ns) of an `end`, `sent` or `arrived`."""
        if end not in self._hardware_ns:
            self._hardware_ns[end] = np.zeros(self.total, np.int64)
        self._hardware_ns[end][packets] = stamps_ns

    def places(self, packets: Int64s) -> tuple[Int64s, Int64s]:
        turns, ranks = np.divmod(packets if self._cells is None else self._cells[packets], self.targets)
        return turns, ranks

    def turn_of(self, packet: int) -> int:
        return (packet if self._cells is None else int(self._cells[packet])) // self.targets

    def packets_at(self, turns: Int64s, ranks: Int64s) -> Int64s:
        cells = turns * self.targets + ranks
        if self._packet_of_cell is None:
            return cells
        # Turns come from messages of others too: a cell that does not exist is no packet that was sent.
        exists = (cells >= 0) & (cells < self.total)
        return np.where(exists, self._packet_of_cell[np.where(exists, cells, 0)], self.total)

    def by_target(self, values: npt.NDArray[Scalar], rank_of_target: Int64s) -> npt.NDArray[Scalar]:
        """Arrange values in shape (targets, counted packets)."""
        by_cell = values if self._packet_of_cell is None else values[self._packet_of_cell]
        return by_cell.reshape(-1, self.targets)[self._turns_by_size].T[rank_of_target]

    def enter_errors(
        self, packets: Int64s, errors: Errors, routers: Bytes, arrived_ns: Int64s, *, may_be_answered: bool = False
    ) -> None:
        """Store the first ICMP error about each packet, to bound memory.

        With `may_be_answered`, replies are still awaited.
        """
        _, first = np.unique(packets, return_index=True)
        noted = self._has_uncounted if may_be_answered else self._errored
        new = first[~noted[packets[first]]]
        if len(new):
            noted[packets[new]] = True
            self._errors.append((packets[new], errors.take(new), routers[new]))

    def has_pending(self) -> bool:
        """Whether any sent request is unresolved."""
        resolved = (self.replies[: self.next] > 0) | (self.refused_errno[: self.next] != 0) | self._errored[: self.next]
        return not bool(resolved.all())

    def max_rtt_ns(self) -> int:
        """Approximate maximum RTT so far; 0 without replies."""
        answered = self.replies > 0
        return int(np.max(self.arrived_ns - self.called_ns, where=answered, initial=0))

    def results(self, rank_of_target: Int64s, timeout_ns: int, realtime_offset_ns: int) -> EchoResults:
        """Decide which packets were answered in time, late or lost, in target order."""
        answered = self.replies > 0
        stamped = (self.stamped_ns > 0) & (~answered | (self.stamped_ns <= self.arrived_ns))
        sent_ns = np.where(stamped, self.stamped_ns, self.called_ns)
        sent = (np.arange(self.total) < self.next) & (self.refused_errno == 0)
        kernel_stamped = stamped & self.arrival_trusted
        # With different clocks for sending and receiving, the difference may be slightly negative.
        round_trip_ns = np.maximum(self.arrived_ns - sent_ns, 0)
        round_trip_ns, hardware_stamped = self._with_hardware(round_trip_ns, answered & kernel_stamped)
        in_time = sent & answered & (round_trip_ns <= timeout_ns)

        def in_order(values: npt.NDArray[Scalar]) -> npt.NDArray[Scalar]:
            return self.by_target(values, rank_of_target)

        return EchoResults(
            sent=in_order(sent),
            sent_at_ns=in_order(np.where(sent, sent_ns + realtime_offset_ns, 0)),
            rtt_ms=in_order(np.where(in_time, round_trip_ns / NS_PER_MS, np.nan)),
            arrived_ns=in_order(self.arrived_ns),
            late=in_order(sent & answered & ~in_time),
            replies=in_order(self.replies),
            hop_limit=in_order(self.hop_limit),
            kernel_stamped=in_order(kernel_stamped),
            hardware_stamped=in_order(hardware_stamped),
            waited=in_order(self.waited),
            refused_errno=in_order(self.refused_errno),
            errors=self._errors_in_order(np.argsort(rank_of_target)),
        )

    def _with_hardware(self, round_trip_ns: Int64s, software: Bools) -> tuple[Int64s, Bools]:
        """RTTs from hardware timestamps at both ends, and their mask."""
        # A hardware RTT is slightly shorter than the software RTT; others mean two clocks.
        none = np.zeros(self.total, np.bool_)
        if len(self._hardware_ns) < 2:
            return round_trip_ns, none
        sent_ns, arrived_ns = self._hardware_ns["sent"], self._hardware_ns["arrived"]
        hardware_ns = arrived_ns - sent_ns
        saved_ns = round_trip_ns - hardware_ns
        sound = software & (sent_ns > 0) & (arrived_ns > 0) & (hardware_ns >= 0)
        sound &= (saved_ns >= 0) & (saved_ns <= HARDWARE_SLACK_NS)
        return np.where(sound, hardware_ns, round_trip_ns), sound

    def _errors_in_order(self, target_of_rank: Int64s) -> EchoErrors:
        def concatenate(parts: list[npt.NDArray[Scalar]], empty: npt.NDArray[Scalar]) -> npt.NDArray[Scalar]:
            return np.concatenate(parts) if parts else empty

        turn, rank = self.places(concatenate([packets for packets, _, _ in self._errors], np.zeros(0, np.int64)))
        place_of_turn = np.full(len(self.packet_bytes), -1, np.int64)
        place_of_turn[self._turns_by_size] = np.arange(len(self._turns_by_size))
        counted = place_of_turn[turn] >= 0
        none = np.zeros(0, np.int64)
        return EchoErrors(
            target=target_of_rank[rank[counted]],
            turn=place_of_turn[turn[counted]],
            icmp_type=concatenate([errors.icmp_type for _, errors, _ in self._errors], none)[counted],
            icmp_code=concatenate([errors.icmp_code for _, errors, _ in self._errors], none)[counted],
            mtu_bytes=concatenate([errors.mtu_bytes for _, errors, _ in self._errors], none)[counted],
            router=concatenate([routers for _, _, routers in self._errors], np.zeros((0, 4), np.uint8))[counted],
        )
