"""Maps the kernel's send timestamp keys (OPT_ID) to packets.

A packet without a route uses no key; after other failures, which depend on the kernel, keys are restarted.
"""

from __future__ import annotations

import numpy as np

from probes.packets.arrays import Int64s


class StampKeys:
    """The packets sent, in order, and the position of the last key restart."""

    def __init__(self, total: int) -> None:
        # As if all are sent: only those after a refused packet are entered again.
        self._packets: Int64s = np.arange(total)
        self._count = 0
        self._start = 0
        self._start_before = 0

    def sent(self, first: int, stop: int) -> None:
        following = self._count + stop - first
        if first != self._count:
            self._packets[self._count : following] = np.arange(first, stop)
        self._count = following

    def restart(self) -> None:
        if self._start != self._count:
            self._start_before, self._start = self._start, self._count

    def packets(self, keys: Int64s) -> Int64s:
        """The packet of each key; -1 without a packet."""
        recent = self._start + keys
        before = self._start_before + keys
        place = np.where(recent < self._count, recent, np.where(before < self._start, before, -1))
        valid = (keys >= 0) & (place >= 0)
        return np.where(valid, self._packets[np.where(valid, place, 0)], -1)
