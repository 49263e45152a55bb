"""Send times of a cycle's packets, spread over the spacing without catch-up bursts.

Packet p is the (p // targets)-th of the target of rank p % targets. Times are monotonic.
"""

from __future__ import annotations

import bisect

import numpy as np
import numpy.typing as npt

from probes.packets.engine.randomness import Uniform

# A delay up to this is caught up, if the spacing is long.
LATE_NS = 20_000_000

# Maximum time that a packet waits for its batch to fill.
LONGEST_WAIT_NS = 50_000_000


class Schedule:
    """The send times: `turns` packets per target, `spacing_ns` apart, from `start_ns` on."""

    def __init__(self, start_ns: int, phases_ns: npt.NDArray[np.int64], turns: int, spacing_ns: int) -> None:
        """`phases_ns` are ascending, each in [0, spacing_ns)."""
        self.targets = len(phases_ns)
        self.total = self.targets * turns
        # Both together leave at least a quarter of the spacing between packets to a target.
        self.longest_wait_ns = min(LONGEST_WAIT_NS, spacing_ns // 2)
        self.late_ns = min(LATE_NS, spacing_ns // 4)
        self._start_ns = start_ns
        self._phases_ns: list[int] = phases_ns.tolist()
        self._spacing_ns = spacing_ns

    def due_at_ns(self, packet: int) -> int:
        turn, rank = divmod(packet, self.targets)
        return self._start_ns + turn * self._spacing_ns + self._phases_ns[rank]

    def due(self, now_ns: int) -> int:
        """First packet that is not due yet."""
        elapsed_ns = now_ns - self._start_ns
        if elapsed_ns < 0:
            return 0
        if self._spacing_ns == 0:
            return self.total
        turn, within_ns = divmod(elapsed_ns, self._spacing_ns)
        ranks = bisect.bisect_right(self._phases_ns, within_ns)
        return min(turn * self.targets + ranks, self.total)

    def postpone(self, packet: int, now_ns: int, *, planned_wait_ns: int = 0) -> None:
        """Postpone this and later packets if more than `late_ns` late, without `planned_wait_ns`."""
        late_ns = now_ns - self.due_at_ns(packet) - planned_wait_ns
        if late_ns > self.late_ns:
            self._start_ns += late_ns


def random_phases_ns(targets: int, spacing_ns: int, random: Uniform) -> npt.NDArray[np.int64]:
    """Draw a phase for each rank in its part of the spacing."""
    parts = (np.arange(targets) + random.random(targets)) / targets
    return (parts * spacing_ns).astype(np.int64)
