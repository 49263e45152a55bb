"""Use of the congestion window: the limit, open, or cut by loss. Linux grows it only while used up
(tcp_is_cwnd_limited), so a constant or larger window has another limit; BBR's is always twice the flight."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from monitor.analysis.transfer.events import CUT, loss_starts
from monitor.analysis.transfer.record import IntervalSeries
from monitor.arrays import Bools, Floats

# Window over flight from which the window is no limit: ACKs and block writes change the flight by less.
OPEN = 1.25

# Window over flight below which they contradict, as where the window was larger within the interval.
OVERUSED = 0.67

# Writes of a megabyte make single seconds of a slow transfer uneven.
SMOOTHED_INTERVALS = 3

QUEUE_GROWTH = 0.5
# Correlation of RTT and window in a filling queue; on an idle path the RTT stays constant.
QUEUE_CORRELATION = 0.8


@dataclass(frozen=True, slots=True, kw_only=True)
class WindowUse:
    """Shares of the steady time; NaN is unknown."""

    over_flight_ratio: float  # median of the window over the bytes in flight; no share
    deviation_ratio: float  # of the window, over its mean; no share
    open_ratio: float  # window larger than the flight
    still_ratio: float  # window unchanged since the interval before
    after_cut_ratio: float  # after the first cut by a loss; 0 without
    cut_in_start: bool  # that loss ended slow start
    fills_queue: bool  # RTT and window grew in step at a steady rate
    fill_deviation_ratio: float  # of that rate
    filled_rtt_ms: float  # highest RTT of that growth


def window_use(series: IntervalSeries, steady: Bools, slow_start_end_s: float) -> WindowUse:
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        over_flight = series.cwnd_bytes / (_smoothed_bps(series) / 8.0 * series.rtt_ms / 1000.0)
        implied_bps = series.cwnd_bytes * 8000.0 / series.rtt_ms
    defined = steady & ~np.isnan(over_flight)
    cut_at = _first_cut(series, slow_start_end_s)
    after_cut = defined & (np.arange(defined.size) >= cut_at)
    implied_bps = implied_bps[defined & np.isfinite(implied_bps) & (implied_bps > 0.0)]
    return WindowUse(
        over_flight_ratio=float(np.median(over_flight[defined])) if defined.any() else float("nan"),
        deviation_ratio=_deviation(series.cwnd_bytes[defined]),
        open_ratio=_share(series, defined, over_flight >= OPEN),
        still_ratio=_share(series, defined, np.append([False], np.diff(series.cwnd_bytes) == 0.0)),
        after_cut_ratio=_share(series, defined, after_cut),
        cut_in_start=cut_at < defined.size and bool(series.start_s[cut_at] <= slow_start_end_s + 1e-6),
        fills_queue=_grows_in_step(series.cwnd_bytes[defined], series.rtt_ms[defined]),
        fill_deviation_ratio=_deviation(implied_bps),
        filled_rtt_ms=float(series.rtt_ms[defined].max()) if defined.any() else float("nan"),
    )


def _deviation(values: Floats) -> float:
    return float(values.std() / values.mean()) if values.size and values.mean() > 0.0 else float("nan")


def _smoothed_bps(series: IntervalSeries) -> Floats:
    kernel = np.ones(SMOOTHED_INTERVALS)
    moved, widths_s = (
        np.convolve(values, kernel, mode="full")[SMOOTHED_INTERVALS // 2 :][: values.size]
        for values in (series.delivered_bytes, series.width_s)
    )
    rates: Floats = moved * 8.0 / widths_s
    return rates


def _first_cut(series: IntervalSeries, slow_start_end_s: float) -> int:
    """First interval with a loss that cut the window; length if none."""
    for index in loss_starts(series):
        before = series.cwnd_bytes[max(0, index - 1)]
        least = np.fmin.reduce(series.cwnd_bytes[index : index + 2])
        # A window that doubled and halved within one interval hardly shows the cut at the interval's ends.
        ends_start = series.start_s[index] <= slow_start_end_s + 1e-6 and least < before
        if series.start_s[index] < slow_start_end_s - 1e-6 or ends_start or least < CUT * before:
            return index
    return int(series.start_s.size)


def _grows_in_step(windows_bytes: Floats, rtts_ms: Floats) -> bool:
    if windows_bytes.size < 4 or windows_bytes.min() <= 0.0 or rtts_ms.min() <= 0.0:
        return False
    windows, rtts = np.log(windows_bytes), np.log(rtts_ms)
    if rtts.std() < QUEUE_GROWTH * windows.std() or windows.std() <= 0.0:
        return False
    return bool(np.corrcoef(windows, rtts)[0, 1] >= QUEUE_CORRELATION)


def _share(series: IntervalSeries, defined: Bools, mask: Bools) -> float:
    whole_s = float(series.width_s[defined].sum())
    return float(series.width_s[defined & mask].sum()) / whole_s if whole_s > 0.0 else float("nan")
