"""Detects ICMP rate limiting: loss caused by our own request rate.

Two faster rounds must lose significantly more; at high loss, all slower requests must be answered.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

REQUESTS = 15
ROUNDS = 2
RATE_FACTOR = 20
SHORTEST_SPACING_S = 0.02
SIGNIFICANCE = 0.01
SLOWER_REQUESTS = 10
# Of the interval between two answered requests: a few of them show a limit's rate.
SLOWER_FACTOR = 1.5
LONGEST_SLOWER_SPACING_S = 2.0
LONGEST_SLOWDOWN = 10


class Answered(NamedTuple):
    """Requests to a target at a rate, and the number answered in time."""

    sent: int
    received: int

    @property
    def lost(self) -> int:
        return self.sent - self.received


def faster_spacing_s(spacing_s: float, min_spacing_s: float) -> float:
    """Seconds between the check's requests; at most the measurement's."""
    return min(spacing_s, max(spacing_s / RATE_FACTOR, min_spacing_s, SHORTEST_SPACING_S))


def longest_s(spacing_s: float, timeout_s: float, min_spacing_s: float = 0.0) -> float:
    faster_s = ROUNDS * (REQUESTS * faster_spacing_s(spacing_s, min_spacing_s) + timeout_s)
    slower_s = _longest_slower_spacing_s(spacing_s)
    return faster_s + (SLOWER_REQUESTS * slower_s + timeout_s if slower_s else 0.0)


def _longest_slower_spacing_s(spacing_s: float) -> float:
    """Longest interval between slower requests; 0 if too short for requests answered at half of their rate."""
    longest_s = min(LONGEST_SLOWER_SPACING_S, LONGEST_SLOWDOWN * spacing_s)
    return longest_s if longest_s >= 2 * SLOWER_FACTOR * spacing_s else 0.0


def slower_spacing_s(slow: Answered, spacing_s: float, min_spacing_s: float) -> float | None:
    """Seconds between slower requests that reveal a limit; None if useless."""
    if slow.received == 0 or _faster_rounds_tell(slow, spacing_s, min_spacing_s):
        return None
    slower_s = SLOWER_FACTOR * spacing_s * slow.sent / slow.received
    tells = loses_more(SLOWER_REQUESTS, 0, slow.sent, slow.lost)
    return slower_s if tells and slower_s <= _longest_slower_spacing_s(spacing_s) else None


def _faster_rounds_tell(slow: Answered, spacing_s: float, min_spacing_s: float) -> bool:
    """Whether a limit would show as significantly higher loss in faster rounds."""
    fast_s = REQUESTS * faster_spacing_s(spacing_s, min_spacing_s)
    answered = 1 + math.ceil(slow.received / (slow.sent * spacing_s) * fast_s)
    return loses_more(slow.sent, slow.lost, REQUESTS, max(0, REQUESTS - answered))


def is_limited(
    slow: Answered, fast: Sequence[Answered], slower: Answered | None, spacing_s: float, min_spacing_s: float
) -> bool | None:
    """Whether loss depends on our rate; None if unknown."""
    if all(loses_more(slow.sent, slow.lost, each.sent, each.lost) for each in fast):
        return True
    if _faster_rounds_tell(slow, spacing_s, min_spacing_s):
        return False
    if slower is None or not loses_more(slower.sent, 0, slow.sent, slow.lost):
        return None
    if not loses_more(slower.sent, slower.lost, slow.sent, slow.lost):
        return False
    # Without loss at the higher rate again, the path may have recovered, or a limit lets bursts pass.
    return True if all(loses_more(slower.sent, slower.lost, each.sent, each.lost) for each in fast) else None


def can_detect(spacing_s: float, min_spacing_s: float) -> bool:
    """Whether the check can at least double the rate."""
    return faster_spacing_s(spacing_s, min_spacing_s) <= spacing_s / 2


def max_targets(targets: int, spacing_s: float, min_spacing_s: float) -> int:
    """Maximum targets checked within the cycle's packet rate."""
    return max(1, int(targets * faster_spacing_s(spacing_s, min_spacing_s) / spacing_s))


def loses_more(slow_sent: int, slow_lost: int, fast_sent: int, fast_lost: int) -> bool:
    """Whether the higher rate loses significantly more.

    Fisher's exact test, one-sided: at least this many losses among the fast requests.
    """
    sent, lost = slow_sent + fast_sent, slow_lost + fast_lost
    if fast_sent == 0 or slow_sent == 0:
        return False
    tail = sum(
        math.comb(fast_sent, hit) * math.comb(slow_sent, lost - hit)
        for hit in range(fast_lost, min(fast_sent, lost) + 1)
    )
    return tail / math.comb(sent, lost) < SIGNIFICANCE
