"""End of a transfer's slow start, by its growth.

In: the `IntervalSeries` of a test. Out: seconds. A fixed time to leave out is too short on long paths and wasteful on
short ones: at 180 ms and 1 Gbit/s slow start was seen to take 5 to 6 s, so that a test needs 60 s for 90% of it to be
steady (Cottrell, "High performance WAN testbed experiences", 2003).
"""

from __future__ import annotations

import numpy as np

from monitor.analysis.transfer.record import Floats, IntervalSeries

STARTING_GROWTH = 1.25
"""In a round trip. Slow start doubles, or grows by half where acknowledgements are delayed (RFC 5681); its careful
end by a quarter (RFC 9406, section 4.2). Congestion avoidance stays below from windows of a few segments on."""

STEADY_SHARE = 0.9
"""Maximum share of slow start in a test; above it, the test is too short for the path."""


def start_seconds(series: IntervalSeries) -> float:
    """Seconds until window and rate no longer grow as in slow start, or until the first loss ends it.

    All of the test, where it was still growing at the end.
    """
    growing = _grows(series.cwnd_bytes, series)
    if not np.isnan(series.rtt_ms).all():
        # A window that only lengthens the RTT fills a queue: the rate has reached its limit.
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            growing &= _grows(series.cwnd_bytes / series.rtt_ms, series)
    if series.arrivals_known or np.isnan(series.cwnd_bytes).all():
        growing |= _grows(_smoothed_rate(series), series)
    ended = np.flatnonzero(~growing | (np.cumsum(series.retransmits) > 0))
    return float(series.end_s[ended[0]]) if ended.size else float(series.end_s[-1])


def wanted_seconds(start_s: float) -> float:
    """Test length at which the steady part after such a start is `STEADY_SHARE` of it."""
    return start_s / (1.0 - STEADY_SHARE)


def _grows(values: Floats, series: IntervalSeries) -> np.ndarray[tuple[int, ...], np.dtype[np.bool_]]:
    """Whether each value grows as in slow start within a round trip; growing too where the test ends before that."""
    later = _index_after(series)
    beyond = later >= values.size
    ahead = values[np.minimum(later, values.size - 1)]
    with np.errstate(invalid="ignore"):
        grows = ahead >= STARTING_GROWTH * values
    grows &= ~(np.isnan(values) | (ahead == 0.0))
    return grows | (beyond & ~np.isnan(values))


def _index_after(series: IntervalSeries) -> np.ndarray[tuple[int, ...], np.dtype[np.intp]]:
    """For each interval, index of the first that ends an RTT later; the number of intervals without any."""
    rtt_s = np.nan_to_num(series.rtt_ms, nan=0.0) / 1000.0
    wanted_s = series.end_s + np.maximum(rtt_s, series.width_s * 0.5)
    return np.searchsorted(series.end_s, wanted_s - 1e-6)


def _smoothed_rate(series: IntervalSeries) -> Floats:
    """The rate over the last RTT, and over at least an interval."""
    total = np.concatenate([[0.0], np.cumsum(series.delivered_bytes)])
    times_s = np.append(series.start_s[:1], series.end_s)
    from_s = np.maximum(series.end_s - np.maximum(series.base_rtt_s, series.width_s), times_s[0])
    rate: Floats = (total[1:] - np.interp(from_s, times_s, total)) / np.maximum(series.end_s - from_s, 1e-9)
    return rate
