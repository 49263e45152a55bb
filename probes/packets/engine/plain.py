"""A portable ICMP socket on Python's `socket`: a `sendto` and a `recvfrom` per packet, timed by this program's clock.

The fallback for `probes.packets.icmp.channel`. Whether messages have an IPv4 header and our identifier is detected from
each message.
"""

from __future__ import annotations

import errno
import secrets
import socket
import sys
import time
from collections.abc import Sequence
from contextlib import suppress

import numpy as np

from probes.packets.addresses import FAMILY, SocketAddress
from probes.packets.arrays import Bytes, Int64s
from probes.packets.engine.receiver import HOST_COLUMNS
from probes.packets.engine.sender import pack_address
from probes.packets.icmp import echo, kernel
from probes.packets.icmp.channel import RECEIVE_BUFFER_BYTES, Channel

# Maximum length of an IP packet.
LONGEST_MESSAGE_BYTES = 1 << 16

# Fits the largest request: macOS refuses messages larger than its send buffer.
SEND_BUFFER_BYTES = 1 << 17

SMALLEST_BUFFER_BYTES = 1 << 16
IPV4_VERSION = 4
IDENTIFIER = slice(4, 6)
SCOPE = slice(24, 28)


class PlainChannel(Channel):
    """A datagram ICMP socket if permitted, else a raw socket."""

    KINDS: Sequence[socket.SocketKind] = (socket.SOCK_DGRAM, socket.SOCK_RAW)

    def send_batch(self, names: Bytes, rows: int, head_bytes: int, tail: bytes) -> PlainSendBatch:
        return PlainSendBatch(
            self.socket, [unpack_address(self.family, name) for name in names], rows, head_bytes, tail
        )

    def receive_batch(self, rows: int, data_bytes: int) -> PlainReceiveBatch:
        return PlainReceiveBatch(self.socket, self.family, self.identifier, rows, data_bytes)

    def error_queue(self, rows: int, data_bytes: int = 0) -> None:
        return None

    @property
    def has_ip_header(self) -> bool:
        """Always False: `PlainReceiveBatch` strips the header."""
        return False

    @property
    def errors_among_replies(self) -> bool:
        """True for raw and macOS datagram sockets."""
        return True

    @property
    def dropped(self) -> int:
        """Always 0: unknown on other systems."""
        return 0

    def send_room(self, charge_bytes: int) -> int:
        """Always 1: each packet has its own call and time."""
        return 1

    def _bind(self, source: str | None) -> int:
        if source is not None:
            with suppress(OSError):
                self.socket.bind((source, 0))
        return 1 + secrets.randbelow(0xFFFF)

    def _set_up(self) -> int:
        size_bytes = RECEIVE_BUFFER_BYTES
        while size_bytes >= SMALLEST_BUFFER_BYTES and not self._set_buffer(socket.SO_RCVBUF, size_bytes):
            size_bytes //= 2
        if self.socket.getsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF) < SEND_BUFFER_BYTES:
            self._set_buffer(socket.SO_SNDBUF, SEND_BUFFER_BYTES)
        return 0

    def _set_buffer(self, option: int, size_bytes: int) -> bool:
        """Set a buffer size; False if refused (BSD; Linux reduces silently)."""
        try:
            self.socket.setsockopt(socket.SOL_SOCKET, option, size_bytes)
        except OSError:
            return False
        return True

    def _forbid_fragments(self) -> None:
        if sys.platform == "linux":
            super()._forbid_fragments()
        elif self.family == 6 and hasattr(socket, "IPV6_DONTFRAG"):
            self.socket.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_DONTFRAG, 1)
        else:
            raise OSError(errno.EOPNOTSUPP, f"don't-fragment is not supported for IPv{self.family} on {sys.platform}")


class PlainSendBatch:
    """Up to `rows` messages to send (`probes.packets.icmp.channel.SendBatch`)."""

    def __init__(
        self, opened: socket.socket, addresses: Sequence[SocketAddress], rows: int, head_bytes: int, tail: bytes
    ) -> None:
        self.heads: Bytes = np.zeros((rows, head_bytes), np.uint8)
        self._socket = opened
        self._addresses = addresses
        self._tail = tail
        self._destinations: list[int] = []
        self._tail_bytes: list[int] = []

    def set_destinations(self, destinations: Int64s, tail_bytes: Int64s) -> None:
        """Set destinations (indexes) and tail lengths."""
        self._destinations, self._tail_bytes = destinations.tolist(), tail_bytes.tolist()

    def send(self, first: int, stop: int) -> int:
        """Send row `first` only. Raises OSError if refused."""
        message = self.heads[first].tobytes() + self._tail[: self._tail_bytes[first]]
        try:
            self._socket.sendto(message, self._addresses[self._destinations[first]])
        except OSError as error:
            # BSD caches that a neighbour did not answer. Such a host is down: count as loss, not as refused.
            if error.errno != errno.EHOSTDOWN:
                raise
        return 1


class PlainReceiveBatch:
    """Up to `rows` received messages (`probes.packets.icmp.channel.ReceiveBatch`), normalised: without IP header, and
    with the identifier that we wrote. The secret proves that a reply is ours."""

    def __init__(self, opened: socket.socket, family: int, identifier: int, rows: int, data_bytes: int) -> None:
        self.rows = rows
        self.data: Bytes = np.zeros((rows, data_bytes), np.uint8)
        self.names: Bytes = np.zeros((rows, kernel.SOCKADDR_BYTES), np.uint8)
        self._socket = opened
        self._family = family
        self._identifier = np.frombuffer(identifier.to_bytes(2, "big"), np.uint8)
        self._message: Bytes = np.zeros(LONGEST_MESSAGE_BYTES, np.uint8)
        self._lengths: Int64s = np.zeros(rows, np.int64)
        self._hop_limit: Int64s = np.zeros(rows, np.int64)
        self._read_ns: Int64s = np.zeros(rows, np.int64)

    def receive(self) -> int:
        """Receive without blocking; return the rows filled."""
        count = 0
        while count < self.rows:
            try:
                length, address = self._socket.recvfrom_into(self._message.data)
            except BlockingIOError:
                break
            except OSError as error:
                if error.errno not in kernel.PENDING_ERRORS:
                    raise
                continue
            self._read_ns[count] = time.monotonic_ns()
            count += self._keep(count, length, address)
        return count

    def lengths(self, count: int) -> Int64s:
        """Lengths in bytes without IP headers."""
        return self._lengths[:count]

    def controls(self, count: int) -> kernel.Controls:
        """Read times, and hop limits from IP headers."""
        controls = kernel.Controls(count)
        controls.read_ns = self._read_ns[:count]
        controls.hop_limit = self._hop_limit[:count]
        return controls

    def _keep(self, row: int, length: int, address: SocketAddress) -> bool:
        header_bytes = _header_bytes(int(self._message[0]))
        icmp = self._message[header_bytes:length]
        is_reply = len(icmp) > 0 and icmp[0] == echo.ECHO_REPLY[self._family]
        # Systems that keep the IP header, such as Linux, may not verify the checksum. Errors are exempt: BSD verifies
        # their checksum and then modifies the quoted length.
        if header_bytes and is_reply and not _has_valid_checksum(icmp):
            return False
        self._lengths[row] = len(icmp)
        self._hop_limit[row] = self._message[8] if header_bytes else -1
        self.names[row] = np.frombuffer(pack_address(self._family, address), np.uint8)
        kept = min(len(icmp), self.data.shape[1])
        self.data[row, :kept] = icmp[:kept]
        if is_reply:
            self.data[row, IDENTIFIER] = self._identifier
        return True


def _header_bytes(first: int) -> int:
    """IPv4 header length by its first byte; 0 for our ICMP types."""
    # macOS returns the header on datagram sockets too, so the system's name does not tell.
    return max((first & 0x0F) * 4, echo.IPV4_HEADER_BYTES) if first >> 4 == IPV4_VERSION else 0


def _has_valid_checksum(icmp: Bytes) -> bool:
    return bool(echo.has_valid_checksum(icmp[np.newaxis], np.array([0]), np.array([len(icmp)]))[0])


def unpack_address(family: int, name: Bytes) -> SocketAddress:
    """Convert a packed sockaddr to a socket address; the inverse of `probes.packets.engine.sender.pack_address`."""
    host = socket.inet_ntop(FAMILY[family], name[HOST_COLUMNS[family]].tobytes())
    return (host, 0) if family == 4 else (host, 0, 0, int.from_bytes(name[SCOPE].tobytes(), sys.byteorder))
