"""When an even cycle begins to send: a little after its due time, so that the spacing between cycles stays even."""

from __future__ import annotations

import time

LONGEST_LEAD_S = 4.0
LEAD_RATIO = 0.2
"""An even cycle sends from this long after its due time on, at most this share of its period: the time until it is
taken up varies, and must not disturb the spacing from cycle to cycle."""


def period_s(packets: int, spacing_s: float) -> int:
    """The period of an even cycle, which its packets to a target fill."""
    return max(1, round(packets * spacing_s))


def lead_s(period_s: int) -> float:
    """The time from the due time of a cycle of this period to the time from which it sends."""
    return min(LONGEST_LEAD_S, LEAD_RATIO * period_s)


def await_begin(period_s: int) -> None:
    """Sleep until the cycle of this period that is due begins to send."""
    since_due_s = time.time() % period_s
    time.sleep(max(0.0, lead_s(period_s) - since_due_s))
