"""When an even cycle begins to send: a little after its due time."""

from __future__ import annotations

import time

LONGEST_LEAD_S = 4.0
# Maximum share of the period between due time and sending, so that varying start times do not disturb the spacing.
LEAD_RATIO = 0.2


def period_s(packets: int, spacing_s: float) -> int:
    """Period that the packets to a target fill."""
    return max(1, round(packets * spacing_s))


def lead_s(period_s: int) -> float:
    """Seconds from a cycle's due time until it sends."""
    return min(LONGEST_LEAD_S, LEAD_RATIO * period_s)


def await_begin(period_s: int) -> None:
    since_due_s = time.time() % period_s
    time.sleep(max(0.0, lead_s(period_s) - since_due_s))
