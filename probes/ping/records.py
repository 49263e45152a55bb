"""What is known of each packet of a flight while it flies (`Records`), and what became of it (`Echoes`).

Packets are numbered in the order of sending: packet p is the (p // targets)-th of the target of rank p % targets.
Times are monotonic nanoseconds; 0 where there is none yet.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from probes.ping.kernel import Bools, Int64s

NS_PER_MS = 1_000_000

Scalar = TypeVar("Scalar", bound=np.generic)


@dataclass(frozen=True, slots=True)
class Train:
    """What each target of a cycle is sent: `count` requests of each size, one size after the other."""

    packet_bytes: tuple[int, ...]
    count: int
    spacing_s: float
    timeout_s: float

    @property
    def turns(self) -> int:
        """Packets for each target."""
        return len(self.packet_bytes) * self.count


@dataclass(frozen=True, slots=True)
class Echoes:
    """What became of the packets of a flight: arrays of shape (targets, packets of the train).

    `sent`: the kernel took it. `sent_at_ns`: Unix time of that. `rtt_ms`: NaN where no reply came in time.
    `arrived_ns`: monotonic, to order replies by. `replies`: how many came, late ones too. `hop_limit`: what was left
    of it in the reply, -1 if unknown. `kernel_stamped`: both ends of the round trip are the kernel's stamps.
    `refused_errno`: why the kernel did not take it, 0 where it did or was not asked.
    """

    sent: Bools
    sent_at_ns: Int64s
    rtt_ms: npt.NDArray[np.float64]
    arrived_ns: Int64s
    replies: npt.NDArray[np.int32]
    hop_limit: npt.NDArray[np.int16]
    kernel_stamped: Bools
    refused_errno: npt.NDArray[np.int16]


class Records:
    """The packets of one flight. `next` is the first that the kernel was not yet asked to send."""

    __slots__ = (
        "arrival_trusted",
        "arrived_ns",
        "called_ns",
        "hop_limit",
        "next",
        "packet_bytes",
        "refused_errno",
        "replies",
        "stamped_ns",
        "targets",
    )

    def __init__(self, targets: int, train: Train) -> None:
        total = targets * train.turns
        self.targets = targets
        self.next = 0
        self.packet_bytes: Int64s = np.repeat(np.array(train.packet_bytes, np.int64), train.count)
        """Size of each turn's packets."""
        self.called_ns: Int64s = np.zeros(total, np.int64)
        self.stamped_ns: Int64s = np.zeros(total, np.int64)
        self.arrived_ns: Int64s = np.zeros(total, np.int64)
        self.arrival_trusted: Bools = np.zeros(total, np.bool_)
        self.replies: npt.NDArray[np.int32] = np.zeros(total, np.int32)
        self.hop_limit: npt.NDArray[np.int16] = np.full(total, -1, np.int16)
        self.refused_errno: npt.NDArray[np.int16] = np.zeros(total, np.int16)

    def awaited(self) -> bool:
        """Whether a request that was sent has no reply yet."""
        return bool(np.any((self.replies[: self.next] == 0) & (self.refused_errno[: self.next] == 0)))

    def longest_round_trip_ns(self) -> int:
        """The longest so far, roughly; 0 if nothing came back."""
        answered = self.replies > 0
        return int(np.max(self.arrived_ns - self.called_ns, where=answered, initial=0))

    def echoes(self, rank_of_target: Int64s, timeout_ns: int, realtime_offset_ns: int) -> Echoes:
        """Everything in the targets' own order. A reply later than the timeout is no reply in time."""
        answered = self.replies > 0
        stamped = (self.stamped_ns > 0) & (~answered | (self.stamped_ns <= self.arrived_ns))
        sent_ns = np.where(stamped, self.stamped_ns, self.called_ns)
        sent = (np.arange(len(sent_ns)) < self.next) & (self.refused_errno == 0)
        round_trip_ns = self.arrived_ns - sent_ns
        in_time = sent & answered & (round_trip_ns <= timeout_ns)

        def in_order(values: npt.NDArray[Scalar]) -> npt.NDArray[Scalar]:
            return values.reshape(-1, self.targets).T[rank_of_target]

        return Echoes(
            sent=in_order(sent),
            sent_at_ns=in_order(np.where(sent, sent_ns + realtime_offset_ns, 0)),
            rtt_ms=in_order(np.where(in_time, round_trip_ns / NS_PER_MS, np.nan)),
            arrived_ns=in_order(self.arrived_ns),
            replies=in_order(self.replies),
            hop_limit=in_order(self.hop_limit),
            kernel_stamped=in_order(stamped & self.arrival_trusted),
            refused_errno=in_order(self.refused_errno),
        )
