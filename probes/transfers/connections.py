"""Authenticated connections between the two ends of a test. The listener accepts only the peer's address and holders of
the key; it closes other connections, and keeps nothing read from them."""

from __future__ import annotations

import errno
import logging
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from ipaddress import ip_address

from probes.contract import Deadline, NoRoute, NotPermitted, Outcome, ProbeError
from probes.packets.addresses import FAMILY
from probes.transfers.address import is_local
from probes.transfers.control_connection import (
    CONTROL,
    DATA,
    ConnectionLost,
    ControlConnection,
    client_handshake,
    server_handshake,
)

logger = logging.getLogger(__name__)

HANDSHAKE_S = 5.0
RETRY_S = 0.2
CONNECT_S = 3.0
NOT_LISTENING = (errno.ECONNREFUSED, errno.ETIMEDOUT, errno.ECONNRESET)
NO_ROUTE = (errno.ENETUNREACH, errno.EHOSTUNREACH)


class PortInUse(ProbeError):
    outcome = Outcome.BUSY


class NoConnection(ProbeError):
    outcome = Outcome.REFUSED


class Listener:
    """A listening socket that accepts the receiver's authenticated connections."""

    def __init__(self, listening_socket: socket.socket, key: bytes, peer: str) -> None:
        self._socket = listening_socket
        self._peer = ip_address(peer)
        self._key = key

    @contextmanager
    def accept_control(self, deadline: Deadline) -> Iterator[ControlConnection]:
        """Accept the first authenticated connection. Raises `NoConnection`."""
        _, session, connection = self._accept(self._key, CONTROL, deadline)
        with connection:
            yield ControlConnection(connection, session, sends=True)

    @contextmanager
    def accept_streams(self, session: bytes, count: int, deadline: Deadline) -> Iterator[list[socket.socket]]:
        """Accept `count` connections authenticated with the session key, by number."""
        connections: dict[int, socket.socket] = {}
        try:
            while len(connections) < count:
                number, _, connection = self._accept(session, DATA, deadline)
                if number in connections or number >= count:
                    connection.close()
                    continue
                connections[number] = connection
            yield [connections[number] for number in range(count)]
        finally:
            for connection in connections.values():
                connection.close()

    def _accept(self, key: bytes, expected: bytes, deadline: Deadline) -> tuple[int, bytes, socket.socket]:
        while not deadline.passed:
            self._socket.settimeout(max(0.001, deadline.remaining_s))
            try:
                connection, address = self._socket.accept()
            except OSError:  # timeout, or the client has disconnected already
                continue
            try:
                self._check_address(address[0])
                purpose, number, session = server_handshake(
                    connection, key, Deadline(min(HANDSHAKE_S, deadline.remaining_s))
                )
            except (ProbeError, OSError) as error:
                logger.warning("disk-to-disk: rejected %s: %s", address[0], error)
                connection.close()
                continue
            if purpose == expected:
                return number, session, connection
            connection.close()
        raise NoConnection("the receiver did not connect; check its agent and the firewalls between it and our port")

    def _check_address(self, address: str) -> None:
        if ip_address(address.partition("%")[0]) != self._peer:
            raise NotPermitted("only the receiver may connect")


def connect(peer: str, address: str, port: int, source: str | None, family: int, deadline: Deadline) -> socket.socket:
    """Connect to a peer, named `peer` in messages, from `source` if local; retries until the deadline, since the peer
    may start later. Raises `ProbeError`."""
    last_error = "timed out"
    while not deadline.passed:
        connection = socket.socket(FAMILY[family], socket.SOCK_STREAM)
        try:
            if source is not None and is_local(source):
                connection.bind((source, 0))
            connection.settimeout(min(CONNECT_S, deadline.remaining_s) or 0.001)
            connection.connect((address, port))
        except OSError as error:
            connection.close()
            if error.errno in NO_ROUTE:
                raise NoRoute(f"{peer} at {address}: {error.strerror}") from error
            if error.errno not in NOT_LISTENING and not isinstance(error, TimeoutError):
                raise ConnectionLost(f"{peer} at {address} port {port}: {error}") from error
            last_error = str(error)
            time.sleep(min(RETRY_S, deadline.remaining_s))
            continue
        connection.settimeout(None)
        return connection
    raise NoConnection(f"cannot connect to {peer} at {address} port {port}: {last_error}")


def authenticate(
    connection: socket.socket, peer: str, key: bytes, purpose: bytes, number: int, deadline: Deadline
) -> bytes:
    """Run the handshake of the connecting end; returns the session key. Raises `ProbeError`."""
    try:
        return client_handshake(connection, key, purpose, number, deadline)
    except OSError as error:
        raise ConnectionLost(f"the connection to {peer} failed: {error}") from error
