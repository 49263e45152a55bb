"""Detect a policer by the losses of a transfer: its rate and the depth of its bucket.

Between losses the bucket goes from empty to empty, so the bytes that pass are its rate times the time (Flach and
others, "An internet-wide analysis of traffic policing" (2016)).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from monitor.analysis.tcp.models import reno_window
from monitor.analysis.transfer.record import IntervalSeries
from monitor.arrays import Floats

# In intervals of seconds a loss has no place, and writes of a megabyte make rates equal.
MOST_INTERVAL_S = 0.25

# Minimum agreeing rates between losses, two by chance; without the first span, which delivers bytes received earlier.
LEAST_SPANS = 3

SPAN_S = 0.5
# Minimum length of a span between two losses: repaired bytes are delivered at once, later than they arrived.
SPAN_RTTS = 10.0

# Maximum deviation over mean of the rates between losses, weighted by time; 0.01 to 0.04 in the lab.
MOST_DEVIATION = 0.1

# Minimum segments of the median loss event. Independent losses rarely hit two segments of the same window.
LEAST_GROUP = 3.0

# Maximum time without retransmissions while the bucket is empty: a lost retransmission takes a timeout.
GAP_S, GAP_RTTS = 0.3, 3.0

# Minimum time of dropping; in the lab a queue's overshoot took 3 to 6 RTTs, a policer's 17 to 48.
DROPPING_S, DROPPING_RTTS = 1.0, 10.0

# Minimum share of the segments retransmitted in this time; 0.36 to 0.48 in the lab.
DROPPED = 0.15

# Minimum rate before it dropped over the rate while dropping; lab: 2.7 to 3.4, queues at most 1.
BURST = 1.5

# Time over which the rate before is taken: arrivals come in bursts of an RTT.
BURST_S, BURST_RTTS = 0.3, 3.0

# Maximum deviation over mean of the rates in this time's thirds; 0.02 to 0.24 in the lab.
DEVIATION = 0.25

# Minimum window in this time over the window at equal independent loss; 10 to 50 in the lab.
BEYOND_LOSS = 4.0


@dataclass(frozen=True, slots=True)
class TokenBucket:
    """A policer, in bytes of payload."""

    rate_bps: float
    depth_bytes: float | None  # None (shallow) if nothing passed above the rate before
    deviation_ratio: float  # of the rates between losses
    dropping_s: float | None = None  # uninterrupted, if shown by that; else None
    dropped_ratio: float | None = None  # retransmitted share in dropping_s


def fit_token_bucket(
    start_s: Floats, arrived_bytes: Floats, loss_at: list[int], group: float, rtt_s: float
) -> TokenBucket | None:
    """The policer that these losses show; None where irregular, single, or too few.

    `start_s` and `arrived_bytes` are by interval, `loss_at` the starts of loss events, `group` the median event's
    segments per stream.
    """
    if not group >= LEAST_GROUP or start_s.size < 2 or np.median(np.diff(start_s)) > MOST_INTERVAL_S:
        return None
    spans = _spans(start_s, loss_at, max(SPAN_S, SPAN_RTTS * rtt_s))[1:]
    if len(spans) < LEAST_SPANS + 1:
        return None
    until = np.concatenate([[0.0], np.cumsum(arrived_bytes)])
    lengths_s, passed_bytes = np.diff(start_s[spans]), np.diff(until[spans])
    rate = passed_bytes.sum() / lengths_s.sum()
    if rate <= 0.0:
        return None
    variance = (lengths_s * (passed_bytes / lengths_s - rate) ** 2).sum() / lengths_s.sum()
    deviation_ratio = float(np.sqrt(variance) / rate)
    if deviation_ratio > MOST_DEVIATION:
        return None
    depth_bytes = bytes_above(start_s, until, loss_at[0], rate)
    return TokenBucket(float(8.0 * rate), depth_bytes if depth_bytes > 0.0 else None, deviation_ratio)


def _spans(start_s: Floats, loss_at: list[int], least_s: float) -> list[int]:
    bounds = loss_at[:1]
    for index in loss_at[1:]:
        if start_s[index] - start_s[bounds[-1]] >= least_s:
            bounds.append(index)
    return bounds


def bytes_above(start_s: Floats, until: Floats, first_loss: int, rate: float) -> float:
    """Maximum of the bytes above the rate, over any period that ends before the first loss."""
    above = until[: first_loss + 1] - rate * (start_s[: first_loss + 1] - start_s[0])
    return float((above - np.minimum.accumulate(above)).max())


def fit_drained_bucket(series: IntervalSeries, mss_bytes: int) -> TokenBucket | None:
    """The policer that dropped for seconds after a burst; None without, or with unknown arrivals."""
    if not series.arrivals_known or np.median(series.width_s) > MOST_INTERVAL_S:
        return None
    spell = _longest_spell(series)
    if spell is None:
        return None
    first, last = spell
    dropping_s = float(series.end_s[last] - series.start_s[first])
    rtt_s = series.base_rtt_s
    # The repair of an overshoot takes a few RTTs at most.
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
    # Independent loss of this share would leave a window of a few segments; a full queue passes nothing faster than its
    # link.
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
    """Maximum bytes/s over this width, up to an interval."""
    ends_s = times_s[1 : first + 1]
    ends_s = ends_s[ends_s - width_s >= times_s[0] - 1e-9]
    if not ends_s.size:
        return 0.0
    moved = np.interp(ends_s, times_s, until) - np.interp(ends_s - width_s, times_s, until)
    return float(moved.max() / width_s)
