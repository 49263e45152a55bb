"""Checks an address without sending to it: permission, locality, path MTU."""

from __future__ import annotations

import socket

FAMILY = {4: socket.AF_INET, 6: socket.AF_INET6}
IP_MTU = {4: (socket.IPPROTO_IP, 14), 6: (socket.IPPROTO_IPV6, 24)}
DISCARD_PORT = 9

# In the form that `socket.getaddrinfo` returns.
SocketAddress = tuple[str, int] | tuple[str, int, int, int]

V4_MAPPED = bytes(10) + b"\xff\xff"


def packed(address: str, family: int) -> bytes | None:
    """The address in network order, without zone; None if not of this family."""
    try:
        return socket.inet_pton(FAMILY[family], address.partition("%")[0])
    except (OSError, UnicodeError):
        return None


def refusal_reason(host: bytes, scope: int = 0) -> str | None:
    """Why an address (network order) is not pinged, or None. `scope` is the interface index."""
    if not any(host):
        return "this is the unspecified address; give a host's address"
    if len(host) == 4:
        if host[0] & 0xF0 == 0xE0:
            return "a multicast address is not pinged; give one host's address"
        if host == b"\xff\xff\xff\xff":
            return "the broadcast address is not pinged; give one host's address"
        return None
    text = socket.inet_ntop(socket.AF_INET6, host)
    if host[0] == 0xFF:
        return "a multicast address is not pinged; give one host's address"
    if host.startswith(V4_MAPPED):
        return f"an IPv4-mapped IPv6 address; give {text.rpartition(':')[2]} and IPv4"
    if host[0] == 0xFE and host[1] & 0xC0 == 0x80 and scope == 0:
        return f"a link-local address needs its interface; give {text}%INTERFACE"
    return None


LOCAL_NOTE = "local address: packets did not leave this host"
# With kernel timestamps, RTTs to local addresses are below this; a longer RTT means a remote address.
NEAR_MS = 0.1


def is_own(address: SocketAddress, family: int) -> bool:
    """Whether the address is local: its source address is the same."""
    with socket.socket(FAMILY[family], socket.SOCK_DGRAM) as probe:
        try:
            probe.connect((address[0], DISCARD_PORT, *address[2:]))
        except OSError:
            return False
        local: bool = packed(probe.getsockname()[0], family) == packed(address[0], family)
        return local


def stays_on_host(address: SocketAddress, family: int, shortest_ms: float) -> bool:
    """Whether packets never leave this host.

    The kernel is asked only if `shortest_ms` is below NEAR_MS.
    """
    return address[0].startswith("127.") or (shortest_ms < NEAR_MS and is_own(address, family))


def path_mtu_bytes(address: SocketAddress, family: int) -> int | None:
    """Path MTU in the kernel's route cache, in IP bytes; None without a route."""
    with socket.socket(FAMILY[family], socket.SOCK_DGRAM) as probe:
        try:
            probe.connect((address[0], DISCARD_PORT, *address[2:]))
            return probe.getsockopt(*IP_MTU[family])
        except OSError:
            return None
