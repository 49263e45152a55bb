"""Detect a policer where its bucket ran empty in slow start: it then drops for seconds, and lets its rate pass.

In: the `IntervalSeries` of a test. Out: a `TokenBucket`, or None.

With an RTT of 100 ms, a test of 10 s has a loss event or two after slow start, too few rates between losses to compare.
But slow start runs into the empty bucket at many times its rate, which no queue has slowed down; it loses a third of
all segments, retransmissions too, for dozens of RTTs. In this time the token rate passes. Two other causes differ: with
independent loss of that share the window would be a few segments (`monitor.analysis.tcp.models.reno_window`); a full
queue passes the rate of its link, so that nothing faster passed before. Neither repairs an overshoot for longer than a
few RTTs.
"""

from __future__ import annotations

import numpy as np

from monitor.analysis.tcp.models import reno_window
from monitor.analysis.transfer.record import Floats, IntervalSeries
from monitor.analysis.transfer.token_bucket import MOST_INTERVAL_S, TokenBucket, bytes_above

GAP_S, GAP_RTTS = 0.3, 3.0
"""Maximum time without retransmissions while the bucket is empty: a lost retransmission takes a timeout."""

DROPPING_S, DROPPING_RTTS = 1.0, 10.0
"""Minimum length of the time in which it drops: the overshoot of a queue was repaired in 3 to 6 RTTs in the lab, that
of a policer in 17 to 48."""

DROPPED = 0.15
"""Minimum share of the segments retransmitted in this time; 0.36 to 0.48 in the lab."""

BURST = 1.5
"""Minimum rate before it dropped, over the rate while it did; 2.7 to 3.4 in the lab, at most 1 before a queue's drops
in slow start."""

BURST_S, BURST_RTTS = 0.3, 3.0
"""Time over which the rate before is taken: arrivals come in bursts of an RTT."""

DEVIATION = 0.25
"""Maximum deviation of the rates in the thirds of this time over their mean; 0.02 to 0.24 in the lab."""

BEYOND_LOSS = 4.0
"""Minimum window in this time, over that which independent loss of the same share permits; 10 to 50 in the lab."""


def fit_drained_bucket(series: IntervalSeries, mss_bytes: int) -> TokenBucket | None:
    """The policer that dropped for seconds after a burst; None without one, or where arrivals are unknown."""
    if not series.arrivals_known or np.median(series.width_s) > MOST_INTERVAL_S:
        return None
    spell = _longest_spell(series)
    if spell is None:
        return None
    first, last = spell
    dropping_s = float(series.end_s[last] - series.start_s[first])
    rtt_s = series.base_rtt_s
    if dropping_s < max(DROPPING_S, DROPPING_RTTS * rtt_s):
        return None
    times_s = np.append(series.start_s, series.end_s[-1])
    until = np.concatenate([[0.0], np.cumsum(series.delivered_bytes)])
    passed_bytes = float(until[last + 1] - until[first])
    # The first drop was an RTT before the first retransmission; what passed since is delivered when its hole is filled.
    rate = passed_bytes / (dropping_s + rtt_s)
    resent = float(series.retransmits[first : last + 1].sum())
    dropped_ratio = resent / (resent + passed_bytes / mss_bytes)
    deviation_ratio = _deviation_of_thirds(times_s, until, first, last)
    is_policer = (
        dropped_ratio >= DROPPED
        and rate * rtt_s / mss_bytes >= BEYOND_LOSS * float(reno_window(dropped_ratio))
        and _fastest(times_s, until, first, max(BURST_S, BURST_RTTS * rtt_s)) >= BURST * rate
        and deviation_ratio <= DEVIATION
    )
    if not is_policer:
        return None
    return TokenBucket(
        rate_bps=8.0 * rate,
        depth_bytes=bytes_above(series.start_s, until, first, rate),
        deviation_ratio=deviation_ratio,
        dropping_s=dropping_s,
        dropped_ratio=dropped_ratio,
    )


def _longest_spell(series: IntervalSeries) -> tuple[int, int] | None:
    """First and last interval of the longest time with retransmissions throughout."""
    lossy = np.flatnonzero(series.lossy)
    if not lossy.size:
        return None
    gap_s = max(GAP_S, GAP_RTTS * series.base_rtt_s)
    ends = np.flatnonzero(series.start_s[lossy[1:]] - series.end_s[lossy[:-1]] > gap_s)
    firsts, lasts = lossy[np.append(0, ends + 1)], lossy[np.append(ends, lossy.size - 1)]
    longest = int(np.argmax(series.end_s[lasts] - series.start_s[firsts]))
    return int(firsts[longest]), int(lasts[longest])


def _deviation_of_thirds(times_s: Floats, until: Floats, first: int, last: int) -> float:
    edges_s = np.linspace(times_s[first], times_s[last + 1], 4)
    thirds = np.diff(np.interp(edges_s, times_s, until))
    return float(thirds.std() / thirds.mean()) if thirds.mean() > 0.0 else float("inf")


def _fastest(times_s: Floats, until: Floats, first: int, width_s: float) -> float:
    """The maximum of bytes a second over this width, up to an interval; 0 where it begins earlier."""
    ends_s = times_s[1 : first + 1]
    ends_s = ends_s[ends_s - width_s >= times_s[0] - 1e-9]
    if not ends_s.size:
        return 0.0
    moved = np.interp(ends_s, times_s, until) - np.interp(ends_s - width_s, times_s, until)
    return float(moved.max() / width_s)
