"""Hands due requests to the kernel in batches, and handles refusals.

`sendmmsg` reports an error only when called again with the failed packet.
"""

from __future__ import annotations

import errno
import socket
import struct
import time
from collections.abc import Callable, Sequence

import numpy as np

from probes.packets.addresses import FAMILY, SocketAddress
from probes.packets.engine.packet_outcomes import PacketTable
from probes.packets.icmp import echo, kernel
from probes.packets.icmp.channel import Channel, SendBatch
from probes.packets.icmp.stamp_keys import StampKeys

SEND_BUFFER_FULL = (errno.EAGAIN, errno.EWOULDBLOCK, errno.ENOBUFS)

# Routing errors occur before the kernel makes the packet, so no timestamp key is used.
FAILED_AT_ROUTE = (errno.EHOSTUNREACH, errno.ENETUNREACH, errno.EACCES, errno.EINVAL)

# Upper estimate of the buffer space charged per message in addition to twice its bytes; the kernel rounds up.
MESSAGE_OVERHEAD_BYTES = 1100


def pack_address(family: int, address: SocketAddress) -> bytes:
    """Pack into `sockaddr_in6`, or `sockaddr_in` padded to its length."""
    host, port = socket.inet_pton(FAMILY[family], address[0].partition("%")[0]), socket.htons(address[1])
    if family == 4:
        return struct.pack("=HH4s20x", socket.AF_INET, port, host)
    scope = address[3] if len(address) == 4 else 0
    return struct.pack("=HHI16sI", socket.AF_INET6, port, 0, host, scope)


class Sender:
    """Sends a session's packets in the order of their numbers."""

    def __init__(
        self,
        channel: Channel,
        addresses: Sequence[SocketAddress],
        echo_format: echo.EchoFormat,
        table: PacketTable,
        keys: StampKeys,
        rows: int,
        restart_keys: Callable[[], None],
    ) -> None:
        """`addresses` are by rank; `restart_keys` is called when timestamp keys may be out of step."""
        self._channel = channel
        self._format = echo_format
        self._table = table
        self._keys = keys
        self._restart_keys = restart_keys
        sizes, turns = np.unique(table.packet_bytes, return_inverse=True)
        self._tail_sums = np.array([echo_format.tail_sum(size) for size in sizes.tolist()], np.int64)[turns]
        packed = b"".join(pack_address(echo_format.family, address) for address in addresses)
        self.names = np.frombuffer(packed, np.uint8).reshape(len(addresses), kernel.SOCKADDR_BYTES)
        self._batch = self._make_batch(rows)
        echo_format.prepare(self._batch.heads)
        self._charge_bytes = 2 * int(table.packet_bytes.max()) + MESSAGE_OVERHEAD_BYTES
        self._rows = rows
        self._written_first = 0
        self._written_stop = 0

    def _make_batch(self, rows: int) -> SendBatch:
        return self._channel.send_batch(self.names, rows, self._format.head_bytes, self._format.padding)

    def send(self, stop: int) -> bool:
        """Send up to `stop`; False if the send buffer filled up."""
        table = self._table
        while table.next < stop:
            if table.next >= self._written_stop:
                self._write()
            room = self._channel.send_room(self._charge_bytes)
            batch_stop = min(stop, self._written_stop, table.next + room)
            if room == 0 or not self._send_until(batch_stop):
                table.waited[table.next : stop] = True
                return False
        return True

    def _write(self) -> None:
        """Encode following requests to fill the batch, cheaper in bulk."""
        self._written_first = self._table.next
        self._written_stop = min(self._written_first + self._rows, self._table.total)
        numbers = np.arange(self._written_first, self._written_stop)
        turns, ranks = self._table.places(numbers)
        packet_bytes = self._table.packet_bytes[turns]
        self._format.write(self._batch.heads[: len(numbers)], numbers, turns, ranks, self._tail_sums[turns])
        self._batch.set_destinations(ranks, packet_bytes - echo.MIN_PACKET_BYTES)

    def _send_until(self, stop: int) -> bool:
        table = self._table
        while table.next < stop:
            error = self._send_once(stop)
            if error == 0 and table.next < stop:
                error = self._send_once(table.next + 1)
                if error == 0:
                    # The retry succeeded; the failed attempt may have used a timestamp key.
                    self._restart_keys()
            if error in SEND_BUFFER_FULL:
                self._restart_keys()
                return False
            if error in kernel.PENDING_ERRORS and not self._channel.is_raw:
                self._restart_keys()
                error = self._send_once(table.next + 1)
            if error != 0:
                self._mark_refused(error)
        return True

    def _send_once(self, stop: int) -> int:
        """Call the kernel once; return 0, or the first packet's errno."""
        table = self._table
        first = table.next
        table.called_ns[first:stop] = time.monotonic_ns()
        try:
            taken = self._batch.send(first - self._written_first, stop - self._written_first)
        except OSError as error:
            return error.errno or errno.EIO
        table.next = first + taken
        self._keys.sent(first, table.next)
        return 0

    def _mark_refused(self, error: int) -> None:
        self._table.refused_errno[self._table.next] = error
        self._table.next += 1
        if error not in FAILED_AT_ROUTE:
            self._restart_keys()
