"""Parse IP addresses into arrays for lookups."""

from __future__ import annotations

import socket
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

# Of an IPv4 address in IPv6 form (RFC 4291, 2.5.5.2).
MAPPED = bytes(10) + b"\xff\xff"


@dataclass(frozen=True, slots=True)
class AddressBatch:
    size: int
    ipv4: NDArray[np.uint32]
    ipv4_places: NDArray[np.intp]  # positions in the sequence of `size`
    ipv6: NDArray[np.bytes_]  # 16 bytes in network order
    ipv6_places: NDArray[np.intp]  # positions in the sequence of `size`

    @classmethod
    def parse(cls, addresses: Sequence[str]) -> AddressBatch:
        """Parse IPv4 in IPv6 form as IPv4; leave out invalid text."""
        ipv4, ipv4_places, ipv6, ipv6_places = [], [], [], []
        for place, address in enumerate(addresses):
            packed = packed_address(address)
            if packed is None:
                continue
            if len(packed) == 4:
                ipv4.append(packed)
                ipv4_places.append(place)
            else:
                ipv6.append(packed)
                ipv6_places.append(place)
        return cls(
            len(addresses),
            np.frombuffer(b"".join(ipv4), ">u4").astype(np.uint32),
            np.array(ipv4_places, np.intp),
            np.frombuffer(b"".join(ipv6), "S16"),
            np.array(ipv6_places, np.intp),
        )


def packed_address(address: str) -> bytes | None:
    """Pack into 4 or 16 bytes in network order, without zone; None if invalid."""
    try:
        if ":" not in address:
            return socket.inet_pton(socket.AF_INET, address)
        packed = socket.inet_pton(socket.AF_INET6, address.partition("%")[0])
    except (OSError, ValueError):
        return None
    return packed[12:] if packed.startswith(MAPPED) else packed


def canonical_address(address: str) -> str:
    """Normal form, without zone; invalid text stays."""
    packed = packed_address(address)
    if packed is None:
        return address
    return socket.inet_ntop(socket.AF_INET if len(packed) == 4 else socket.AF_INET6, packed)
