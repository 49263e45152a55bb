"""Resolves names to addresses, strictly in the requested family, one name or many in parallel."""

from __future__ import annotations

import queue
import socket
from collections.abc import Iterable
from contextlib import suppress
from ipaddress import IPv4Address, IPv6Address
from typing import cast

from probes.contract import Deadline, NameNotResolved, NotPermitted, ProbeError
from probes.hosts import fault, literal
from probes.packets.addresses import FAMILY, SocketAddress, packed, refusal_reason
from probes.threads import ProbeThread

RESOLVE_S = 5.0
WORKERS = 32

# A name or address, and the requested address family.
Name = tuple[str, int]

Resolution = SocketAddress | ProbeError


def resolve_name(name: str, family: int) -> SocketAddress:
    """The first address; literals stay unchanged. Raises `NameNotResolved`."""
    reason = fault(name)
    if reason is not None:
        # The C library would read some of these as another host's address.
        raise NameNotResolved(f"the address {reason}", permanent=True)
    host = literal(name)
    if host is not None:
        return _socket_address(host, family)
    try:
        entries = socket.getaddrinfo(name, None, FAMILY[family], socket.SOCK_DGRAM)
    except (OSError, UnicodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else str(error)
        raise NameNotResolved(f"no IPv{family} address: {reason}") from error
    return cast("SocketAddress", entries[0][4])


def _socket_address(host: IPv4Address | IPv6Address, family: int) -> SocketAddress:
    if host.version != family:
        raise NameNotResolved(f"this is an IPv{host.version} address; IPv{family} was requested", permanent=True)
    if isinstance(host, IPv4Address):
        return str(host), 0
    return socket.inet_ntop(socket.AF_INET6, host.packed), 0, 0, 0 if host.scope_id is None else _index(host.scope_id)


def _index(zone: str) -> int:
    """Interface index by name or index. Raises `NameNotResolved`."""
    with suppress(OSError):
        return socket.if_nametoindex(zone)
    with suppress(OSError, OverflowError, ValueError):
        # Raises for an index that no interface has; the C library would take any.
        return socket.if_nametoindex(socket.if_indextoname(int(zone)))
    raise NameNotResolved(f"this host has no interface {zone}; `ip link` lists its interfaces")


def resolve(names: Iterable[Name], deadline: Deadline) -> dict[Name, Resolution]:
    """Resolve distinct names by `RESOLVE_S` and the deadline; errors are results."""
    distinct = set(names)
    answers: dict[Name, Resolution] = {}
    for name in distinct:
        literal = _resolve_literal(*name)
        if literal is not None:
            answers[name] = literal
    pending: queue.SimpleQueue[Name] = queue.SimpleQueue()
    results: queue.SimpleQueue[tuple[Name, Resolution]] = queue.SimpleQueue()
    names_left = distinct - answers.keys()
    for name in names_left:
        pending.put(name)
    for _ in range(min(WORKERS, len(names_left))):
        # Daemon threads: the C resolver cannot be interrupted, and must not delay the exit of the process.
        ProbeThread(target=_resolve_pending, args=(pending, results), daemon=True).start()
    until = Deadline(min(RESOLVE_S, deadline.remaining_s))
    while names_left:
        try:
            name, answer = results.get(timeout=until.remaining_s)
        except queue.Empty:
            break
        answers[name] = answer
        names_left.discard(name)
    for name in names_left:
        answers[name] = NameNotResolved("name resolution timed out")
    return answers


def resolved(names: Iterable[Name]) -> list[tuple[Name, SocketAddress]]:
    answers = resolve(names, Deadline(RESOLVE_S))
    return [(name, answer) for name, answer in sorted(answers.items()) if not isinstance(answer, ProbeError)]


def _resolve_pending(pending: queue.SimpleQueue[Name], results: queue.SimpleQueue[tuple[Name, Resolution]]) -> None:
    while True:
        try:
            name = pending.get_nowait()
        except queue.Empty:
            return
        results.put((name, _resolve_target(*name)))


def _resolve_literal(name: str, family: int) -> Resolution | None:
    """Answer without lookup, for addresses and invalid texts; None for a name."""
    return None if literal(name) is None and fault(name) is None else _resolve_target(name, family)


def _resolve_target(name: str, family: int) -> Resolution:
    try:
        address = resolve_name(name, family)
    except NameNotResolved as error:
        return error
    host = packed(address[0], family)
    refusal = None if host is None else refusal_reason(host, address[3] if len(address) == 4 else 0)
    return address if refusal is None else NotPermitted(refusal)
