"""Find lasting steps of a path's minimum RTT, which suggest another route. Pure."""

from __future__ import annotations

import statistics
from array import array
from collections.abc import Iterable, Sequence

from probes.site.spool.blocks import BurstReplies

BASELINE_BURSTS = 12
FEWEST_BURSTS = 6
STEP_BURSTS = 2
FEWEST_REPLIES = 3
LEAST_STEP_MS = 1.0
LEAST_STEP_RATIO = 0.03
# A step exceeds each of these; the spread is the baseline's interquartile range.
LEAST_STEP_SPREADS = 4.0


class RttSteps:
    """The minimum RTTs of the last bursts, by path and packet size."""

    def __init__(self) -> None:
        # A deque takes 600 bytes however little is in it, and there are thousands.
        self._minima_ms: dict[tuple[int, int], array[float]] = {}

    def paths(self, bursts: Iterable[BurstReplies]) -> list[int]:
        stepped = []
        for burst in bursts:
            if burst.is_under_load or burst.shortest_ms is None or burst.received < FEWEST_REPLIES:
                continue
            key = burst.path_id, burst.packet_bytes
            minima_ms = self._minima_ms.setdefault(key, array("d"))
            minima_ms.append(burst.shortest_ms)
            del minima_ms[: -BASELINE_BURSTS - STEP_BURSTS]
            if _has_step(minima_ms):
                # The bursts after the step are the next baseline.
                del minima_ms[:-STEP_BURSTS]
                stepped.append(burst.path_id)
        return list(dict.fromkeys(stepped))


def _has_step(minima_ms: Sequence[float]) -> bool:
    before, after = minima_ms[:-STEP_BURSTS], minima_ms[-STEP_BURSTS:]
    if len(before) < FEWEST_BURSTS or max(minima_ms) - min(minima_ms) <= LEAST_STEP_MS:
        return False
    quartiles = statistics.quantiles(before, n=4)
    least_ms = max(LEAST_STEP_MS, LEAST_STEP_RATIO * quartiles[1], LEAST_STEP_SPREADS * (quartiles[2] - quartiles[0]))
    steps_ms = [value - quartiles[1] for value in after]
    return min(steps_ms) > least_ms or max(steps_ms) < -least_ms
