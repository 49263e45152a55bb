"""The flow of each path: the ICMP checksum that all its echo requests carry.

Routers that balance load over several links choose the link of an ICMP packet by type, code and checksum, the first
four bytes after the IP header (Augustin et al., "Avoiding traceroute anomalies with Paris traceroute", IMC 2006). With
a constant checksum, all requests to a target take the same links, and so does a trace that carries it too.
"""

from __future__ import annotations

import hashlib
import socket
from collections.abc import Sequence
from functools import cache, lru_cache
from pathlib import Path

import numpy as np

from probes.bounds import LARGEST_ICMP_FLOW
from probes.packets.addresses import FAMILY, SocketAddress
from probes.packets.arrays import Int64s

MACHINE_ID = Path("/etc/machine-id")


@cache
def machine_key() -> bytes:
    """A key that outsiders do not know and that stays the same when a program or the machine starts again.

    machine-id(5) asks not to use the identifier itself.
    """
    try:
        text = MACHINE_ID.read_bytes()
    except OSError:
        text = socket.gethostname().encode()
    return hashlib.blake2b(text, person=b"soundings flow", digest_size=32).digest()


def flows_of(family: int, addresses: Sequence[SocketAddress]) -> Int64s:
    """The flow of each of these targets, from 1 to 0xFFFE: always the same from this machine to the same address."""
    return np.array([_flow_of(family, address[0].partition("%")[0]) for address in addresses], np.int64)


@lru_cache(maxsize=16_384)
def _flow_of(family: int, host: str) -> int:
    packed = socket.inet_pton(FAMILY[family], host)
    number = int.from_bytes(hashlib.blake2b(packed, key=machine_key(), digest_size=8).digest())
    return 1 + number % LARGEST_ICMP_FLOW
