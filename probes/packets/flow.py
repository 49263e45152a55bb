"""The flow of each path: the constant ICMP checksum of its echo requests, by which routers balance load.

Augustin et al., "Avoiding traceroute anomalies with Paris traceroute", IMC 2006.
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
    """Derive a secret key that survives restarts; machine-id(5) asks not to use the identifier itself."""
    try:
        text = MACHINE_ID.read_bytes()
    except OSError:
        text = socket.gethostname().encode()
    return hashlib.blake2b(text, person=b"soundings flow", digest_size=32).digest()


def flows_of(family: int, addresses: Sequence[SocketAddress]) -> Int64s:
    """Flow of each target, 1 to 0xFFFE, constant from this machine."""
    return np.array([_flow_of(family, address[0].partition("%")[0]) for address in addresses], np.int64)


@lru_cache(maxsize=16_384)
def _flow_of(family: int, host: str) -> int:
    packed = socket.inet_pton(FAMILY[family], host)
    number = int.from_bytes(hashlib.blake2b(packed, key=machine_key(), digest_size=8).digest())
    return 1 + number % LARGEST_ICMP_FLOW
