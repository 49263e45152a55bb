"""An ICMP socket used with nothing but Python's own `socket`: one `sendto` and one `recvfrom` a packet, on any system.

Takes the place of `probes.ping.channel` where the kernel moves no batches and stamps no packets. A round trip begins
and ends by this program's clock, so it contains what the program takes to get round to a packet.

Systems differ in what they hand out: an IPv4 header in front or none (macOS has one on datagram sockets too), our
identifier or the kernel's (Linux writes its own on datagram sockets). Each message shows which it is, so nothing here
asks for the name of the system, but for the number of one socket option.
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

from probes.ping import echo, kernel
from probes.ping.addresses import FAMILY, SocketAddress
from probes.ping.arrays import Bytes, Int64s
from probes.ping.channel import RECEIVE_BUFFER_BYTES, Channel
from probes.ping.receiver import HOST_COLUMNS
from probes.ping.sender import pack_address

LONGEST_MESSAGE_BYTES = 1 << 16
"""No IP packet is longer."""

SEND_BUFFER_BYTES = 1 << 17
"""Room for the largest request, where the system gives less: macOS refuses what is larger than its buffer."""

SMALLEST_BUFFER_BYTES = 1 << 16
IPV4_VERSION = 4
IDENTIFIER = slice(4, 6)
SCOPE = slice(24, 28)


class PlainChannel(Channel):
    """A datagram ICMP socket where the system has one for us, else a raw one."""

    KINDS: Sequence[socket.SocketKind] = (socket.SOCK_DGRAM, socket.SOCK_RAW)

    def send_batch(self, names: Bytes, rows: int, head_bytes: int, tail: bytes) -> PlainSendBatch:
        return PlainSendBatch(
            self.socket, [unpack_address(self.family, name) for name in names], rows, head_bytes, tail
        )

    def receive_batch(self, rows: int, data_bytes: int) -> PlainReceiveBatch:
        return PlainReceiveBatch(self.socket, self.family, self.identifier, rows, data_bytes)

    def error_queue(self, rows: int) -> None:
        return None

    @property
    def has_ip_header(self) -> bool:
        """Never: `PlainReceiveBatch` takes off what there is."""
        return False

    @property
    def errors_among_replies(self) -> bool:
        """As any raw socket and macOS's datagram socket give them. Linux's datagram socket gives none this way."""
        return True

    @property
    def dropped(self) -> int:
        """Not known."""
        return 0

    def send_room(self, charge_bytes: int) -> int:
        """One: each packet is sent by a call of its own and has the time of that. A full buffer shows when sending."""
        return 1

    def _bind(self, source: str | None) -> int:
        """Bind to the source where it is ours. Returns the identifier that we write."""
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
        """Whether the system allows a buffer of this size. Linux allows any and gives what it likes, BSD refuses."""
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
            raise OSError(errno.EOPNOTSUPP, f"on {sys.platform} we cannot forbid that IPv{self.family} packets are cut")


class PlainSendBatch:
    """Up to `rows` messages on their way out (`probes.ping.channel.SendBatch`)."""

    def __init__(
        self, opened: socket.socket, addresses: Sequence[SocketAddress], rows: int, head_bytes: int, tail: bytes
    ) -> None:
        self.heads: Bytes = np.zeros((rows, head_bytes), np.uint8)
        self._socket = opened
        self._addresses = addresses
        self._tail = tail
        self._places: list[int] = []
        self._tail_bytes: list[int] = []

    def address(self, places: Int64s, tail_bytes: Int64s) -> None:
        """Set where each of the first rows goes (an index of the addresses), and how much of the tail it has."""
        self._places, self._tail_bytes = places.tolist(), tail_bytes.tolist()

    def send(self, first: int, stop: int) -> int:
        """Send row `first`, and no other. Returns 1; OSError if the system refused it."""
        message = self.heads[first].tobytes() + self._tail[: self._tail_bytes[first]]
        try:
            self._socket.sendto(message, self._addresses[self._places[first]])
        except OSError as error:
            # BSD remembers for a while that a neighbour did not answer. Such a host is down: a loss, not our refusal.
            if error.errno != errno.EHOSTDOWN:
                raise
        return 1


class PlainReceiveBatch:
    """Up to `rows` received messages (`probes.ping.channel.ReceiveBatch`), normalised: without IP header, and with the
    identifier that we wrote. The secret is what proves that a reply is ours."""

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
        """Take what waits on the socket, without waiting. Returns how many rows now hold a message."""
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
        """Length in bytes of each of the first `count` messages, without IP headers."""
        return self._lengths[:count]

    def controls(self, count: int) -> kernel.Controls:
        """When each was read, and the hop limit where an IP header told it."""
        controls = kernel.Controls(count)
        controls.read_ns = self._read_ns[:count]
        controls.hop_limit = self._hop_limit[:count]
        return controls

    def _keep(self, row: int, length: int, address: SocketAddress) -> bool:
        """Put the message that was read into `row`. False if it is damaged."""
        header_bytes = _header_bytes(int(self._message[0]))
        icmp = self._message[header_bytes:length]
        is_reply = len(icmp) > 0 and icmp[0] == echo.ECHO_REPLY[self._family]
        # Who leaves the header on may leave it to us to check the sum as well: Linux does. Of errors, BSD has checked
        # it and then changed a length that they quote.
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
    """Length of the IPv4 header that begins with this byte; 0 if none does. No ICMP type of ours looks like one."""
    return max((first & 0x0F) * 4, echo.IPV4_HEADER_BYTES) if first >> 4 == IPV4_VERSION else 0


def _has_valid_checksum(icmp: Bytes) -> bool:
    return bool(echo.has_valid_checksum(icmp[np.newaxis], np.array([0]), np.array([len(icmp)]))[0])


def unpack_address(family: int, name: Bytes) -> SocketAddress:
    """The socket address that `probes.ping.sender.pack_address` made this of."""
    host = socket.inet_ntop(FAMILY[family], name[HOST_COLUMNS[family]].tobytes())
    return (host, 0) if family == 4 else (host, 0, 0, int.from_bytes(name[SCOPE].tobytes(), sys.byteorder))
