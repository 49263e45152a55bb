"""Where the sender of a measurement listens: for the receiver's address only, and only for who has the key.

In: a spec. Out: authenticated connections. A stranger is sent away and the next one is asked; nothing that is read of
him is kept.
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
from probes.disk_to_disk.conversation import CONTROL, DATA, Conversation, PeerGone, admit, greet
from probes.disk_to_disk.spec import DiskToDiskSpec
from probes.ping.packet_filter import attach
from probes.throughput.address import is_local, resolve
from probes.throughput.doorkeeper import program

logger = logging.getLogger(__name__)

FAMILY = {4: socket.AF_INET, 6: socket.AF_INET6}
KEY_S = 5.0
"""How long who connects may take to show the key."""
KNOCK_AGAIN_S = 0.2
CONNECT_S = 3.0
NOBODY_YET = (errno.ECONNREFUSED, errno.ETIMEDOUT, errno.ECONNRESET)
NO_ROUTE = (errno.ENETUNREACH, errno.EHOSTUNREACH)


class PortTaken(ProbeError):
    outcome = Outcome.BUSY


class NobodyCame(ProbeError):
    outcome = Outcome.REFUSED


class Door:
    """A listening socket, and the key that opens it."""

    def __init__(self, listening: socket.socket, key: bytes, peer: str) -> None:
        self._listening = listening
        self._peer = ip_address(peer)
        self._key = key

    @contextmanager
    def conversation(self, deadline: Deadline) -> Iterator[Conversation]:
        """The first who has the key of the slot. Raises `NobodyCame`."""
        _, session, connection = self._next(self._key, CONTROL, deadline)
        with connection:
            yield Conversation(connection, session, sends=True)

    @contextmanager
    def streams(self, session: bytes, count: int, deadline: Deadline) -> Iterator[list[socket.socket]]:
        """So many connections for data, in the order of their numbers, with the key of their conversation."""
        found: dict[int, socket.socket] = {}
        try:
            while len(found) < count:
                number, _, connection = self._next(session, DATA, deadline)
                if number in found or number >= count:
                    connection.close()
                    continue
                found[number] = connection
            yield [found[number] for number in range(count)]
        finally:
            for connection in found.values():
                connection.close()

    def _next(self, key: bytes, wanted: bytes, deadline: Deadline) -> tuple[int, bytes, socket.socket]:
        while not deadline.passed:
            self._listening.settimeout(max(0.001, deadline.remaining_s))
            try:
                connection, address = self._listening.accept()
            except OSError:  # the time is over, or he has gone again
                continue
            try:
                self._check_address(address[0])
                what, number, session = admit(connection, key, Deadline(min(KEY_S, deadline.remaining_s)))
            except (ProbeError, OSError) as error:
                logger.warning("disk-to-disk: %s was sent away: %s", address[0], error)
                connection.close()
                continue
            if what == wanted:
                return number, session, connection
            connection.close()
        raise NobodyCame("the receiver did not come; does its agent run, and may it connect to our port?")

    def _check_address(self, address: str) -> None:
        if ip_address(address.partition("%")[0]) != self._peer:
            raise NotPermitted("only the receiver is to come")


@contextmanager
def listening(spec: DiskToDiskSpec, key: bytes) -> Iterator[Door]:
    """The sender's door. Behind a translated address it is on all of our own. Raises `PortTaken`."""
    ours = resolve(spec.source, spec.family)
    peer = resolve(spec.address, spec.family)
    with socket.socket(FAMILY[spec.family], socket.SOCK_STREAM) as door:
        door.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if spec.family == 6:
            door.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        # Before it listens: who is not the receiver is never answered. Some container runtimes do not let us;
        # he is then sent away when he comes.
        with contextlib.suppress(OSError):
            attach(door, program(peer))
        try:
            door.bind((ours if is_local(ours) else "", spec.port))
            door.listen(spec.streams + 1)
        except OSError as error:
            raise PortTaken(f"cannot listen on port {spec.port}: {error.strerror}") from error
        yield Door(door, key, peer)


@contextmanager
def knocking(spec: DiskToDiskSpec, key: bytes, deadline: Deadline) -> Iterator[Conversation]:
    """The receiver's end of the conversation, once the sender listens. Raises `ProbeError`."""
    with _connected(spec, deadline) as connection:
        session = _greet(connection, key, CONTROL, 0, deadline)
        yield Conversation(connection, session, sends=False)


@contextmanager
def opened_streams(
    spec: DiskToDiskSpec, session: bytes, count: int, deadline: Deadline
) -> Iterator[Sequence[socket.socket]]:
    """So many connections to the sender, for data."""
    with contextlib.ExitStack() as stack:
        found = []
        for number in range(count):
            connection = stack.enter_context(_connected(spec, deadline))
            _greet(connection, session, DATA, number, deadline)
            found.append(connection)
        yield found


def _greet(connection: socket.socket, key: bytes, what: bytes, number: int, deadline: Deadline) -> bytes:
    try:
        return greet(connection, key, what, number, deadline)
    except OSError as error:
        raise PeerGone(f"the sender is gone: {error}") from error


def _connected(spec: DiskToDiskSpec, deadline: Deadline) -> socket.socket:
    """A connection to the sender, tried until then: it may come later than we do."""
    theirs, ours = resolve(spec.source, spec.family), resolve(spec.address, spec.family)
    last = "the time was over"
    while not deadline.passed:
        connection = socket.socket(FAMILY[spec.family], socket.SOCK_STREAM)
        try:
            if is_local(ours):
                connection.bind((ours, 0))
            connection.settimeout(min(CONNECT_S, deadline.remaining_s) or 0.001)
            connection.connect((theirs, spec.port))
        except OSError as error:
            connection.close()
            if error.errno in NO_ROUTE:
                raise NoRoute(f"the sender at {theirs}: {error.strerror}") from error
            if error.errno not in NOBODY_YET and not isinstance(error, TimeoutError):
                raise PeerGone(f"the sender at {theirs} port {spec.port}: {error}") from error
            last = str(error)
            time.sleep(min(KNOCK_AGAIN_S, deadline.remaining_s))
            continue
        connection.settimeout(None)
        return connection
    raise NobodyCame(f"the sender at {theirs} port {spec.port} did not let us in: {last}")
