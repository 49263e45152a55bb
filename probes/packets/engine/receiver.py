"""Reads replies, ICMP errors and send timestamps into the packet table.

A reply must match identifier, secret, number, sequence, length and source; with only our secret and number, it is an
error (ADR 21). ICMP errors must quote a request.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from functools import cached_property

import numpy as np

from probes.packets.arrays import Bools, Bytes, Int64s
from probes.packets.engine.packet_outcomes import PacketTable
from probes.packets.icmp import echo, icmp_errors, kernel
from probes.packets.icmp.channel import ERROR_QUEUE_DATA_BYTES, Channel, ReceiveBatch
from probes.packets.icmp.clock import StampClock
from probes.packets.icmp.icmp_errors import Errors
from probes.packets.icmp.stamp_keys import StampKeys

# Position of the address in a sockaddr.
HOST_COLUMNS = {4: slice(4, 8), 6: slice(8, 24)}
IPV4_SOURCE = slice(12, 16)

LONGEST_DRAIN_NS = 100_000_000

# Timestamps are doubted this long after an untrusted timestamp: a clock that was set may be set again.
DOUBT_NS = 5_000_000_000


def message_bytes(echo_format: echo.EchoFormat, largest_bytes: int, error_bytes: int = 0) -> int:
    """Bytes of a message to read, with `error_bytes` of an ICMP error.

    All over raw IPv4, for the checksum. On datagram sockets an extra byte reveals longer messages.
    """
    if echo_format.ip_header:
        return max(icmp_errors.LONGEST_BYTES, icmp_errors.MOST_BYTES - echo.MIN_PACKET_BYTES + largest_bytes)
    # Over raw IPv6 the kernel verifies the checksum and reports truncated lengths.
    if echo_format.errors_among_replies:
        return max(icmp_errors.MOST_BYTES, error_bytes)
    return echo.ICMP_HEADER_BYTES + largest_bytes + 1


class Receiver:
    """Stores messages received on `channel` in `table`; `hosts` are socket addresses by rank."""

    def __init__(
        self,
        channel: Channel,
        hosts: Bytes,
        echo_format: echo.EchoFormat,
        table: PacketTable,
        keys: StampKeys,
        rows: int,
        error_bytes: int = ERROR_QUEUE_DATA_BYTES,
        matcher: type[ReplyMatcher] | None = None,
        host_columns: Mapping[int, slice] = HOST_COLUMNS,
    ) -> None:
        """`error_bytes` of each ICMP error are read; `host_columns` of a sockaddr distinguish targets."""
        self._channel = channel
        self._host_column = host_columns[channel.family]
        self._keys = keys
        reply_bytes = message_bytes(echo_format, int(table.packet_bytes.max()), error_bytes)
        self._replies = channel.receive_batch(rows, reply_bytes)
        self._queued = channel.error_queue(rows, error_bytes)
        self.clock = StampClock()
        self.matcher = (matcher or ReplyMatcher)(echo_format, table, hosts[:, self._host_column], self.clock)

    def drain(self) -> None:
        """Read all queued replies, then timestamps, so that answered requests have theirs.

        The time limit lets sending go on.
        """
        self.clock.observe()
        until_ns = time.monotonic_ns() + LONGEST_DRAIN_NS
        while self._take_replies() == self._replies.rows and time.monotonic_ns() < until_ns:
            continue
        self.drain_stamps()

    def drain_stamps(self) -> None:
        """Read the error queue: send timestamps and ICMP errors."""
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
            self.matcher.match_queued_errors(batch.data[:count], batch.lengths(count), hosts, controls, now_ns)
        return count


class ReplyMatcher:
    """Matches received messages to requests of the packet table. No I/O.

    `doubts_stamps` until the first trusted timestamp, and after each untrusted one.
    """

    def __init__(self, echo_format: echo.EchoFormat, table: PacketTable, hosts: Bytes, clock: StampClock) -> None:
        """`hosts` are addresses by rank, in network order."""
        self._format = echo_format
        self._table = table
        self._clock = clock
        self._hosts = np.ascontiguousarray(hosts)
        self.doubts_stamps = True
        self._doubted_until_ns = 0

    @cached_property
    def _rank_of_host(self) -> dict[bytes, int]:
        """Target of each address, for errors without the packet number."""
        return {host.tobytes(): rank for rank, host in enumerate(self._hosts)}

    def store_send_stamps(self, packets: Int64s, controls: kernel.Controls, now_ns: int) -> None:
        """Store send timestamps; packet -1 is not ours."""
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
        """Store replies and errors; `lengths` are on the wire."""
        replies = self._format.read(data, lengths)
        ours = self._ours(replies, sources)
        hop_limits = controls.hop_limit if replies.hop_limit is None else replies.hop_limit
        self._store_replies(replies.number, controls, hop_limits, np.flatnonzero(ours), now_ns)
        if not ours.all():
            self._enter_uncounted(
                replies, sources, controls.stamp_ns, np.flatnonzero(replies.plausible & ~ours), now_ns
            )
        if self._format.errors_among_replies and not ours.all():
            others = np.flatnonzero(replies.intact & ~ours)
            starts = replies.start[others]
            errors, rows = icmp_errors.read_errors(self._format.family, data[others], lengths[others], starts)
            self._enter_errors(errors, sources[others[rows]], controls.stamp_ns[others[rows]], now_ns)

    def match_queued_errors(
        self, data: Bytes, lengths: Int64s, hosts: Bytes, controls: kernel.Controls, now_ns: int
    ) -> None:
        """Store a datagram socket's queued ICMP errors."""
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
            messages=data[rows],
            message_bytes=lengths[rows],
            extension_at=controls.extension_at[rows],
        )
        routers = controls.offender[rows, HOST_COLUMNS[self._format.family]]
        self._enter_errors(errors, routers, controls.stamp_ns[rows], now_ns)

    def _ours(self, replies: echo.Replies, sources: Bytes) -> Bools:
        sent = replies.plausible & self._was_sent(replies.number)
        _, rank = self._table.places(np.where(sent, replies.number, 0))
        ours: Bools = sent & self._is_whole(replies, sent) & (sources == self._hosts[rank]).all(axis=1)
        return ours

    def _is_whole(self, replies: echo.Replies, sent: Bools) -> Bools:
        """Which replies to `sent` packets have their request's sequence and length."""
        turn, _ = self._table.places(np.where(sent, replies.number, 0))
        is_long = replies.icmp_bytes == self._table.packet_bytes[turn] + echo.ICMP_HEADER_BYTES
        whole: Bools = is_long & (replies.sequence == self._format.sequences(turn))
        return whole

    def _enter_uncounted(
        self, replies: echo.Replies, sources: Bytes, stamps_ns: Int64s, rows: Int64s, now_ns: int
    ) -> None:
        """Keep uncounted replies with our secret as errors about their requests."""
        was_sent = self._was_sent(replies.number)
        rows = rows[was_sent[rows]]
        if not len(rows):
            return
        packets = replies.number[rows]
        whole = self._is_whole(replies, was_sent)[rows]
        codes = np.where(whole, icmp_errors.OTHER_ADDRESS_CODE, icmp_errors.ALTERED_CODE)
        errors = icmp_errors.uncounted_replies(self._format.family, codes, self._hosts[self._table.places(packets)[1]])
        arrived_ns, _ = self._clock.to_monotonic(stamps_ns[rows], self._table.called_ns[packets], now_ns)
        self._table.enter_errors(packets, errors, sources[rows], arrived_ns, may_be_answered=True)

    def _was_sent(self, numbers: Int64s) -> Bools:
        reached = numbers < self._table.next
        sent: Bools = reached & (self._table.refused_errno[np.where(reached, numbers, 0)] == 0)
        return sent

    def _store_replies(
        self, numbers: Int64s, controls: kernel.Controls, hop_limits: Int64s, rows: Int64s, now_ns: int
    ) -> None:
        """Store replies in arrival order; the first sets the arrival time."""
        table, packets = self._table, numbers[rows]
        read_ns = now_ns if controls.read_ns is None else controls.read_ns[rows]
        arrived_ns, trusted = self._clock.to_monotonic(controls.stamp_ns[rows], table.called_ns[packets], read_ns)
        self._update_doubt(trusted, now_ns)
        new = np.flatnonzero(table.replies[packets] == 0)[::-1]
        # If a packet occurs twice, NumPy keeps the last assignment: in reversed rows, the first arrival.
        table.arrived_ns[packets[new]] = arrived_ns[new]
        table.arrival_trusted[packets[new]] = trusted[new]
        table.hop_limit[packets[new]] = hop_limits[rows[new]]
        hardware_ns = controls.hardware_ns[rows[new]]
        if hardware_ns.any():
            table.enter_hardware("arrived", packets[new], hardware_ns)
        np.add.at(table.replies, packets, 1)

    def _update_doubt(self, trusted: Bools, now_ns: int) -> None:
        if not trusted.all():
            self.doubts_stamps = True
            self._doubted_until_ns = now_ns + DOUBT_NS
        elif len(trusted) and now_ns >= self._doubted_until_ns:
            self.doubts_stamps = False

    def _enter_errors(self, errors: Errors, routers: Bytes, stamps_ns: Int64s, now_ns: int) -> None:
        packets = self._packets_of(errors)
        ours = np.flatnonzero(packets >= 0)
        if len(ours):
            about, errors = packets[ours], errors.take(ours)
            packet_bytes = self._table.packet_bytes[self._table.places(about)[0]]
            errors = errors.with_mtu_below(packet_bytes + icmp_errors.HEADER_BYTES[self._format.family])
            arrived_ns, _ = self._clock.to_monotonic(stamps_ns[ours], self._table.called_ns[about], now_ns)
            self._table.enter_errors(about, errors, routers[ours], arrived_ns)

    def _packets_of(self, errors: Errors) -> Int64s:
        table, echo_format = self._table, self._format
        quotes, plausible = icmp_errors.read_quotes(echo_format.family, errors.quoted, errors.quoted_bytes)
        ranks = np.array([self._rank_of_host.get(host.tobytes(), -1) for host in errors.hosts], np.int64)
        unquoted = table.packets_at(echo_format.turns(quotes.sequence), ranks)
        numbers = np.where(quotes.whole, quotes.number, unquoted)
        matches = plausible & (ranks >= 0) & (quotes.identifier == echo_format.identifier)
        matches &= self._was_sent(np.maximum(numbers, 0))
        turn, rank = table.places(np.where(matches, numbers, 0))
        matches &= (quotes.sequence == echo_format.sequences(turn)) & (errors.hosts == self._hosts[rank]).all(axis=1)
        by_secret = quotes.whole & (quotes.secret == echo_format.secret).all(axis=1)
        if echo_format.family == 6:
            matches &= by_secret
        else:
            is_unique = len(table.packet_bytes) <= echo.SEQUENCES
            matches &= np.where(quotes.whole, by_secret, is_unique) & (quotes.checksum == echo_format.flows[rank])
        return np.where(matches, numbers, -1)
