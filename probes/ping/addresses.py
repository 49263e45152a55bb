"""What is known of an address without sending to it: whether it may be pinged, is ours, and what its path carries."""

from __future__ import annotations

import socket

FAMILY = {4: socket.AF_INET, 6: socket.AF_INET6}
IP_MTU = {4: (socket.IPPROTO_IP, 14), 6: (socket.IPPROTO_IPV6, 24)}
DISCARD_PORT = 9

SocketAddress = tuple[str, int] | tuple[str, int, int, int]
"""As `socket.getaddrinfo` gives it."""

V4_MAPPED = bytes(10) + b"\xff\xff"


def packed(address: str, family: int) -> bytes | None:
    """The address in network order, its zone left out; None if it is no address of this family."""
    try:
        return socket.inet_pton(FAMILY[family], address.partition("%")[0])
    except (OSError, UnicodeError):
        return None


def refusal_reason(host: bytes, scope: int = 0) -> str | None:
    """Why this address, in network order, is not pinged; None if it may be. `scope` is an IPv6 interface's index."""
    if not any(host):
        return "the unspecified address is nobody's; give a host's address"
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
        return f"an IPv4 address in IPv6 dress; give {text.rpartition(':')[2]} and IPv4"
    if host[0] == 0xFE and host[1] & 0xC0 == 0x80 and scope == 0:
        return f"a link-local address needs its interface; give {text}%INTERFACE"
    return None


def is_own(address: SocketAddress, family: int) -> bool:
    """Whether packets to this socket address never leave this host: the kernel would send them from there as well."""
    with socket.socket(FAMILY[family], socket.SOCK_DGRAM) as probe:
        try:
            probe.connect((address[0], DISCARD_PORT, *address[2:]))
        except OSError:
            return False
        own: bool = packed(probe.getsockname()[0], family) == packed(address[0], family)
        return own


def path_mtu_bytes(address: SocketAddress, family: int) -> int | None:
    """The largest IP packet that this host's kernel knows to fit the path; None where it knows no path."""
    with socket.socket(FAMILY[family], socket.SOCK_DGRAM) as probe:
        try:
            probe.connect((address[0], DISCARD_PORT, *address[2:]))
            return probe.getsockopt(*IP_MTU[family])
        except OSError:
            return None
