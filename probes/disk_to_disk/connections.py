"""Authenticated connections of a disk-to-disk test (`probes.transfers.connections`), and the messages on them."""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import msgspec

from probes.contract import Deadline
from probes.disk_to_disk.spec import DiskToDiskSpec
from probes.packets.addresses import FAMILY
from probes.packets.icmp.packet_filter import attach
from probes.transfers.address import is_local, resolve_address
from probes.transfers.connections import Listener, PortInUse, authenticate, connect
from probes.transfers.control_connection import CONTROL, DATA, ControlConnection, PeerFailure
from probes.transfers.source_filter import source_program


class Ready(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """The receiver is ready, with the bytes and seconds of its local write."""

    moved_bytes: int
    seconds: float
    takes_blocks: bool = False  # False for older receivers


class TransferRequest(msgspec.Struct, frozen=True, kw_only=True, tag="Transfer"):
    """Request to receive a transfer of at most `duration_s`."""

    tool: str
    streams: int
    duration_s: int
    file_bytes: int | None  # None for a transfer from memory
    in_blocks: bool = False  # blocks instead of a fixed part for each stream (see `streams`)


class StreamsOpen(msgspec.Struct, frozen=True, kw_only=True, tag="Open"):
    """All streams are connected; start sending."""


class TransferResult(msgspec.Struct, frozen=True, kw_only=True, tag="Arrived"):
    """Received bytes per stream, and durations."""

    stream_bytes: tuple[int, ...] = ()
    moving_s: float = 0.0
    syncing_s: float = 0.0  # of the final fsync
    digest: str | None = None  # of the stored file


class End(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """The test is complete."""


Message = Ready | PeerFailure | TransferRequest | StreamsOpen | TransferResult | End


SENDER = "the sender"


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
        # the listener rejects other hosts as well.
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
    """Connect once the sender listens, and authenticate. Raises `ProbeError`."""
    with _connect(spec, deadline) as connection:
        session = authenticate(connection, SENDER, key, CONTROL, 0, deadline)
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
            authenticate(connection, SENDER, session, DATA, number, deadline)
            connections.append(connection)
        yield connections


def _connect(spec: DiskToDiskSpec, deadline: Deadline) -> socket.socket:
    address, own_address = resolve_address(spec.source, spec.family), resolve_address(spec.address, spec.family)
    return connect(SENDER, address, spec.port, own_address, spec.family, deadline)
