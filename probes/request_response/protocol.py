"""The exchange between a request-response client and its server.

Greeting with nonce; order of blocks, with HMAC-SHA256 if they share a key; a byte as answer; blocks in turn; the
server's counts of responses and retransmitted segments.
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
# Place of `tcpi_total_retrans` in `struct tcp_info` (linux/tcp.h).
TOTAL_RETRANSMITS_AT = 100


class PeerGone(OSError):
    """The other end closed the connection, or violated the protocol."""


class OrderAnswer(IntEnum):
    GO = 0
    WRONG_KEY = 1
    TOO_LARGE = 2
    BUSY = 3


class Order(msgspec.Struct, frozen=True, kw_only=True):
    """Sizes and maximum number of the blocks to exchange."""

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
    return MAGIC + os.urandom(NONCE_BYTES)


def encode_order(order: Order, greeting: bytes, key: str | None) -> bytes:
    """Encode an order after the greeting, authenticated with `key`."""
    fields = _FIELDS.pack(MAGIC, order.request_bytes, order.response_bytes, order.transactions)
    return fields + _mac(fields, greeting, None if key is None else base64.b64decode(key))


def decode_order(data: bytes, greeting: bytes, key: bytes | None) -> Order | None:
    """Decode an order; None if invalid or of another key."""
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
    """Encode the server's counts, its last bytes."""
    return _ENDING.pack(served, 0xFFFFFFFF if retransmits is None else min(retransmits, 0xFFFFFFFE))


def decode_ending(data: bytes) -> int | None:
    """Segments retransmitted by the server, if known."""
    _, retransmits = _ENDING.unpack(data)
    return None if retransmits == 0xFFFFFFFF else int(retransmits)


def receive_exactly(connection: socket.socket, count: int, deadline: Deadline) -> bytes:
    """Receive `count` bytes. Raises `PeerGone`, and TimeoutError at the deadline."""
    data = bytearray(count)
    receive_into(connection, memoryview(data), count, deadline)
    return bytes(data)


def receive_into(connection: socket.socket, buffer: memoryview, count: int, deadline: Deadline) -> None:
    """Receive `count` bytes into `buffer`; more than it holds overwrite it. Raises as `receive_exactly`."""
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
    """Send last segments at once, as storage protocols do (no Nagle's algorithm)."""
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)


def retransmits_of(connection: socket.socket) -> int | None:
    """Segments retransmitted here; None if not reported."""
    try:
        info = connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, TCP_INFO_BYTES)
    except (OSError, AttributeError):
        return None
    return int.from_bytes(info[TOTAL_RETRANSMITS_AT:][:4], "little") if len(info) >= TCP_INFO_BYTES else None


def elapsed_ms(since_ns: int) -> float:
    """Milliseconds since a `time.monotonic_ns`, to the microsecond."""
    return round((time.monotonic_ns() - since_ns) / 1e6, 3)
