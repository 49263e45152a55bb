"""Resolves names to addresses: in parallel, strictly in the requested family, by a deadline.

Returns for each name a socket address or a `ProbeError`, also for addresses that must not be pinged. Raises nothing.
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


def resolve(names: Iterable[Name], deadline: Deadline) -> dict[Name, Resolution]:
    """Resolve each distinct name once, within `RESOLVE_S` and by the deadline."""
    distinct = set(names)
    answers: dict[Name, Resolution] = {}
    for name in distinct:
        numeric = _numeric(*name)
        if numeric is not None:
            answers[name] = numeric
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
        results.put((name, _look_up(*name)))


def _numeric(name: str, family: int) -> Resolution | None:
    """Parse a numeric address; None for a name, or an address with a zone, which needs a lookup."""
    host = packed(name, family)
    if host is None:
        other = 6 if family == 4 else 4
        if packed(name, other) is None:
            return None
        return NameNotResolved(f"this is an IPv{other} address; IPv{family} was requested")
    if "%" in name:
        return None
    refusal = refusal_reason(host)
    if refusal is not None:
        return NotPermitted(refusal)
    return (name, 0) if family == 4 else (socket.inet_ntop(socket.AF_INET6, host), 0, 0, 0)


def _look_up(name: str, family: int) -> Resolution:
    try:
        entries = socket.getaddrinfo(name, None, FAMILY[family], socket.SOCK_DGRAM)
    except (OSError, UnicodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else str(error)
        return NameNotResolved(f"no IPv{family} address: {reason}")
    address = cast("SocketAddress", entries[0][4])
    host = packed(address[0], family)
    refusal = None if host is None else refusal_reason(host, address[3] if len(address) == 4 else 0)
    return address if refusal is None else NotPermitted(refusal)
