"""The exchange between a request-response client and its server, on a connected socket.

The server sends a greeting with a nonce. The client sends the sizes of its blocks and their number, authenticated with
the key of both, if they have one (HMAC-SHA256). The server answers with a byte: go, or why not. Then blocks follow: a
request, its response, and so on. When the client closes its direction, the server tells the responses that it sent and
the segments that it retransmitted.
"""

from __future__ import annotations

import base64
import hmac
import os
import socket
import struct
import time
from enum import IntEnum

import msgspec

from probes.contract import Deadline
from probes.request_response.spec import LARGEST_BLOCK_BYTES

MAGIC = b"SRR1"
NONCE_BYTES = 16
GREETING_BYTES = len(MAGIC) + NONCE_BYTES
_FIELDS = struct.Struct(">4sIII")
MAC_BYTES = 32
ORDER_BYTES = _FIELDS.size + MAC_BYTES
_ENDING = struct.Struct(">II")
ENDING_BYTES = _ENDING.size
CHUNK_BYTES = 1 << 18
TCP_INFO_BYTES = 104
TOTAL_RETRANSMITS_AT = 100
"""Place of `tcpi_total_retrans` in `struct tcp_info` (linux/tcp.h)."""


class PeerGone(OSError):
    """The other end closed the connection, or sent something else than the protocol has."""


class OrderAnswer(IntEnum):
    """The server's answer to an order."""

    GO = 0
    WRONG_KEY = 1
    TOO_LARGE = 2
    BUSY = 3


class Order(msgspec.Struct, frozen=True, kw_only=True):
    """The blocks that a client is about to exchange: their sizes, and the most of them."""

    request_bytes: int
    response_bytes: int
    transactions: int

    @property
    def is_valid(self) -> bool:
        return (
            1 <= self.request_bytes <= LARGEST_BLOCK_BYTES
            and 1 <= self.response_bytes <= LARGEST_BLOCK_BYTES
            and self.transactions >= 1
        )

    @property
    def payload_bytes(self) -> int:
        return (self.request_bytes + self.response_bytes) * self.transactions


def make_greeting() -> bytes:
    """A new greeting of a server."""
    return MAGIC + os.urandom(NONCE_BYTES)


def encode_order(order: Order, greeting: bytes, key: str | None) -> bytes:
    """The order as a client with this key sends it after the greeting."""
    fields = _FIELDS.pack(MAGIC, order.request_bytes, order.response_bytes, order.transactions)
    return fields + _mac(fields, greeting, None if key is None else base64.b64decode(key))


def decode_order(data: bytes, greeting: bytes, key: bytes | None) -> Order | None:
    """The order in these bytes; None if they are none, or were made with another key."""
    fields, mac = data[: _FIELDS.size], data[_FIELDS.size :]
    if len(data) != ORDER_BYTES or not fields.startswith(MAGIC):
        return None
    if key is not None and not hmac.compare_digest(mac, _mac(fields, greeting, key)):
        return None
    _, request_bytes, response_bytes, transactions = _FIELDS.unpack(fields)
    return Order(request_bytes=request_bytes, response_bytes=response_bytes, transactions=transactions)


def _mac(fields: bytes, greeting: bytes, key: bytes | None) -> bytes:
    return bytes(MAC_BYTES) if key is None else hmac.digest(key, greeting + fields, "sha256")


def encode_ending(served: int, retransmits: int | None) -> bytes:
    """The last bytes of a server."""
    return _ENDING.pack(served, 0xFFFFFFFF if retransmits is None else min(retransmits, 0xFFFFFFFE))


def decode_ending(data: bytes) -> int | None:
    """The retransmitted segments of the server's ending; None where it could not tell."""
    _, retransmits = _ENDING.unpack(data)
    return None if retransmits == 0xFFFFFFFF else int(retransmits)


def receive_exactly(connection: socket.socket, count: int, deadline: Deadline) -> bytes:
    """This many bytes. Raises `PeerGone`, and TimeoutError at the deadline."""
    data = bytearray(count)
    receive_into(connection, memoryview(data), count, deadline)
    return bytes(data)


def receive_into(connection: socket.socket, buffer: memoryview, count: int, deadline: Deadline) -> None:
    """Receive `count` bytes by way of `buffer`, each part over the one before. As `receive_exactly`."""
    kept = len(buffer) >= count
    done = 0
    while done < count:
        _set_timeout(connection, deadline)
        into = buffer[done:count] if kept else buffer[: count - done]
        received = connection.recv_into(into)
        if not received:
            raise PeerGone("the other end closed the connection")
        done += received


def send_all(connection: socket.socket, data: bytes | memoryview, deadline: Deadline) -> None:
    """Send all bytes. Raises OSError, TimeoutError at the deadline."""
    _set_timeout(connection, deadline)
    connection.sendall(data)


def _set_timeout(connection: socket.socket, deadline: Deadline) -> None:
    if deadline.passed:
        raise TimeoutError("timed out")
    connection.settimeout(deadline.remaining_s)


def without_delay(connection: socket.socket) -> None:
    """Send the last segment of a block at once, as storage protocols do, instead of waiting for the acknowledgement of
    those before (Nagle's algorithm)."""
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)


def retransmits_of(connection: socket.socket) -> int | None:
    """Segments that this end retransmitted; None where the system does not tell."""
    try:
        info = connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, TCP_INFO_BYTES)
    except (OSError, AttributeError):
        return None
    return int.from_bytes(info[TOTAL_RETRANSMITS_AT:][:4], "little") if len(info) >= TCP_INFO_BYTES else None


def elapsed_ms(since_ns: int) -> float:
    """Milliseconds since a time of `time.monotonic_ns`, to the microsecond."""
    return round((time.monotonic_ns() - since_ns) / 1e6, 3)
