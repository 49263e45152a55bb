"""End of a transfer's slow start, by its growth. A fixed time is too short on long paths: at 180 ms and 1 Gbit/s it
took 5 to 6 s (Cottrell, "High performance WAN testbed experiences", 2003)."""

from __future__ import annotations

import numpy as np

from monitor.analysis.transfer.record import IntervalSeries
from monitor.arrays import Floats

# In an RTT: slow start doubles, or grows by half (RFC 5681), at its end by a quarter (RFC 9406, section 4.2).
STARTING_GROWTH = 1.25

# Maximum share of slow start in a test; above it, the test is too short for the path.
STEADY_SHARE = 0.9


def start_seconds(series: IntervalSeries) -> float:
    """Seconds until window and rate stop growing as in slow start, or the first loss ends it; the whole test if still
    growing."""
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
    """Test length with a steady part of `STEADY_SHARE` after such a start."""
    # At 180 ms and 1 Gbit/s, a test needs 60 s.
    return start_s / (1.0 - STEADY_SHARE)


def _grows(values: Floats, series: IntervalSeries) -> np.ndarray[tuple[int, ...], np.dtype[np.bool_]]:
    """Whether each value grows as in slow start within an RTT, or the test ends before."""
    later = _index_after(series)
    beyond = later >= values.size
    ahead = values[np.minimum(later, values.size - 1)]
    with np.errstate(invalid="ignore"):
        grows = ahead >= STARTING_GROWTH * values
    grows &= ~(np.isnan(values) | (ahead == 0.0))
    return grows | (beyond & ~np.isnan(values))


def _index_after(series: IntervalSeries) -> np.ndarray[tuple[int, ...], np.dtype[np.intp]]:
    """Index of the first interval an RTT later; the length if none."""
    rtt_s = np.nan_to_num(series.rtt_ms, nan=0.0) / 1000.0
    wanted_s = series.end_s + np.maximum(rtt_s, series.width_s * 0.5)
    return np.searchsorted(series.end_s, wanted_s - 1e-6)


def _smoothed_rate(series: IntervalSeries) -> Floats:
    total = np.concatenate([[0.0], np.cumsum(series.delivered_bytes)])
    times_s = np.append(series.start_s[:1], series.end_s)
    from_s = np.maximum(series.end_s - np.maximum(series.base_rtt_s, series.width_s), times_s[0])
    rate: Floats = (total[1:] - np.interp(from_s, times_s, total)) / np.maximum(series.end_s - from_s, 1e-9)
    return rate
