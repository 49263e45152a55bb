"""When each packet of a cycle goes out: spread over the spacing, and never bunched to catch up.

Packets are numbered in the order of sending: packet p is the (p // targets)-th of the target of rank p % targets.
Each target has a random phase within the spacing; the targets are ranked by it, so times rise with the numbers.
When the sender wakes later than it meant to by more than `late_ns`, everything that is left moves back by as much.
Times are monotonic.
"""

from __future__ import annotations

import bisect

import numpy as np
import numpy.typing as npt

LATE_NS = 20_000_000
"""A lateness that is caught up, where the spacing is long."""

LONGEST_WAIT_NS = 50_000_000
"""No packet waits longer for others, to go out with them."""


class Schedule:
    """The packets of one cycle: `turns` for each target, one every `spacing_ns`, from `start_ns` on."""

    def __init__(self, start_ns: int, phases_ns: npt.NDArray[np.int64], turns: int, spacing_ns: int) -> None:
        """`phases_ns` rise, and lie in [0, spacing_ns)."""
        self.targets = len(phases_ns)
        self.total = self.targets * turns
        # The two together leave a quarter of the spacing between a target's packets.
        self.longest_wait_ns = min(LONGEST_WAIT_NS, spacing_ns // 2)
        self.late_ns = min(LATE_NS, spacing_ns // 4)
        self._start_ns = start_ns
        self._phases_ns: list[int] = phases_ns.tolist()
        self._spacing_ns = spacing_ns

    def due_at_ns(self, packet: int) -> int:
        """When `packet` is to be sent."""
        turn, rank = divmod(packet, self.targets)
        return self._start_ns + turn * self._spacing_ns + self._phases_ns[rank]

    def due(self, now_ns: int) -> int:
        """The number of the first packet that is not due yet."""
        elapsed_ns = now_ns - self._start_ns
        if elapsed_ns < 0:
            return 0
        if self._spacing_ns == 0:
            return self.total
        turn, within_ns = divmod(elapsed_ns, self._spacing_ns)
        ranks = bisect.bisect_right(self._phases_ns, within_ns)
        return min(turn * self.targets + ranks, self.total)

    def postpone(self, packet: int, now_ns: int, *, meant_ns: int = 0) -> None:
        """Move `packet` and all after it back, if it is later than `late_ns` by now.

        `meant_ns` is how long it was meant to wait for others, to go out with them.
        """
        late_ns = now_ns - self.due_at_ns(packet) - meant_ns
        if late_ns > self.late_ns:
            self._start_ns += late_ns


def random_phases_ns(targets: int, spacing_ns: int, random: np.random.Generator) -> npt.NDArray[np.int64]:
    """A phase for each rank: one at random in each of `targets` equal parts of the spacing."""
    parts = (np.arange(targets) + random.random(targets)) / targets
    return (parts * spacing_ns).astype(np.int64)
