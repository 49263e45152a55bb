"""Finds steps of the RTT: a path whose minimum RTT has changed for good is likely to have another route.

In: the bursts of each cycle. Out: the paths with a step. The minimum of a burst leaves queues out, and a single unusual
burst is no step. Pure.
"""

from __future__ import annotations

import statistics
from collections import deque
from collections.abc import Iterable

from probes.ping.spec import Burst
from probes.site.wire import Delivered

BASELINE_BURSTS = 12
FEWEST_BURSTS = 6
STEP_BURSTS = 2
FEWEST_REPLIES = 3
LEAST_STEP_MS = 1.0
LEAST_STEP_RATIO = 0.03
LEAST_STEP_SPREADS = 4.0
"""A step is larger than each of these; the spread is the interquartile range of the baseline."""


class RttSteps:
    """The minimum RTTs of the last bursts, by path and packet size."""

    def __init__(self) -> None:
        self._minima_ms: dict[tuple[int, int], deque[float]] = {}

    def paths(self, delivered: Iterable[Delivered]) -> list[int]:
        """Enter bursts. Returns the paths whose RTT has changed, once for each step."""
        stepped = []
        for each in delivered:
            burst = each.result
            if not isinstance(burst, Burst) or burst.is_under_load:
                continue
            rtts_ms = [rtt_ms for rtt_ms in burst.rtts_ms if rtt_ms is not None]
            if len(rtts_ms) < FEWEST_REPLIES:
                continue
            key = each.path_id, burst.packet_bytes
            minima_ms = self._minima_ms.setdefault(key, deque(maxlen=BASELINE_BURSTS + STEP_BURSTS))
            minima_ms.append(min(rtts_ms))
            if _has_step(list(minima_ms)):
                # The bursts after the step are the next baseline.
                self._minima_ms[key] = deque(list(minima_ms)[-STEP_BURSTS:], BASELINE_BURSTS + STEP_BURSTS)
                stepped.append(each.path_id)
        return list(dict.fromkeys(stepped))


def _has_step(minima_ms: list[float]) -> bool:
    """Whether the last values are all above, or all below the ones before, by more than their spread."""
    before, after = minima_ms[:-STEP_BURSTS], minima_ms[-STEP_BURSTS:]
    if len(before) < FEWEST_BURSTS:
        return False
    quartiles = statistics.quantiles(before, n=4)
    least_ms = max(LEAST_STEP_MS, LEAST_STEP_RATIO * quartiles[1], LEAST_STEP_SPREADS * (quartiles[2] - quartiles[0]))
    steps_ms = [value - quartiles[1] for value in after]
    return min(steps_ms) > least_ms or max(steps_ms) < -least_ms
