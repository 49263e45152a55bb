"""How the two ends of a measurement talk: messages over one TCP connection, each known to come from the other end.

Both have the one-time key of the slot. Whoever listens begins with a number that nobody has seen before, whoever
connects answers with another and with an HMAC over both; so does the first. What was written down of one connection
therefore opens no other. Every message then carries an HMAC with a key of this connection alone, its direction and its
place. Nothing is secret: there is only test data. Data streams are opened in the same way, with that key.
"""

from __future__ import annotations

import hashlib
import hmac
import os
import socket
import struct
from typing import Final

import msgspec

from probes.contract import Deadline, NotPermitted, Outcome, ProbeError

CONTROL, DATA = b"C", b"D"
NONCE_BYTES = 32
MAC_BYTES = 32
MOST_BYTES = 2**16
HELLO: Final = struct.Struct("!cH")
LENGTH: Final = struct.Struct("!I")


class PeerGone(ProbeError):
    """The other end closed the connection, or did not answer in time."""


class Ready(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """The receiver's disk alone wrote so many bytes in so many seconds; it waits for orders."""

    moved_bytes: int
    seconds: float


class Unable(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """The receiver cannot, and why."""

    outcome: Outcome
    detail: str


class Transfer(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """Take what the sender's memory, or its file of so many bytes, sends for at most `duration_s`."""

    tool: str
    streams: int
    duration_s: int
    file_bytes: int | None


class Open(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """All streams are there; begin."""


class Arrived(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """What came by each stream, in how many seconds, and how long the disk took to have it all from then on. `digest`
    is of what the disk has."""

    stream_bytes: tuple[int, ...] = ()
    moving_s: float = 0.0
    syncing_s: float = 0.0
    digest: str | None = None


class End(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """That was all."""


Message = Ready | Unable | Transfer | Open | Arrived | End


class Conversation:
    """Messages over a connection that both ends have shown the key on."""

    def __init__(self, connection: socket.socket, session: bytes, *, sends: bool) -> None:
        self.session = session
        self._connection = connection
        self._ours, self._theirs = (b"sender", b"receiver") if sends else (b"receiver", b"sender")
        self._said = self._heard = 0

    def say(self, message: Message) -> None:
        """Raises `PeerGone`."""
        payload = msgspec.json.encode(message)
        sealed = self._mac(self._ours, self._said, payload)
        self._said += 1
        try:
            self._connection.sendall(LENGTH.pack(len(payload)) + sealed + payload)
        except OSError as error:
            raise PeerGone(f"the other end is gone: {error}") from error

    def hear(self, deadline: Deadline) -> Message:
        """The next message. Raises `PeerGone`, and `NotPermitted` where it is not from the other end."""
        length = LENGTH.unpack(read_exactly(self._connection, LENGTH.size, deadline))[0]
        if length > MOST_BYTES:
            raise NotPermitted("a message was longer than any of ours")
        sealed = read_exactly(self._connection, MAC_BYTES, deadline)
        payload = read_exactly(self._connection, length, deadline)
        if not hmac.compare_digest(sealed, self._mac(self._theirs, self._heard, payload)):
            raise NotPermitted("a message was not made with the key of this test")
        self._heard += 1
        try:
            message: Message = msgspec.json.decode(payload, type=Message)
        except msgspec.DecodeError as error:
            raise PeerGone(f"the other end's version says something else: {error}") from error
        return message

    def _mac(self, direction: bytes, place: int, payload: bytes) -> bytes:
        return _mac(self.session, direction, place.to_bytes(8), payload)


def greet(connection: socket.socket, key: bytes, what: bytes, number: int, deadline: Deadline) -> bytes:
    """Show the key to who listens, and have it shown; the key of this connection. Raises `ProbeError`."""
    hello = HELLO.pack(what, number)
    theirs = read_exactly(connection, NONCE_BYTES, deadline)
    ours = os.urandom(NONCE_BYTES)
    connection.sendall(hello + ours + _mac(key, b"receiver", hello, theirs, ours))
    try:
        shown = read_exactly(connection, MAC_BYTES, deadline)
    except PeerGone as error:
        raise NotPermitted(f"the sender did not take our key, or ended: {error}") from error
    if not hmac.compare_digest(shown, _mac(key, b"sender", hello, theirs, ours)):
        raise NotPermitted("who listens there has not got the key of this test")
    return _mac(key, b"session", hello, theirs, ours)


def admit(connection: socket.socket, key: bytes, deadline: Deadline) -> tuple[bytes, int, bytes]:
    """Ask who connects for the key, and show it: what the connection is for, its number and its own key.

    Raises `NotPermitted`, `PeerGone`; nothing of the key was shown then.
    """
    ours = os.urandom(NONCE_BYTES)
    connection.sendall(ours)
    hello = read_exactly(connection, HELLO.size, deadline)
    theirs = read_exactly(connection, NONCE_BYTES, deadline)
    shown = read_exactly(connection, MAC_BYTES, deadline)
    if not hmac.compare_digest(shown, _mac(key, b"receiver", hello, ours, theirs)):
        raise NotPermitted("somebody without the key of this test connected")
    connection.sendall(_mac(key, b"sender", hello, ours, theirs))
    what, number = HELLO.unpack(hello)
    return what, number, _mac(key, b"session", hello, ours, theirs)


def read_exactly(connection: socket.socket, count: int, deadline: Deadline) -> bytes:
    """So many bytes by then. Raises `PeerGone`."""
    data = b""
    while len(data) < count:
        if deadline.passed:
            raise PeerGone("the other end did not answer in time")
        connection.settimeout(deadline.remaining_s or 0.001)
        try:
            more = connection.recv(count - len(data))
        except TimeoutError:
            continue
        except OSError as error:
            raise PeerGone(f"the other end is gone: {error}") from error
        if not more:
            raise PeerGone("the other end closed the connection")
        data += more
    connection.settimeout(None)
    return data


def _mac(key: bytes, label: bytes, *parts: bytes) -> bytes:
    """Each part after its length, so that no two lists of parts read alike."""
    told = b"".join(LENGTH.pack(len(part)) + part for part in (b"soundings disk-to-disk", label, *parts))
    return hmac.digest(key, told, hashlib.sha256)
