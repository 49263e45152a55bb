"""Names to addresses: in parallel, strictly in the family asked for, by a deadline; and addresses that we do not ping.

A name goes in, a socket address or the `ProbeError` that says why not comes out. Nothing is raised.
"""

from __future__ import annotations

import ipaddress
import queue
import socket
import threading
from collections.abc import Iterable
from functools import lru_cache
from typing import cast

from probes.contract import Deadline, NameNotResolved, NotPermitted, ProbeError
from probes.ping.channel import FAMILY
from probes.ping.sender import SocketAddress

RESOLVE_S = 5.0
WORKERS = 32

Name = tuple[str, int]
"""A name or address, and the family in which it is wanted."""

Resolved = SocketAddress | ProbeError


def resolve(names: Iterable[Name], deadline: Deadline) -> dict[Name, Resolved]:
    """Resolve each distinct name once. What has no answer within `RESOLVE_S` or by the deadline is not resolved."""
    wanted = set(names)
    answers: dict[Name, Resolved] = {}
    for name in wanted:
        numeric = _numeric(*name)
        if numeric is not None:
            answers[name] = numeric
    asked: queue.SimpleQueue[Name] = queue.SimpleQueue()
    answered: queue.SimpleQueue[tuple[Name, Resolved]] = queue.SimpleQueue()
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


def _work(asked: queue.SimpleQueue[Name], answered: queue.SimpleQueue[tuple[Name, Resolved]]) -> None:
    while True:
        try:
            name = asked.get_nowait()
        except queue.Empty:
            return
        answered.put((name, _look_up(*name)))


@lru_cache(maxsize=1 << 16)
def _numeric(name: str, family: int) -> Resolved | None:
    """What an address written in numbers stands for; None if it is a name, or needs its interface looked up."""
    try:
        host = ipaddress.ip_address(name)
    except ValueError:
        return None
    if host.version != family:
        return NameNotResolved(f"an IPv{host.version} address; IPv{family} was asked for")
    if "%" in name:
        return None
    return _unless_refused((name, 0) if family == 4 else (str(host), 0, 0, 0))


def _look_up(name: str, family: int) -> Resolved:
    try:
        found = socket.getaddrinfo(name, None, FAMILY[family], socket.SOCK_DGRAM)
    except (OSError, UnicodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else str(error)
        return NameNotResolved(f"no IPv{family} address: {reason}")
    return _unless_refused(cast("SocketAddress", found[0][4]))


def _unless_refused(address: SocketAddress) -> Resolved:
    refusal = why_not(address)
    return address if refusal is None else NotPermitted(refusal)


def why_not(address: SocketAddress) -> str | None:
    """Why this address is not pinged, or None if it may be."""
    host = ipaddress.ip_address(address[0])
    if host.is_multicast:
        return "a multicast address is not pinged; give one host's address"
    if host.is_unspecified:
        return "the unspecified address is nobody's; give a host's address"
    if isinstance(host, ipaddress.IPv4Address):
        if host == ipaddress.IPv4Address("255.255.255.255"):
            return "the broadcast address is not pinged; give one host's address"
        return None
    if host.ipv4_mapped is not None:
        return f"an IPv4 address in IPv6 dress; give {host.ipv4_mapped} and IPv4"
    if host.is_link_local and len(address) == 4 and address[3] == 0:
        return f"a link-local address needs its interface; give {address[0]}%INTERFACE"
    return None
