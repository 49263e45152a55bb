"""Tell local requests from remote requests.

A reverse proxy on the same machine also connects from loopback. So a request is local only if its Host is a loopback
name and it has no headers of a proxy.
"""

from __future__ import annotations

import ipaddress
import os
import sys
from pathlib import Path

from django.http import HttpRequest
from django.http.request import split_domain_port

SOCKET_TABLES = ("/proc/net/tcp", "/proc/net/tcp6")
ESTABLISHED = "01"
PROXY_HEADERS = ("HTTP_FORWARDED", "HTTP_VIA", "HTTP_X_REAL_IP")
PROXY_HEADER_PREFIX = "HTTP_X_FORWARDED"


def is_local(request: HttpRequest) -> bool:
    """Whether the request comes directly from this machine.

    A request over a Unix socket has no address: it comes from a proxy.
    """
    domain, _ = split_domain_port(request.get_host())
    return (
        _is_loopback_address(request.META.get("REMOTE_ADDR", ""))
        and _is_loopback_name(domain)
        and not _came_through_a_proxy(request)
    )


def is_by_this_user(request: HttpRequest) -> bool:
    """Whether a process of the user of this server, or of root, sent the request directly from this machine.

    The kernel's table of TCP sockets has the user of the client's end.
    """
    if not is_local(request):
        return False
    client = _end(request.META["REMOTE_ADDR"], request.META.get("REMOTE_PORT", ""))
    return client is not None and _user_of(client) in (os.geteuid(), 0)


def _end(address: str, port: str) -> str | None:
    """An end of a connection as /proc/net/tcp and tcp6 write it; None for an invalid port."""
    if not port.isdecimal():
        return None
    packed = ipaddress.ip_address(address.strip("[]")).packed
    words = [int.from_bytes(packed[at : at + 4], sys.byteorder) for at in range(0, len(packed), 4)]
    return f"{''.join(f'{word:08X}' for word in words)}:{int(port):04X}"


def _user_of(client: str) -> int | None:
    """The user of the established socket with this local end."""
    for table in SOCKET_TABLES:
        for line in Path(table).read_text().splitlines()[1:] if Path(table).exists() else ():
            _, local, _, state, _, _, _, user, *_ = line.split()
            if local == client and state == ESTABLISHED:
                return int(user)
    return None


def stayed_on_this_machine(request: HttpRequest) -> bool:
    """Whether the request used no network: over loopback or a Unix socket, without a proxy."""
    address = request.META.get("REMOTE_ADDR", "")
    return (not address or _is_loopback_address(address)) and not _came_through_a_proxy(request)


def _is_loopback_address(address: str) -> bool:
    try:
        parsed = ipaddress.ip_address(address.strip("[]"))
    except ValueError:
        return False
    mapped = getattr(parsed, "ipv4_mapped", None)
    return (parsed if mapped is None else mapped).is_loopback


def _is_loopback_name(name: str) -> bool:
    return name == "localhost" or name.endswith(".localhost") or _is_loopback_address(name)


def _came_through_a_proxy(request: HttpRequest) -> bool:
    return any(name in PROXY_HEADERS or name.startswith(PROXY_HEADER_PREFIX) for name in request.META)
