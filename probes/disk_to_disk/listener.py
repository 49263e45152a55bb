"""Connections of a disk-to-disk test: the sender's listener, and the receiver's connections to it.

In: a spec. Out: authenticated connections. The listener accepts the receiver's address and holders of the key only;
other connections are closed, and nothing read from them is kept.
"""

from __future__ import annotations

import contextlib
import errno
import logging
import socket
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from ipaddress import ip_address

from probes.contract import Deadline, NoRoute, NotPermitted, Outcome, ProbeError
from probes.disk_to_disk.control_connection import (
    CONTROL,
    DATA,
    ConnectionLost,
    ControlConnection,
    client_handshake,
    server_handshake,
)
from probes.disk_to_disk.spec import DiskToDiskSpec
from probes.packets.icmp.packet_filter import attach
from probes.throughput.address import is_local, resolve_address
from probes.throughput.source_filter import source_program

logger = logging.getLogger(__name__)

FAMILY = {4: socket.AF_INET, 6: socket.AF_INET6}
HANDSHAKE_S = 5.0
"""Time limit of the handshake."""
RETRY_S = 0.2
CONNECT_S = 3.0
NOT_LISTENING = (errno.ECONNREFUSED, errno.ETIMEDOUT, errno.ECONNRESET)
NO_ROUTE = (errno.ENETUNREACH, errno.EHOSTUNREACH)


class PortInUse(ProbeError):
    outcome = Outcome.BUSY


class NoConnection(ProbeError):
    outcome = Outcome.REFUSED


class Listener:
    """A listening socket that accepts authenticated connections of the receiver."""

    def __init__(self, listening_socket: socket.socket, key: bytes, peer: str) -> None:
        self._socket = listening_socket
        self._peer = ip_address(peer)
        self._key = key

    @contextmanager
    def accept_control(self, deadline: Deadline) -> Iterator[ControlConnection]:
        """Accept the first connection that authenticates with the slot's key. Raises `NoConnection`."""
        _, session, connection = self._accept(self._key, CONTROL, deadline)
        with connection:
            yield ControlConnection(connection, session, sends=True)

    @contextmanager
    def accept_streams(self, session: bytes, count: int, deadline: Deadline) -> Iterator[list[socket.socket]]:
        """Accept `count` data connections authenticated with the session key, ordered by their numbers."""
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


@contextmanager
def listen(spec: DiskToDiskSpec, key: bytes) -> Iterator[Listener]:
    """Listen as the sender; behind NAT on all local addresses. Raises `PortInUse`."""
    own_address = resolve_address(spec.source, spec.family)
    peer = resolve_address(spec.address, spec.family)
    with socket.socket(FAMILY[spec.family], socket.SOCK_STREAM) as listening_socket:
        listening_socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if spec.family == 6:
            listening_socket.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        # Attached before it listens, so that other hosts get no answer. Some container runtimes do not permit this;
        # _check_address rejects other hosts as well.
        with contextlib.suppress(OSError):
            attach(listening_socket, source_program(peer))
        try:
            listening_socket.bind((own_address if is_local(own_address) else "", spec.port))
            listening_socket.listen(spec.streams + 1)
        except OSError as error:
            raise PortInUse(f"cannot listen on port {spec.port}: {error.strerror}") from error
        yield Listener(listening_socket, key, peer)


@contextmanager
def connect_control(spec: DiskToDiskSpec, key: bytes, deadline: Deadline) -> Iterator[ControlConnection]:
    """Connect to the sender as soon as it listens, and authenticate. Raises `ProbeError`."""
    with _connect(spec, deadline) as connection:
        session = _client_handshake(connection, key, CONTROL, 0, deadline)
        yield ControlConnection(connection, session, sends=False)


@contextmanager
def connect_streams(
    spec: DiskToDiskSpec, session: bytes, count: int, deadline: Deadline
) -> Iterator[Sequence[socket.socket]]:
    """Open `count` data connections to the sender."""
    with contextlib.ExitStack() as stack:
        connections = []
        for number in range(count):
            connection = stack.enter_context(_connect(spec, deadline))
            _client_handshake(connection, session, DATA, number, deadline)
            connections.append(connection)
        yield connections


def _client_handshake(connection: socket.socket, key: bytes, purpose: bytes, number: int, deadline: Deadline) -> bytes:
    try:
        return client_handshake(connection, key, purpose, number, deadline)
    except OSError as error:
        raise ConnectionLost(f"the connection to the sender failed: {error}") from error


def _connect(spec: DiskToDiskSpec, deadline: Deadline) -> socket.socket:
    """Connect to the sender, with retries until the deadline: the sender may start later."""
    sender_address, own_address = resolve_address(spec.source, spec.family), resolve_address(spec.address, spec.family)
    last_error = "timed out"
    while not deadline.passed:
        connection = socket.socket(FAMILY[spec.family], socket.SOCK_STREAM)
        try:
            if is_local(own_address):
                connection.bind((own_address, 0))
            connection.settimeout(min(CONNECT_S, deadline.remaining_s) or 0.001)
            connection.connect((sender_address, spec.port))
        except OSError as error:
            connection.close()
            if error.errno in NO_ROUTE:
                raise NoRoute(f"the sender at {sender_address}: {error.strerror}") from error
            if error.errno not in NOT_LISTENING and not isinstance(error, TimeoutError):
                raise ConnectionLost(f"the sender at {sender_address} port {spec.port}: {error}") from error
            last_error = str(error)
            time.sleep(min(RETRY_S, deadline.remaining_s))
            continue
        connection.settimeout(None)
        return connection
    raise NoConnection(f"cannot connect to the sender at {sender_address} port {spec.port}: {last_error}")
