"""Which packet a send stamp is of. The kernel numbers a socket's stamps from 0, in the order of sending.

A packet without a route takes no number. Whether one that failed otherwise took one depends on the kernel's version,
so after such a failure the numbering is restarted; a stamp still under way then carries a number from before.
"""

from __future__ import annotations

import numpy as np

from probes.ping.arrays import Int64s


class StampKeys:
    """The packets that were sent, in order, and where the kernel's numbering of them last began."""

    def __init__(self, total: int) -> None:
        self._packets: Int64s = np.zeros(total, np.int64)
        self._count = 0
        self._start = 0
        self._start_before = 0

    def sent(self, first: int, stop: int) -> None:
        """The kernel took packets `first` to `stop`."""
        following = self._count + stop - first
        self._packets[self._count : following] = np.arange(first, stop)
        self._count = following

    def restart(self) -> None:
        """The next packet sent has number 0 again."""
        if self._start != self._count:
            self._start_before, self._start = self._start, self._count

    def packets(self, keys: Int64s) -> Int64s:
        """The packet of each number; -1 where there is none."""
        recent = self._start + keys
        before = self._start_before + keys
        place = np.where(recent < self._count, recent, np.where(before < self._start, before, -1))
        known = (keys >= 0) & (place >= 0)
        return np.where(known, self._packets[np.where(known, place, 0)], -1)
