"""Detect a policer by the losses of a transfer: its rate and the depth of its bucket.

In: bytes that arrived and loss events, by interval. Out: a `TokenBucket`, or None. Short tests of long paths
have too few loss events for this: `monitor.analysis.transfer.drained_bucket` looks at their start.

A policer drops when its bucket is empty. Between losses the bucket goes from empty to empty, so that the passing bytes
are its rate times the time, at any rate of the sender; and it goes on dropping until the sender slows down, so that a
loss event has several segments. Independent losses have a single segment, at any rate. A full queue behaves alike, but
raises the RTT before it drops: the caller checks that. The bytes above the rate until the first loss are the depth, as
the bucket is full at the start. Flach and others, "An internet-wide analysis of traffic
policing" (2016), judge by the bucket's level at losses in the same way, packet by packet.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from monitor.analysis.transfer.record import Floats

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
    the segments of the median event.
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
