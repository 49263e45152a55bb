"""Names to addresses: in parallel, strictly in the family asked for, by a deadline; and addresses that we do not ping.

A name goes in, a socket address or the `ProbeError` that says why not comes out. Nothing is raised.
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
"""A name or address, and the family in which it is wanted."""

Resolution = SocketAddress | ProbeError


def resolve(names: Iterable[Name], deadline: Deadline) -> dict[Name, Resolution]:
    """Resolve each distinct name once. What has no answer within `RESOLVE_S` or by the deadline is not resolved."""
    wanted = set(names)
    answers: dict[Name, Resolution] = {}
    for name in wanted:
        numeric = _numeric(*name)
        if numeric is not None:
            answers[name] = numeric
    asked: queue.SimpleQueue[Name] = queue.SimpleQueue()
    answered: queue.SimpleQueue[tuple[Name, Resolution]] = queue.SimpleQueue()
    names_left = wanted - answers.keys()
    for name in names_left:
        asked.put(name)
    for _ in range(min(WORKERS, len(names_left))):
        # A daemon: the C library's resolver cannot be interrupted, and must not hold up the end of the process.
        threading.Thread(target=_work, args=(asked, answered), daemon=True).start()
    until = Deadline(min(RESOLVE_S, deadline.remaining_s))
    while names_left:
        try:
            name, answer = answered.get(timeout=until.remaining_s)
        except queue.Empty:
            break
        answers[name] = answer
        names_left.discard(name)
    for name in names_left:
        answers[name] = NameNotResolved("the resolver gave no answer in time")
    return answers


def _work(asked: queue.SimpleQueue[Name], answered: queue.SimpleQueue[tuple[Name, Resolution]]) -> None:
    while True:
        try:
            name = asked.get_nowait()
        except queue.Empty:
            return
        answered.put((name, _look_up(*name)))


def _numeric(name: str, family: int) -> Resolution | None:
    """What an address written in numbers stands for; None if it is a name, or needs its interface looked up."""
    host = packed(name, family)
    if host is None:
        other = 6 if family == 4 else 4
        if packed(name, other) is None:
            return None
        return NameNotResolved(f"an IPv{other} address; IPv{family} was asked for")
    if "%" in name:
        return None
    refusal = refusal_reason(host)
    if refusal is not None:
        return NotPermitted(refusal)
    return (name, 0) if family == 4 else (socket.inet_ntop(socket.AF_INET6, host), 0, 0, 0)


def _look_up(name: str, family: int) -> Resolution:
    try:
        found = socket.getaddrinfo(name, None, FAMILY[family], socket.SOCK_DGRAM)
    except (OSError, UnicodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else str(error)
        return NameNotResolved(f"no IPv{family} address: {reason}")
    address = cast("SocketAddress", found[0][4])
    host = packed(address[0], family)
    refusal = None if host is None else refusal_reason(host, address[3] if len(address) == 4 else 0)
    return address if refusal is None else NotPermitted(refusal)
