"""What is known of each packet of a session while it flies (`PacketTable`), and what became of it (`EchoResults`).

Packets are numbered in the order of sending: packet p is the (p // targets)-th of the target of rank p % targets.
Times are monotonic nanoseconds; 0 where there is none yet.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from probes.ping.arrays import Bools, Bytes, Int64s
from probes.ping.icmp_errors import Errors

NS_PER_MS = 1_000_000

HARDWARE_SLACK_NS = 1_000_000
"""How much longer the software's round trip may be than the hardware's before the two cannot be of one packet."""

Scalar = TypeVar("Scalar", bound=np.generic)


@dataclass(frozen=True, slots=True)
class SendPattern:
    """What each target of a cycle is sent: `count` requests of each size, one size after the other.

    Before them goes one of `priming_bytes`, if any, which is not part of what is found. A reply that comes within
    `late_s` of its timeout is late.
    """

    packet_bytes: tuple[int, ...]
    count: int
    spacing_s: float
    timeout_s: float
    late_s: float = 0.0
    priming_bytes: int | None = None

    @property
    def turn_bytes(self) -> Int64s:
        """Size of each turn's packet, one turn being one packet to each target."""
        priming = [] if self.priming_bytes is None else [self.priming_bytes]
        return np.array(priming + [size for size in self.packet_bytes for _ in range(self.count)], np.int64)

    @property
    def first_counted(self) -> int:
        """The first turn that is no priming."""
        return int(self.priming_bytes is not None)


@dataclass(frozen=True, slots=True)
class EchoErrors:
    """ICMP errors of a session, an entry for each packet they are about; at most one a packet.

    `router` is the address that sent the error, in network order.
    """

    target: Int64s
    turn: Int64s
    icmp_type: Int64s
    icmp_code: Int64s
    mtu_bytes: Int64s
    router: Bytes


@dataclass(frozen=True, slots=True)
class EchoResults:
    """What became of the packets of a session: arrays of shape (targets, packets of the pattern), priming left out.

    `sent`: the kernel took it. `sent_at_ns`: Unix time of that. `rtt_ms`: NaN where no reply came in time.
    `arrived_ns`: monotonic, to order replies by. `late`: answered, but after the timeout. `replies`: how many came,
    late ones too. `hop_limit`: what was left of it in the reply, -1 if unknown. `kernel_stamped`: both ends of the
    round trip are the kernel's stamps, `hardware_stamped`: the interface's. `waited`: the send buffer was full when
    it was due. `refused_errno`: why the kernel did not take it, 0 where it did or was not asked. `errors`: the ICMP
    errors, their turns counted without priming.
    """

    sent: Bools
    sent_at_ns: Int64s
    rtt_ms: npt.NDArray[np.float64]
    arrived_ns: Int64s
    late: Bools
    replies: npt.NDArray[np.int32]
    hop_limit: npt.NDArray[np.int16]
    kernel_stamped: Bools
    hardware_stamped: Bools
    waited: Bools
    refused_errno: npt.NDArray[np.int16]
    errors: EchoErrors


class PacketTable:
    """The packets of one session. `next` is the first that the kernel was not yet asked to send."""

    def __init__(self, targets: int, pattern: SendPattern) -> None:
        self.targets = targets
        self.next = 0
        self.packet_bytes = pattern.turn_bytes
        self._first_counted = pattern.first_counted
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
        self._errors: list[tuple[Int64s, Errors, Bytes]] = []
        self._hardware_ns: dict[str, Int64s] = {}

    def enter_hardware(self, end: str, packets: Int64s, stamps_ns: Int64s) -> None:
        """Stamps of the interface for one `end`, `sent` or `arrived`: nanoseconds of a clock of its own."""
        if end not in self._hardware_ns:
            self._hardware_ns[end] = np.zeros(self.total, np.int64)
        self._hardware_ns[end][packets] = stamps_ns

    def enter_errors(self, packets: Int64s, errors: Errors, routers: Bytes) -> None:
        """ICMP errors about these packets. Of a packet only the first is kept, so that nobody can fill our memory."""
        _, first = np.unique(packets, return_index=True)
        new = first[~self._errored[packets[first]]]
        if len(new):
            self._errored[packets[new]] = True
            self._errors.append((packets[new], errors.take(new), routers[new]))

    def awaited(self) -> bool:
        """Whether a request that was sent has neither reply nor error yet."""
        known = (self.replies[: self.next] > 0) | (self.refused_errno[: self.next] != 0) | self._errored[: self.next]
        return not bool(known.all())

    def longest_round_trip_ns(self) -> int:
        """The longest so far, roughly; 0 if nothing came back."""
        answered = self.replies > 0
        return int(np.max(self.arrived_ns - self.called_ns, where=answered, initial=0))

    def results(self, rank_of_target: Int64s, timeout_ns: int, realtime_offset_ns: int) -> EchoResults:
        """Everything in the targets' own order. A reply later than the timeout is no reply in time."""
        answered = self.replies > 0
        stamped = (self.stamped_ns > 0) & (~answered | (self.stamped_ns <= self.arrived_ns))
        sent_ns = np.where(stamped, self.stamped_ns, self.called_ns)
        sent = (np.arange(self.total) < self.next) & (self.refused_errno == 0)
        kernel_stamped = stamped & self.arrival_trusted
        # Of two clocks, one at each end, the difference may come out a little below zero.
        round_trip_ns = np.maximum(self.arrived_ns - sent_ns, 0)
        round_trip_ns, hardware_stamped = self._with_hardware(round_trip_ns, answered & kernel_stamped)
        in_time = sent & answered & (round_trip_ns <= timeout_ns)

        def in_order(values: npt.NDArray[Scalar]) -> npt.NDArray[Scalar]:
            return values.reshape(-1, self.targets)[self._first_counted :].T[rank_of_target]

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
        """Round trips by the interface's stamps where both ends have one, and where that is.

        The interface is nearer to the wire, so its round trip is a little shorter than the software's. Anything else
        comes of two interfaces, each with a clock of its own, and does not count.
        """
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
        def joined(parts: list[npt.NDArray[Scalar]], empty: npt.NDArray[Scalar]) -> npt.NDArray[Scalar]:
            return np.concatenate(parts) if parts else empty

        turn, rank = np.divmod(joined([packets for packets, _, _ in self._errors], np.zeros(0, np.int64)), self.targets)
        counted = turn >= self._first_counted
        none = np.zeros(0, np.int64)
        return EchoErrors(
            target=target_of_rank[rank[counted]],
            turn=turn[counted] - self._first_counted,
            icmp_type=joined([errors.icmp_type for _, errors, _ in self._errors], none)[counted],
            icmp_code=joined([errors.icmp_code for _, errors, _ in self._errors], none)[counted],
            mtu_bytes=joined([errors.mtu_bytes for _, errors, _ in self._errors], none)[counted],
            router=joined([routers for _, _, routers in self._errors], np.zeros((0, 4), np.uint8))[counted],
        )
