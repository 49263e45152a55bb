"""Reads replies, errors and send stamps off a socket and enters them in the table, a batch at a time.

A reply counts only if it is that of a request we sent: identifier, secret, number, sequence, length and source. An
ICMP error counts only if what it quotes is such a request. Anything else, forged, cut or stale, counts as nothing.
"""

from __future__ import annotations

import time
from functools import cached_property

import numpy as np

from probes.ping import echo, icmp_errors, kernel
from probes.ping.arrays import Bools, Bytes, Int64s
from probes.ping.channel import Channel, ReceiveBatch
from probes.ping.clock import StampClock
from probes.ping.icmp_errors import Errors
from probes.ping.packet_table import PacketTable
from probes.ping.stamp_keys import StampKeys

HOST_COLUMNS = {4: slice(4, 8), 6: slice(8, 24)}
"""Where the address lies in a sockaddr."""
IPV4_SOURCE = slice(12, 16)

LONGEST_DRAIN_NS = 100_000_000

DOUBT_NS = 5_000_000_000
"""How long a stamp that cannot be trusted casts doubt on those after it: a clock that was set may be set again."""


def message_bytes(echo_format: echo.EchoFormat, largest_bytes: int) -> int:
    """How much of a message to read.

    All of it over raw IPv4, to check its sum. Over raw IPv6 the kernel has done that, and tells the length of what it
    cuts. A datagram socket does not tell it, so that a byte more shows what is too long.
    """
    if echo_format.ip_header:
        return max(icmp_errors.LONGEST_BYTES, icmp_errors.MOST_BYTES - echo.MIN_PACKET_BYTES + largest_bytes)
    if echo_format.errors_among_replies:
        return icmp_errors.MOST_BYTES
    return echo.ICMP_HEADER_BYTES + largest_bytes + 1


class Receiver:
    """Enters what arrives on `channel` in `table`. `hosts` are the targets' socket addresses by rank."""

    def __init__(
        self,
        channel: Channel,
        hosts: Bytes,
        echo_format: echo.EchoFormat,
        table: PacketTable,
        keys: StampKeys,
        rows: int,
    ) -> None:
        self._channel = channel
        self._host_column = HOST_COLUMNS[channel.family]
        self._keys = keys
        reply_bytes = message_bytes(echo_format, int(table.packet_bytes.max()))
        self._replies = channel.receive_batch(rows, reply_bytes)
        self._queued = channel.error_queue(rows)
        self.clock = StampClock()
        self.matcher = ReplyMatcher(echo_format, table, hosts[:, HOST_COLUMNS[channel.family]], self.clock)

    def drain(self) -> None:
        """Read all that waits: replies first, so that the stamp of every request that was answered is read too.

        A raw socket is given the replies to every program on this host. Where they never end, sending must go on.
        """
        self.clock.observe()
        until_ns = time.monotonic_ns() + LONGEST_DRAIN_NS
        while self._take_replies() == self._replies.rows and time.monotonic_ns() < until_ns:
            continue
        self.drain_stamps()

    def drain_stamps(self) -> None:
        """Read what waits on the error queue: send stamps, and a datagram socket's ICMP errors."""
        if self._queued is not None:
            while self._take_queued(self._queued) == self._queued.rows:
                continue

    def _take_replies(self) -> int:
        batch = self._replies
        count = batch.receive()
        if count:
            controls = batch.controls(count)
            data = batch.data[:count]
            sources = data[:, IPV4_SOURCE] if self._channel.has_ip_header else batch.names[:count, self._host_column]
            self.matcher.match_messages(data, batch.lengths(count), sources, controls, time.monotonic_ns())
        return count

    def _take_queued(self, batch: ReceiveBatch) -> int:
        count = batch.receive()
        if count == 0:
            return 0
        now_ns = time.monotonic_ns()
        controls = batch.controls(count)
        self.matcher.store_send_stamps(self._keys.packets(controls.key), controls, now_ns)
        if not self._channel.is_raw and controls.error_origin.any():
            hosts = batch.names[:count, self._host_column]
            self.matcher.match_queued_errors(batch.data[:count], batch.lengths(count), hosts, controls)
        return count


class ReplyMatcher:
    """What a batch that was read means for the table. Takes bytes and control messages; does no I/O.

    `doubts_stamps`: the stamp of the next reply may not be one to trust, so that the moment of reading it is its time.
    So it is until a stamp has been trusted, and for a while after one that has not.
    """

    def __init__(self, echo_format: echo.EchoFormat, table: PacketTable, hosts: Bytes, clock: StampClock) -> None:
        """`hosts` are the targets' addresses by rank, in network order."""
        self._format = echo_format
        self._table = table
        self._clock = clock
        self._hosts = np.ascontiguousarray(hosts)
        self.doubts_stamps = True
        self._doubted_until_ns = 0

    @cached_property
    def _rank_of_host(self) -> dict[bytes, int]:
        """For the few errors that quote no number: which target has this address."""
        return {host.tobytes(): rank for rank, host in enumerate(self._hosts)}

    def store_send_stamps(self, packets: Int64s, controls: kernel.Controls, now_ns: int) -> None:
        """Enter send stamps of these packets, -1 being none of ours."""
        by_kernel = (packets >= 0) & (controls.stamp_ns > 0)
        sent = packets[by_kernel]
        stamped_ns, trusted = self._clock.to_monotonic(
            controls.stamp_ns[by_kernel], self._table.called_ns[sent], now_ns
        )
        self._table.stamped_ns[sent[trusted]] = stamped_ns[trusted]
        by_interface = (packets >= 0) & (controls.hardware_ns > 0)
        if by_interface.any():
            self._table.enter_hardware("sent", packets[by_interface], controls.hardware_ns[by_interface])

    def match_messages(
        self, data: Bytes, lengths: Int64s, sources: Bytes, controls: kernel.Controls, now_ns: int
    ) -> None:
        """Enter the replies and errors among a socket's messages, each a row; `lengths` are those on the wire."""
        replies = self._format.read(data, lengths)
        ours = self._ours(replies, sources)
        hop_limits = controls.hop_limit if replies.hop_limit is None else replies.hop_limit
        self._enter(replies.number, controls, hop_limits, np.flatnonzero(ours), now_ns)
        if self._format.errors_among_replies and not ours.all():
            others = np.flatnonzero(replies.intact & ~ours)
            starts = replies.start[others]
            errors, rows = icmp_errors.read_errors(self._format.family, data[others], lengths[others], starts)
            self._enter_errors(errors, sources[others[rows]])

    def match_queued_errors(self, data: Bytes, lengths: Int64s, hosts: Bytes, controls: kernel.Controls) -> None:
        """Enter the ICMP errors among the messages of a datagram socket's error queue."""
        rows = np.flatnonzero(controls.error_origin)
        icmp_type, icmp_code = controls.error_type[rows], controls.error_code[rows]
        carried = icmp_errors.carries_mtu(self._format.family, icmp_type, icmp_code)
        errors = Errors(
            icmp_type=icmp_type,
            icmp_code=icmp_code,
            mtu_bytes=np.where(carried, controls.error_info[rows], 0),
            hosts=hosts[rows],
            quoted=data[rows, : echo.HEAD_BYTES],
            quoted_bytes=lengths[rows],
        )
        self._enter_errors(errors, controls.offender[rows, HOST_COLUMNS[self._format.family]])

    def _ours(self, replies: echo.Replies, sources: Bytes) -> Bools:
        known = replies.plausible & self._was_sent(replies.number)
        turn, rank = np.divmod(np.where(known, replies.number, 0), self._table.targets)
        ours: Bools = (
            known
            & (replies.sequence == turn & 0xFFFF)
            & (replies.icmp_bytes == self._table.packet_bytes[turn] + echo.ICMP_HEADER_BYTES)
            & (sources == self._hosts[rank]).all(axis=1)
        )
        return ours

    def _was_sent(self, numbers: Int64s) -> Bools:
        reached = numbers < self._table.next
        sent: Bools = reached & (self._table.refused_errno[np.where(reached, numbers, 0)] == 0)
        return sent

    def _enter(self, numbers: Int64s, controls: kernel.Controls, hop_limits: Int64s, rows: Int64s, now_ns: int) -> None:
        """Enter the replies of these rows in the order of arrival. Only the first of each packet sets its time."""
        table, packets = self._table, numbers[rows]
        read_ns = now_ns if controls.read_ns is None else controls.read_ns[rows]
        arrived_ns, trusted = self._clock.to_monotonic(controls.stamp_ns[rows], table.called_ns[packets], read_ns)
        self._weigh(trusted, now_ns)
        new = np.flatnonzero(table.replies[packets] == 0)[::-1]
        # Where a packet occurs twice, NumPy keeps the last assignment: of the reversed rows, the first to arrive.
        table.arrived_ns[packets[new]] = arrived_ns[new]
        table.arrival_trusted[packets[new]] = trusted[new]
        table.hop_limit[packets[new]] = hop_limits[rows[new]]
        hardware_ns = controls.hardware_ns[rows[new]]
        if hardware_ns.any():
            table.enter_hardware("arrived", packets[new], hardware_ns)
        np.add.at(table.replies, packets, 1)

    def _weigh(self, trusted: Bools, now_ns: int) -> None:
        """Doubt, or trust again, by what the stamps of these replies were worth."""
        if not trusted.all():
            self.doubts_stamps = True
            self._doubted_until_ns = now_ns + DOUBT_NS
        elif len(trusted) and now_ns >= self._doubted_until_ns:
            self.doubts_stamps = False

    def _enter_errors(self, errors: Errors, routers: Bytes) -> None:
        packets = self._packets_of(errors)
        ours = np.flatnonzero(packets >= 0)
        if len(ours):
            about, errors = packets[ours], errors.take(ours)
            packet_bytes = self._table.packet_bytes[about // self._table.targets]
            errors = errors.with_mtu_below(packet_bytes + icmp_errors.HEADER_BYTES[self._format.family])
            self._table.enter_errors(about, errors, routers[ours])

    def _packets_of(self, errors: Errors) -> Int64s:
        """Which of our packets each error is about; -1 where it is none."""
        table, echo_format = self._table, self._format
        quotes, plausible = icmp_errors.read_quotes(echo_format.family, errors.quoted, errors.quoted_bytes)
        ranks = np.array([self._rank_of_host.get(host.tobytes(), -1) for host in errors.hosts], np.int64)
        numbers = np.where(quotes.whole, quotes.number, quotes.sequence * table.targets + ranks)
        known = plausible & (ranks >= 0) & (quotes.identifier == echo_format.identifier)
        known &= self._was_sent(np.maximum(numbers, 0))
        turn, rank = np.divmod(np.where(known, numbers, 0), table.targets)
        known &= (quotes.sequence == turn & 0xFFFF) & (errors.hosts == self._hosts[rank]).all(axis=1)
        by_secret = quotes.whole & (quotes.secret == echo_format.secret).all(axis=1)
        if echo_format.family == 6:
            known &= by_secret
        else:
            known &= by_secret | ~quotes.whole
            tail_sums = np.array([echo_format.tail_sum(size) for size in table.packet_bytes[turn].tolist()], np.int64)
            known &= quotes.checksum == echo_format.checksums(numbers, turn, tail_sums)
        return np.where(known, numbers, -1)
