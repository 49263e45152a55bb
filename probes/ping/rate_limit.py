"""Detects ICMP rate limiting: loss caused by our own request rate, at a target or a router on the path.

A target with partial loss is sent more requests at a higher rate, twice, with a pause between. If loss is significantly
higher both times, it depends on our rate and says little about the path.
"""

from __future__ import annotations

import math

REQUESTS = 15
ROUNDS = 2
RATE_FACTOR = 20
SHORTEST_SPACING_S = 0.02
SIGNIFICANCE = 0.01


def faster_spacing_s(spacing_s: float, min_spacing_s: float) -> float:
    """Seconds between requests of the check to an address; at most the spacing of the measurement."""
    return min(spacing_s, max(spacing_s / RATE_FACTOR, min_spacing_s, SHORTEST_SPACING_S))


def longest_s(spacing_s: float, timeout_s: float, min_spacing_s: float = 0.0) -> float:
    """Maximum duration of the check."""
    return ROUNDS * (REQUESTS * faster_spacing_s(spacing_s, min_spacing_s) + timeout_s)


def can_detect(spacing_s: float, min_spacing_s: float) -> bool:
    """Whether the check can run at twice the rate of the measurement or more."""
    return faster_spacing_s(spacing_s, min_spacing_s) <= spacing_s / 2


def max_targets(targets: int, spacing_s: float, min_spacing_s: float) -> int:
    """Maximum number of targets to check at once, so that the total packet rate does not exceed the cycle's."""
    return max(1, int(targets * faster_spacing_s(spacing_s, min_spacing_s) / spacing_s))


def loses_more(slow_sent: int, slow_lost: int, fast_sent: int, fast_lost: int) -> bool:
    """Whether loss at the higher rate is significantly above loss at the lower rate.

    Fisher's exact test, one-sided: the probability of at least this many losses among the fast requests.
    """
    sent, lost = slow_sent + fast_sent, slow_lost + fast_lost
    if fast_sent == 0 or slow_sent == 0:
        return False
    tail = sum(
        math.comb(fast_sent, hit) * math.comb(slow_sent, lost - hit)
        for hit in range(fast_lost, min(fast_sent, lost) + 1)
    )
    return tail / math.comb(sent, lost) < SIGNIFICANCE
