"""The packets of a STAMP session, and figures from their replies."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from enum import Enum
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from probes.packets.arrays import Bools, Bytes, Int64s
from probes.packets.engine.packet_outcomes import PacketTable, SendPattern

Scalar = TypeVar("Scalar", bound=np.generic)

UNKNOWN = -1
# Senders and reasons kept of each target's uncounted replies: anybody may send them.
MOST_UNCOUNTED = 8
LONGEST_SEND_NS = 1_000_000_000


class Uncounted(Enum):
    """Why a packet with our identity is no reply that counts."""

    ECHO = "a packet came back unchanged from {sender}: that is an echo service, no STAMP reflector"
    OTHER_ADDRESS = "a reply from {sender} does not count: it is not the address and port that was asked"
    NOT_AUTHENTIC = "a reply from {sender} does not count: it was made with another key, or changed on the way"


@dataclass(frozen=True, slots=True)
class ReplyFigures:
    """Figures of the first reply to each packet: arrays of shape (targets, packets)."""

    counter: Int64s  # the reflector's number of the reply
    left_ns: Int64s  # our Unix time of the packet's departure
    arrived_ns: Int64s  # our Unix time of the reply's arrival
    far_received_ns: Int64s  # the reflector's Unix time; 0 for none
    far_sent_ns: Int64s  # the reflector's Unix time; 0 for none
    followed_up: Bools  # `far_sent_ns` was reported later
    estimate: Int64s  # the reflector's error estimate
    forward_ttl: Int64s  # TTL and DSCP are -1 if unknown
    forward_dscp: Int64s
    reverse_dscp: Int64s
    further: Int64s  # rows (target, packet, counter, monotonic arrival, reflector's receive time) of further replies


class StampTable(PacketTable):
    """The packets of a session; `sent_stamps` are our timestamps, which replies return."""

    def __init__(self, targets: int, pattern: SendPattern, cells: Int64s | None = None) -> None:
        super().__init__(targets, pattern, cells)
        total = self.total
        self.sent_stamps: npt.NDArray[np.uint64] = np.zeros(total, np.uint64)
        self.counter: Int64s = np.full(total, UNKNOWN, np.int64)
        self.far_received_ns: Int64s = np.zeros(total, np.int64)
        self.far_sent_ns: Int64s = np.zeros(total, np.int64)
        self.estimate: Int64s = np.zeros(total, np.int64)
        self.forward_ttl: Int64s = np.full(total, UNKNOWN, np.int64)
        self.forward_dscp: Int64s = np.full(total, UNKNOWN, np.int64)
        self.reverse_dscp: Int64s = np.full(total, UNKNOWN, np.int64)
        self.error_names: dict[int, str] = {}
        self.uncounted: dict[int, Counter[tuple[Uncounted, bytes]]] = {}
        self._further: list[Int64s] = []
        self._follow_ups: list[Int64s] = []

    def enter_uncounted(self, ranks: Int64s, reason: Uncounted, sources: Bytes) -> None:
        for rank, source in zip(ranks.tolist(), sources, strict=True):
            counts = self.uncounted.setdefault(rank, Counter())
            key = reason, source.tobytes()
            if key in counts or len(counts) < MOST_UNCOUNTED:
                counts[key] += 1

    def enter_further(self, packets: Int64s, counters: Int64s, arrived_ns: Int64s, far_received_ns: Int64s) -> None:
        if len(packets):
            self._further.append(np.column_stack((packets, counters, arrived_ns, far_received_ns)))

    def enter_follow_ups(self, ranks: Int64s, counters: Int64s, sent_ns: Int64s) -> None:
        """Store true send times by counter."""
        if len(ranks):
            self._follow_ups.append(np.column_stack((ranks, counters, sent_ns)))

    @property
    def follow_ups(self) -> Int64s:
        """Rows of rank, counter and true send time."""
        return np.concatenate(self._follow_ups) if self._follow_ups else np.zeros((0, 3), np.int64)

    def figures(self, rank_of_target: Int64s, realtime_offset_ns: int) -> ReplyFigures:
        followed_up = self._apply_follow_ups()

        def in_order(values: npt.NDArray[Scalar]) -> npt.NDArray[Scalar]:
            return self.by_target(values, rank_of_target)

        answered = self.replies > 0
        stamped = (self.stamped_ns > 0) & (~answered | (self.stamped_ns <= self.arrived_ns))
        left_ns = np.where(stamped, self.stamped_ns, self.called_ns)
        further = np.concatenate(self._further) if self._further else np.zeros((0, 4), np.int64)
        turns, ranks = self.places(further[:, 0])
        target_of_rank = np.argsort(rank_of_target)
        return ReplyFigures(
            counter=in_order(self.counter),
            left_ns=in_order(left_ns + realtime_offset_ns),
            arrived_ns=in_order(np.where(answered, self.arrived_ns + realtime_offset_ns, 0)),
            far_received_ns=in_order(self.far_received_ns),
            far_sent_ns=in_order(self.far_sent_ns),
            followed_up=in_order(followed_up),
            estimate=in_order(self.estimate),
            forward_ttl=in_order(self.forward_ttl),
            forward_dscp=in_order(self.forward_dscp),
            reverse_dscp=in_order(self.reverse_dscp),
            further=np.column_stack((target_of_rank[ranks], turns, further[:, 1:])),
        )

    def _apply_follow_ups(self) -> Bools:
        """Set the true send times of replies; return which changed."""
        followed: Bools = np.zeros(self.total, np.bool_)
        if not self._follow_ups:
            return followed
        ranks, counters, sent_ns = self.follow_ups.T
        packets = np.flatnonzero(self.counter != UNKNOWN)
        keys = self._key(self.places(packets)[1], self.counter[packets])
        order = np.argsort(keys, kind="stable")
        wanted = self._key(ranks, counters)
        at = np.minimum(np.searchsorted(keys[order], wanted), len(order) - 1)
        matches = keys[order][at] == wanted
        about = packets[order][at][matches]
        told_ns = sent_ns[matches]
        # A reply leaves soon after the reflector wrote into it.
        waited_ns = told_ns - self.far_sent_ns[about]
        sound = (waited_ns >= 0) & (waited_ns <= LONGEST_SEND_NS)
        self.far_sent_ns[about[sound]] = told_ns[sound]
        followed[about[sound]] = True
        return followed

    @staticmethod
    def _key(ranks: Int64s, counters: Int64s) -> Int64s:
        return ranks << 32 | counters
