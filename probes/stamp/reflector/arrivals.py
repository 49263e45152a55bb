"""Packets that our reflector received from each host, which show whether that direction works."""

from __future__ import annotations

import ipaddress
import threading
from collections.abc import Hashable, Iterable

MOST_READERS = 65_536


class PeerArrivals:
    """Packets of planned peers. Thread-safe; counts only rise, from 0 at the reflector's start."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._counts: dict[bytes, int] | None = None
        self._read: dict[tuple[Hashable, str], int] = {}

    @property
    def is_running(self) -> bool:
        return self._counts is not None

    def begin(self, counts: dict[bytes, int] | None) -> None:
        """Use these counts by address (network order); None without a reflector."""
        with self._lock:
            self._counts = counts
            self._read.clear()

    def since_last(self, reader: Hashable, addresses: Iterable[str]) -> dict[str, int]:
        """Packets from each address since this reader's last call.

        Non-peers and addresses new to the reader are left out.
        """
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
