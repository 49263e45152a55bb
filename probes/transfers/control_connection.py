"""The control connection of a test: authenticated messages over TCP, not encrypted. Both ends prove in a handshake with
nonces that they hold the slot's one-time key. Every message has an HMAC with session key, direction and sequence
number."""

from __future__ import annotations

import hashlib
import hmac
import os
import socket
import struct
from typing import Any, Final

import msgspec

from probes.contract import Deadline, NotPermitted, Outcome, ProbeError

CONTROL, DATA = b"C", b"D"
NONCE_BYTES = 32
MAC_BYTES = 32
MAX_BYTES = 2**16
HELLO: Final = struct.Struct("!cH")
LENGTH: Final = struct.Struct("!I")


class ConnectionLost(ProbeError):
    """The peer closed the connection or did not answer in time."""


class PeerFailure(msgspec.Struct, frozen=True, kw_only=True, tag="Unable"):
    """The receiver failed or declines, with the reason."""

    outcome: Outcome
    detail: str


class ControlConnection:
    """Sends and receives authenticated messages after the handshake."""

    def __init__(self, connection: socket.socket, session: bytes, *, sends: bool) -> None:
        self.session = session
        self._connection = connection
        self._own_role, self._peer_role = (b"sender", b"receiver") if sends else (b"receiver", b"sender")
        self._sent_count = self._received_count = 0

    def send(self, message: msgspec.Struct) -> None:
        """Send a message. Raises `ConnectionLost`."""
        payload = msgspec.json.encode(message)
        mac = self._mac(self._own_role, self._sent_count, payload)
        self._sent_count += 1
        try:
            self._connection.sendall(LENGTH.pack(len(payload)) + mac + payload)
        except OSError as error:
            raise ConnectionLost(f"the other end is gone: {error}") from error

    def receive(self, messages: Any, deadline: Deadline) -> Any:
        """Receive the next message, of those in the union `messages` of tagged structs. Raises `ConnectionLost`, and
        `NotPermitted` if its HMAC is wrong."""
        length = LENGTH.unpack(read_exactly(self._connection, LENGTH.size, deadline))[0]
        if length > MAX_BYTES:
            raise NotPermitted(f"a message exceeds {MAX_BYTES:,} bytes")
        mac = read_exactly(self._connection, MAC_BYTES, deadline)
        payload = read_exactly(self._connection, length, deadline)
        if not hmac.compare_digest(mac, self._mac(self._peer_role, self._received_count, payload)):
            raise NotPermitted("a message does not authenticate with the key of this test")
        self._received_count += 1
        try:
            return msgspec.json.decode(payload, type=messages)
        except msgspec.DecodeError as error:
            raise ConnectionLost(f"cannot parse the peer's message; its version may differ: {error}") from error

    def _mac(self, direction: bytes, sequence: int, payload: bytes) -> bytes:
        return _mac(self.session, direction, sequence.to_bytes(8), payload)


def client_handshake(connection: socket.socket, key: bytes, purpose: bytes, number: int, deadline: Deadline) -> bytes:
    """Run the connecting end's handshake; return the session key. Raises `ProbeError`."""
    hello = HELLO.pack(purpose, number)
    peer_nonce = read_exactly(connection, NONCE_BYTES, deadline)
    # Nonces of both ends, so that a recorded handshake cannot be replayed.
    own_nonce = os.urandom(NONCE_BYTES)
    connection.sendall(hello + own_nonce + _mac(key, b"receiver", hello, peer_nonce, own_nonce))
    try:
        peer_mac = read_exactly(connection, MAC_BYTES, deadline)
    except ConnectionLost as error:
        raise NotPermitted(f"the sender rejected our key, or ended: {error}") from error
    if not hmac.compare_digest(peer_mac, _mac(key, b"sender", hello, peer_nonce, own_nonce)):
        raise NotPermitted("the listening host does not have the key of this test")
    return _mac(key, b"session", hello, peer_nonce, own_nonce)


def server_handshake(connection: socket.socket, key: bytes, deadline: Deadline) -> tuple[bytes, int, bytes]:
    """Run the listening end's handshake; return purpose, number and session key.

    Raises `NotPermitted` or `ConnectionLost`, before it sends any HMAC.
    """
    own_nonce = os.urandom(NONCE_BYTES)
    connection.sendall(own_nonce)
    hello = read_exactly(connection, HELLO.size, deadline)
    peer_nonce = read_exactly(connection, NONCE_BYTES, deadline)
    peer_mac = read_exactly(connection, MAC_BYTES, deadline)
    if not hmac.compare_digest(peer_mac, _mac(key, b"receiver", hello, own_nonce, peer_nonce)):
        raise NotPermitted("a host without the key of this test connected")
    connection.sendall(_mac(key, b"sender", hello, own_nonce, peer_nonce))
    purpose, number = HELLO.unpack(hello)
    return purpose, number, _mac(key, b"session", hello, own_nonce, peer_nonce)


def read_exactly(connection: socket.socket, count: int, deadline: Deadline) -> bytes:
    """Read `count` bytes before the deadline. Raises `ConnectionLost`."""
    data = b""
    while len(data) < count:
        if deadline.passed:
            raise ConnectionLost("the other end did not answer in time")
        connection.settimeout(deadline.remaining_s or 0.001)
        try:
            more = connection.recv(count - len(data))
        except TimeoutError:
            continue
        except OSError as error:
            raise ConnectionLost(f"the other end is gone: {error}") from error
        if not more:
            raise ConnectionLost("the other end closed the connection")
        data += more
    connection.settimeout(None)
    return data


def _mac(key: bytes, label: bytes, *parts: bytes) -> bytes:
    # HMAC-SHA256 over length-prefixed parts: different lists never encode alike.
    message = b"".join(LENGTH.pack(len(part)) + part for part in (b"soundings disk-to-disk", label, *parts))
    return hmac.digest(key, message, hashlib.sha256)
