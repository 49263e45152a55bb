"""Resolves names to addresses, strictly in the requested family: a single name, or many in parallel by a deadline.

`resolve` returns for each name a socket address or a `ProbeError`, also for addresses that must not be pinged, and
raises nothing. `resolve_name` raises, and is for every kind.
"""

from __future__ import annotations

import queue
import socket
import threading
from collections.abc import Iterable
from typing import cast

from probes.contract import Deadline, NameNotResolved, NotPermitted, ProbeError
from probes.ping.addresses import FAMILY, SocketAddress, packed, refusal_reason

RESOLVE_S = 5.0
WORKERS = 32

Name = tuple[str, int]
"""A name or address, and the requested address family."""

Resolution = SocketAddress | ProbeError


def resolve_name(name: str, family: int) -> SocketAddress:
    """The first address of a name; a literal address is returned unchanged. Raises `NameNotResolved`."""
    host = packed(name, family)
    other = 6 if family == 4 else 4
    if host is None and packed(name, other) is not None:
        raise NameNotResolved(f"this is an IPv{other} address; IPv{family} was requested", permanent=True)
    if host is not None and "%" not in name:
        return (name, 0) if family == 4 else (socket.inet_ntop(socket.AF_INET6, host), 0, 0, 0)
    try:
        entries = socket.getaddrinfo(name, None, FAMILY[family], socket.SOCK_DGRAM)
    except (OSError, UnicodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else str(error)
        raise NameNotResolved(f"no IPv{family} address: {reason}") from error
    return cast("SocketAddress", entries[0][4])


def resolve(names: Iterable[Name], deadline: Deadline) -> dict[Name, Resolution]:
    """Resolve each distinct name once, within `RESOLVE_S` and by the deadline."""
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
        threading.Thread(target=_resolve_pending, args=(pending, results), daemon=True).start()
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
    """The names that resolve, sorted, with their addresses."""
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
    """The answer for an address without a zone, which needs no lookup; None for all others."""
    if "%" in name:
        return None
    host = packed(name, family)
    if host is None:
        return _resolve_target(name, family) if packed(name, 6 if family == 4 else 4) is not None else None
    refusal = refusal_reason(host)
    if refusal is not None:
        return NotPermitted(refusal)
    return (name, 0) if family == 4 else (socket.inet_ntop(socket.AF_INET6, host), 0, 0, 0)


def _resolve_target(name: str, family: int) -> Resolution:
    try:
        address = resolve_name(name, family)
    except NameNotResolved as error:
        return error
    host = packed(address[0], family)
    refusal = None if host is None else refusal_reason(host, address[3] if len(address) == 4 else 0)
    return address if refusal is None else NotPermitted(refusal)
