"""Is a loss our own doing? A target, or a router before it, may answer only so many echo requests a second.

A target that lost some requests at the usual rate is sent more at a higher one, twice, with a pause between. Where
both times clearly more is lost, the loss depends on our rate: it says little of the path.
"""

from __future__ import annotations

import math

REQUESTS = 15
ROUNDS = 2
RATE_FACTOR = 20
SHORTEST_SPACING_S = 0.02
SIGNIFICANCE = 0.01


def faster_spacing_s(spacing_s: float, min_spacing_s: float) -> float:
    """Seconds between two requests of the check to one address. Never slower than the measurement."""
    return min(spacing_s, max(spacing_s / RATE_FACTOR, min_spacing_s, SHORTEST_SPACING_S))


def longest_s(spacing_s: float, timeout_s: float, min_spacing_s: float = 0.0) -> float:
    """How long the check takes at most."""
    return ROUNDS * (REQUESTS * faster_spacing_s(spacing_s, min_spacing_s) + timeout_s)


def can_detect(spacing_s: float, min_spacing_s: float) -> bool:
    """Whether the check is any faster than the measurement: at least twice."""
    return faster_spacing_s(spacing_s, min_spacing_s) <= spacing_s / 2


def max_targets(targets: int, spacing_s: float, min_spacing_s: float) -> int:
    """How many targets are checked together, so that no more packets a second leave than in the cycle itself."""
    return max(1, int(targets * faster_spacing_s(spacing_s, min_spacing_s) / spacing_s))


def loses_more(slow_sent: int, slow_lost: int, fast_sent: int, fast_lost: int) -> bool:
    """Whether the loss at the higher rate is significantly above that at the lower one.

    Fisher's exact test, one-sided: the probability that of all that were lost so many fall on the fast requests.
    """
    sent, lost = slow_sent + fast_sent, slow_lost + fast_lost
    if fast_sent == 0 or slow_sent == 0:
        return False
    tail = sum(
        math.comb(fast_sent, hit) * math.comb(slow_sent, lost - hit)
        for hit in range(fast_lost, min(fast_sent, lost) + 1)
    )
    return tail / math.comb(sent, lost) < SIGNIFICANCE
