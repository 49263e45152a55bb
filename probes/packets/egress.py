"""Where packets leave this host: interface or VRF, network namespace, DSCP. Linux only."""

from __future__ import annotations

import ctypes
import errno
import os
import socket
import sys
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Literal, TypeVar

import msgspec
from msgspec import Meta

from probes.bounds import ShortText
from probes.contract import NoRoute, NotPermitted, ProbeError
from probes.packets.addresses import DISCARD_PORT, FAMILY, SocketAddress

NAMESPACES = Path("/run/netns")
CLONE_NEWNET = 0x40000000
TRAFFIC_CLASS = {4: (socket.IPPROTO_IP, socket.IP_TOS), 6: (socket.IPPROTO_IPV6, socket.IPV6_TCLASS)}
LARGEST_DSCP = 63
# The DSCP is the upper six bits of the traffic class (RFC 2474).
ECN_BITS = 2

# A socket address of family AF_UNSPEC, as long as an IPv6 address.
UNSPECIFIED = bytes(28)

Opened = TypeVar("Opened")
# On other systems a socket is opened for each destination.
_connect = ctypes.CDLL(None).connect if sys.platform == "linux" else None


class Egress(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    interface: ShortText | None = None  # may be a VRF
    namespace: ShortText | None = None  # name under /run/netns (`ip netns`)
    dscp: Annotated[int, Meta(ge=0, le=LARGEST_DSCP)] = 0


ANY = Egress()


class PacketTarget(msgspec.Struct, frozen=True, kw_only=True):
    address: str
    family: Literal[4, 6] = 4
    source: str | None = None  # local address to send from; ignored if this host lacks it
    path_id: int | None = None
    egress: Egress | msgspec.UnsetType = msgspec.UNSET  # left out of the JSON where this host's routes decide

    @property
    def leaves_by(self) -> Egress:
        return ANY if isinstance(self.egress, msgspec.UnsetType) else self.egress


def open_within(egress: Egress, opening: Callable[[], Opened]) -> Opened:
    """Call `opening` in the namespace, in which its sockets stay."""
    if egress.namespace is None:
        return opening()
    name = egress.namespace

    def enter_and_open() -> Opened:
        _enter(name)
        return opening()

    # A thread of its own ends in the namespace; no other thread of this process ever enters it.
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(enter_and_open).result()


def _enter(name: str) -> None:
    if "/" in name or name in ("", ".", ".."):
        raise ProbeError(f"{name!r} is no name of a network namespace", permanent=True)
    try:
        descriptor = os.open(NAMESPACES / name, os.O_RDONLY | os.O_CLOEXEC)
    except OSError as error:
        raise NoRoute(f"this host has no network namespace {name!r}: {error.strerror}") from error
    try:
        if ctypes.CDLL(None, use_errno=True).setns(descriptor, CLONE_NEWNET):
            code = ctypes.get_errno()
            problem = f"the network namespace {name!r} cannot be entered: {os.strerror(code)}"
            raise NotPermitted(f"{problem}; run as root") if code == errno.EPERM else ProbeError(problem)
    finally:
        os.close(descriptor)


def prepare(opened: socket.socket, family: int, egress: Egress) -> None:
    """Set interface and DSCP, before a socket is bound."""
    if egress.interface is not None:
        try:
            opened.setsockopt(socket.SOL_SOCKET, socket.SO_BINDTODEVICE, egress.interface.encode() + b"\0")
        except OSError as error:
            problem = f"interface {egress.interface!r} cannot be used: {error.strerror}"
            raise NotPermitted(f"{problem}; run as root") if error.errno == errno.EPERM else NoRoute(problem) from error
    if egress.dscp:
        opened.setsockopt(*TRAFFIC_CLASS[family], egress.dscp << ECN_BITS)


def source_addresses(
    family: int, destinations: Sequence[SocketAddress], source: str | None, egress: Egress = ANY
) -> list[str | None]:
    """Local address of packets to each destination; None without a route. Sends nothing."""

    def look_up() -> list[str | None]:
        if source is not None:
            with suppress(OSError), _unsent(family, egress) as probe:
                probe.bind((source, 0))
                return [source] * len(destinations)
        if _connect is None:
            return [_local_address_alone(family, destination, egress) for destination in destinations]
        with _unsent(family, egress) as probe:
            return [_local_address(probe, family, destination, egress) for destination in destinations]

    with suppress(OSError, ProbeError):
        return open_within(egress, look_up)
    return [None] * len(destinations)


def _unsent(family: int, egress: Egress) -> socket.socket:
    probe = socket.socket(FAMILY[family], socket.SOCK_DGRAM)
    try:
        prepare(probe, family, egress)
    except BaseException:
        probe.close()
        raise
    return probe


def _local_address_alone(family: int, destination: SocketAddress, egress: Egress) -> str | None:
    with _unsent(family, egress) as probe:
        return _local_address(probe, family, destination, egress)


def _local_address(probe: socket.socket, family: int, destination: SocketAddress, egress: Egress) -> str | None:
    # A socket that is connected again keeps its local address. Disconnected (connect(2), AF_UNSPEC), it keeps neither
    # that nor its interface.
    if _connect is not None:
        _connect(probe.fileno(), UNSPECIFIED, len(UNSPECIFIED))
    prepare(probe, family, egress)
    try:
        probe.connect((destination[0], DISCARD_PORT, *destination[2:]))
    except OSError:
        return None
    return str(probe.getsockname()[0]).partition("%")[0]
