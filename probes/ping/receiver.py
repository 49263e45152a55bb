"""Reads replies and send stamps off a socket and enters them in the records, a batch at a time.

A reply counts only if it is that of a request we sent: identifier, secret, number, sequence, length and source.
Anything else, forged, cut or stale, counts as nothing.
"""

from __future__ import annotations

import socket
import time

import numpy as np
import numpy.typing as npt

from probes.ping import echo, kernel
from probes.ping.channel import Channel
from probes.ping.clock import StampClock
from probes.ping.kernel import Bools, Int64s
from probes.ping.records import Records
from probes.ping.stamp_keys import StampKeys

STAMP_DATA_BYTES = 64


class Receiver:
    """Enters what arrives on `channel` in `records`. `hosts` are the targets' socket addresses by rank."""

    def __init__(
        self,
        channel: Channel,
        hosts: npt.NDArray[np.uint8],
        echo_format: echo.EchoFormat,
        records: Records,
        keys: StampKeys,
        rows: int,
    ) -> None:
        self._channel = channel
        self._format = echo_format
        self._records = records
        self._keys = keys
        self._host_column = slice(4, 8) if channel.family == 4 else slice(8, 24)
        self._hosts = np.ascontiguousarray(hosts[:, self._host_column])
        self._replies = kernel.Inbox(rows, self._reply_bytes())
        self._stamps = kernel.Inbox(rows, STAMP_DATA_BYTES)
        self.clock = StampClock()

    def _reply_bytes(self) -> int:
        """How much of a reply to read: a raw socket tells the length of what it cuts, a datagram socket does not."""
        if self._channel.is_raw:
            return echo.IPV4_MAX_HEADER_BYTES + echo.HEAD_BYTES
        return echo.ICMP_HEADER_BYTES + int(self._records.packet_bytes.max()) + 1

    def drain(self) -> None:
        """Read all that waits: replies first, so that the stamp of every request that was answered is read too."""
        self.clock.observe()
        while self._take_replies() == self._replies.rows:
            continue
        self.drain_stamps()

    def drain_stamps(self) -> None:
        """Read the send stamps that wait."""
        while self._take_stamps() == self._stamps.rows:
            continue

    def _take_stamps(self) -> int:
        count = self._stamps.receive(self._channel.descriptor, socket.MSG_ERRQUEUE)
        if count == 0:
            return 0
        now_ns = time.monotonic_ns()
        controls = kernel.read_controls(self._stamps.control[:count], self._stamps.control_lengths(count))
        packets = self._keys.packets(controls.key)
        known = (packets >= 0) & (controls.stamp_ns > 0)
        packets = packets[known]
        stamped_ns, trusted = self.clock.to_monotonic(
            controls.stamp_ns[known], self._records.called_ns[packets], now_ns
        )
        self._records.stamped_ns[packets[trusted]] = stamped_ns[trusted]
        return count

    def _take_replies(self) -> int:
        inbox = self._replies
        count = inbox.receive(self._channel.descriptor, socket.MSG_TRUNC)
        if count == 0:
            return 0
        now_ns = time.monotonic_ns()
        replies = self._format.read(inbox.data[:count], inbox.lengths(count))
        row = np.flatnonzero(self._ours(replies, inbox.names[:count, self._host_column]))
        controls = kernel.read_controls(inbox.control[:count], inbox.control_lengths(count))
        hop_limit = controls.hop_limit if replies.hop_limit is None else replies.hop_limit
        self._enter(replies.number[row], controls.stamp_ns[row], hop_limit[row], now_ns)
        return count

    def _ours(self, replies: echo.Replies, sources: npt.NDArray[np.uint8]) -> Bools:
        known = replies.plausible & (replies.number < self._records.next)
        turn, rank = np.divmod(np.where(known, replies.number, 0), self._records.targets)
        ours: Bools = (
            known
            & (replies.sequence == turn & 0xFFFF)
            & (replies.icmp_bytes == self._records.packet_bytes[turn] + echo.ICMP_HEADER_BYTES)
            & (sources == self._hosts[rank]).all(axis=1)
        )
        return ours

    def _enter(self, packets: Int64s, stamps_ns: Int64s, hop_limits: Int64s, now_ns: int) -> None:
        """Enter replies in the order of arrival. Only the first of each packet sets its time."""
        records = self._records
        arrived_ns, trusted = self.clock.to_monotonic(stamps_ns, records.called_ns[packets], now_ns)
        arrived_ns = np.where(trusted, arrived_ns, now_ns)
        new = np.flatnonzero(records.replies[packets] == 0)[::-1]
        # Where a packet occurs twice, NumPy keeps the last assignment: of the reversed rows, the first to arrive.
        records.arrived_ns[packets[new]] = arrived_ns[new]
        records.arrival_trusted[packets[new]] = trusted[new]
        records.hop_limit[packets[new]] = hop_limits[new]
        np.add.at(records.replies, packets, 1)
