"""Whether load balancing changes the RTT of a path: RTTs to its destination, by flow. Pure.

The flows are probed in turn within the same seconds, so that queues meet all alike. They differ if a Kruskal-Wallis
test says so (Kruskal and Wallis, JASA 47, 1952) and the medians are further apart than `LEAST_MS` and `LEAST_RATIO`.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

FEWEST_REPLIES = 3
LEAST_MS = 0.2
LEAST_RATIO = 0.01
NORMAL_QUANTILE = 3.09
"""Of 0.999: a path has a false difference in a thousand days."""


@dataclass(frozen=True, slots=True)
class FlowEffect:
    """The lowest and highest median RTT of `flows` flows, and whether they differ for certain."""

    flows: int
    lowest_ms: float
    highest_ms: float
    is_certain: bool

    @property
    def text(self) -> str:
        """A phrase for people."""
        verdict = "differs" if self.is_certain else "does not differ"
        return f"RTT {verdict} by flow: median {self.lowest_ms:.2f} to {self.highest_ms:.2f} ms, {self.flows} flows"


def effect_of(rtts_ms: Sequence[Sequence[float | None]]) -> FlowEffect | None:
    """The effect, from the RTTs of each flow, None where lost; None with less than two flows of `FEWEST_REPLIES`."""
    replies = [[rtt_ms for rtt_ms in of_flow if rtt_ms is not None] for of_flow in rtts_ms]
    replies = [of_flow for of_flow in replies if len(of_flow) >= FEWEST_REPLIES]
    if len(replies) < 2:
        return None
    medians_ms = [statistics.median(of_flow) for of_flow in replies]
    lowest_ms, highest_ms = min(medians_ms), max(medians_ms)
    is_far = highest_ms - lowest_ms > max(LEAST_MS, LEAST_RATIO * lowest_ms)
    return FlowEffect(len(replies), lowest_ms, highest_ms, is_far and _rank_test(replies) > _critical(len(replies) - 1))


def _rank_test(groups: Sequence[Sequence[float]]) -> float:
    """H of Kruskal and Wallis, ties by their mean rank, without the correction for them, which would raise it."""
    ordered = sorted(value for group in groups for value in group)
    first = {value: place for place, value in reversed(list(enumerate(ordered, 1)))}
    last = {value: place for place, value in enumerate(ordered, 1)}
    count = len(ordered)
    squares = sum(sum((first[value] + last[value]) / 2 for value in group) ** 2 / len(group) for group in groups)
    return 12 / (count * (count + 1)) * squares - 3 * (count + 1)


def _critical(freedom: int) -> float:
    """The quantile of chi-squared (Wilson and Hilferty, PNAS 17, 1931)."""
    part = 2 / (9 * freedom)
    return float(freedom * (1 - part + NORMAL_QUANTILE * math.sqrt(part)) ** 3)
