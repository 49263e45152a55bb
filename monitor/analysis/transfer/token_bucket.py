"""Detect a policer by the losses of a transfer: its rate and the depth of its bucket.

In: the `IntervalSeries` of a test and its loss events. Out: a `TokenBucket`, or None.

A policer drops when its bucket is empty. Between losses the bucket goes from empty to empty, so that the passing bytes
are its rate times the time, at any rate of the sender; and it goes on dropping until the sender slows down, so that a
loss event has several segments. Independent losses have a single segment, at any rate. A full queue behaves alike, but
raises the RTT before it drops: the caller checks that. The bytes above the rate until the first loss are the depth, as
the bucket is full at the start. Flach and others, "An internet-wide analysis of traffic
policing" (2016), judge by the bucket's level at losses in the same way, packet by packet.

With an RTT of 100 ms, a test of 10 s has a loss event or two after slow start, too few rates between losses to compare.
But slow start runs into the empty bucket at many times its rate, which no queue has slowed down; it loses a third of
all segments, retransmissions too, for dozens of RTTs. In this time the token rate passes. Two other causes differ: with
independent loss of that share the window would be a few segments (`monitor.analysis.tcp.models.reno_window`); a full
queue passes the rate of its link, so that nothing faster passed before. Neither repairs an overshoot for longer than a
few RTTs.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from monitor.analysis.tcp.models import reno_window
from monitor.analysis.transfer.record import Floats, IntervalSeries

MOST_INTERVAL_S = 0.25
"""Maximum length of the intervals: with seconds, a loss has no place, and writes of a megabyte make rates equal."""

LEAST_SPANS = 3
"""Minimum number of rates between losses that agree: two can do so by chance. The span after the first loss does not
count: bytes received before that loss are delivered in it, when the hole is repaired."""

SPAN_S = 0.5
SPAN_RTTS = 10.0
"""Minimum length of a span between two losses: repaired bytes are delivered at once, later than they arrived."""

MOST_DEVIATION = 0.1
"""Maximum deviation of the rates between losses over their mean, weighted by time; 0.01 to 0.04 in the lab."""

LEAST_GROUP = 3.0
"""Minimum segments of the median loss event. Independent losses rarely hit two segments of the same window."""

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


@dataclass(frozen=True, slots=True)
class TokenBucket:
    """A policer, in bytes of payload. `deviation_ratio` is that of the rates between losses; 0 for a perfect policer.

    `depth_bytes` is None where nothing passed above the rate before the first loss: then the bucket is shallow.
    `dropping_s` is the time in which it dropped without a break, where that shows it and not the rates between losses;
    `dropped_ratio` the share of the segments retransmitted in that time.
    """

    rate_bps: float
    depth_bytes: float | None
    deviation_ratio: float
    dropping_s: float | None = None
    dropped_ratio: float | None = None


def fit_token_bucket(
    start_s: Floats, arrived_bytes: Floats, loss_at: list[int], group: float, rtt_s: float
) -> TokenBucket | None:
    """The policer that these losses show; None where they are not regular enough, not in groups, or too few.

    `start_s` and `arrived_bytes` are of each interval, `loss_at` the intervals in which a loss event begins, `group`
    the segments of the median event in each stream.
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
    """The loss events at which spans begin and end, each at least `least_s` long."""
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
