"""Packets that our own reflector received from each host, as the cycles to that host report them.

A host with our agent measures us as we measure it. When a path is down, a sender knows of no packet how far it came;
its reflector knows whether those of the other end arrive, and so whether that direction works.
"""

from __future__ import annotations

import ipaddress
import threading
from collections.abc import Hashable, Iterable

MOST_READERS = 65_536


class PeerArrivals:
    """The packets of the peers in the reflector's plan, from any thread. Counts only rise, and begin with 0 where the
    reflector is started."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._counts: dict[bytes, int] | None = None
        self._read: dict[tuple[Hashable, str], int] = {}

    @property
    def is_running(self) -> bool:
        """Whether a reflector counts."""
        return self._counts is not None

    def begin(self, counts: dict[bytes, int] | None) -> None:
        """Take up the counts by address in network order, which a new reflector adds to; None without a reflector."""
        with self._lock:
            self._counts = counts
            self._read.clear()

    def since_last(self, reader: Hashable, addresses: Iterable[str]) -> dict[str, int]:
        """The packets from each of these addresses since this reader asked last. Left out are addresses that are no
        peers, those it asks about for the first time, and all without a reflector."""
        with self._lock:
            if self._counts is None:
                return {}
            arrived = {}
            for address in addresses:
                count = self._counts.get(ipaddress.ip_address(address.partition("%")[0]).packed)
                key = reader, address
                if count is not None and key in self._read:
                    arrived[address] = count - self._read[key]
                if count is not None and (key in self._read or len(self._read) < MOST_READERS):
                    self._read[key] = count
            return arrived
