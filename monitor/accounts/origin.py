"""Tell local from remote requests.

Reverse proxies also connect from loopback: a local request has a loopback Host and no proxy headers.
"""

from __future__ import annotations

import contextlib
import ipaddress
import itertools
import os
import socket
import sys
from collections.abc import Iterator
from pathlib import Path

from django.http import HttpRequest
from django.http.request import split_domain_port

SOCKET_TABLES = ("/proc/net/tcp", "/proc/net/tcp6")
ESTABLISHED = "01"
# Of each table: half a second to read. Beyond it a user is unknown.
MOST_SOCKETS = 200_000
PROXY_HEADERS = ("HTTP_FORWARDED", "HTTP_VIA", "HTTP_X_REAL_IP")
PROXY_HEADER_PREFIX = "HTTP_X_FORWARDED"


def is_local(request: HttpRequest) -> bool:
    """Whether the request comes directly from this machine."""
    domain, _ = split_domain_port(request.get_host())
    return (
        _is_loopback_address(request.META.get("REMOTE_ADDR", ""))
        and _is_loopback_name(domain)
        and not _came_through_a_proxy(request)
    )


def is_by_this_user(request: HttpRequest) -> bool:
    """Whether a local process of this server's user, or of root, sent the request; false if unknown."""
    connection = request.META.get("gunicorn.socket")
    return is_local(request) and connection is not None and user_at_other_end(connection) in (os.geteuid(), 0)


def user_at_other_end(connection: socket.socket) -> int | None:
    """Uid of the client's open TCP socket on this machine, by the kernel's table; None without."""
    if connection.family not in (socket.AF_INET, socket.AF_INET6):
        return None
    try:
        # Both ends: other sockets may have the same local end. No two have the same pair while this one is open.
        client, server = _written(connection.getpeername()), _written(connection.getsockname())
    except (OSError, ValueError):
        return None
    users = {row[7] for row in _table_rows() if row[3] == ESTABLISHED and row[1] in client and row[2] in server}
    return int(users.pop()) if len(users) == 1 else None


def _table_rows() -> Iterator[list[str]]:
    for table in SOCKET_TABLES:
        with contextlib.suppress(OSError), Path(table).open() as lines:
            for line in itertools.islice(lines, 1, MOST_SOCKETS):
                yield line.split(maxsplit=8)


def _written(end: tuple[object, ...]) -> set[str]:
    # Both spellings in /proc/net/tcp and tcp6: an IPv6 socket can have IPv4 addresses.
    parsed = ipaddress.ip_address(str(end[0]).partition("%")[0])
    address = getattr(parsed, "ipv4_mapped", None) or parsed
    forms = {address.packed, bytes(10) + b"\xff\xff" + address.packed} if address.version == 4 else {address.packed}
    return {
        "".join(f"{int.from_bytes(form[at : at + 4], sys.byteorder):08X}" for at in range(0, len(form), 4))
        + f":{end[1]:04X}"
        for form in forms
    }


def stayed_on_this_machine(request: HttpRequest) -> bool:
    """Whether the request used loopback or a Unix socket, without a proxy."""
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
