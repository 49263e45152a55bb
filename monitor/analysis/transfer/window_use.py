"""Use of the congestion window: whether it bound the transfer, stood open, or was cut by loss.

In: the `IntervalSeries` of a test, its steady intervals. Out: `WindowUse`.

Linux grows the congestion window only while it is used up, in slow start to at most twice the bytes in flight
(tcp_is_cwnd_limited). A window that stands still, or that is larger than the flight, thus shows that something else
binds: the receiver's window, the send buffer, or the application. If it is far more than twice the flight, more was in
flight when it grew, and neither a window nor a buffer holds the flight. CUBIC's own window stands still for some
seconds about its plateau (0.4 segments within a second of it), Reno's never. BBR sets its window to twice the flight,
so that its window shows nothing.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from monitor.analysis.transfer.events import CUT, loss_starts
from monitor.analysis.transfer.record import Bools, Floats, IntervalSeries

OPEN = 1.25
"""Ratio of the congestion window to the bytes in flight from which on the window does not bind: acknowledgements and
writes in blocks change the flight by less."""

OVERUSED = 0.67
"""Ratio of the congestion window to the bytes in flight below which the two contradict each other, as where the window
was far larger within the interval than at its end."""

SMOOTHED_INTERVALS = 3
"""Writes of a megabyte make single seconds of a slow transfer uneven."""

QUEUE_GROWTH = 0.5
QUEUE_CORRELATION = 0.8
"""A queue lengthens the RTT with the window: in step, and by half of the window's growth at least (of logarithms). On
an idle path the RTT stays as it is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WindowUse:
    """Shares of the steady time; NaN is unknown.

    Two are no shares: `over_flight_ratio`, the median of the window over the bytes in flight, and `deviation_ratio`,
    the window's deviation over its mean. `open_ratio`: the window was larger than the flight. `still_ratio`: the window
    was that of the interval before. `after_cut_ratio`: the time after a loss first cut it, 0 without a cut;
    `cut_in_start` whether that loss ended slow start. `fills_queue`: RTT and window grew in step while the rate that
    they give was steady to within `fill_deviation_ratio`, up to an RTT of `filled_rtt_ms`.
    """

    over_flight_ratio: float
    deviation_ratio: float
    open_ratio: float
    still_ratio: float
    after_cut_ratio: float
    cut_in_start: bool
    fills_queue: bool
    fill_deviation_ratio: float
    filled_rtt_ms: float


def window_use(series: IntervalSeries, steady: Bools, slow_start_end_s: float) -> WindowUse:
    """The use of the window in the steady part."""
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
    """Rates over up to `SMOOTHED_INTERVALS` intervals each."""
    kernel = np.ones(SMOOTHED_INTERVALS)
    moved, widths_s = (
        np.convolve(values, kernel, mode="full")[SMOOTHED_INTERVALS // 2 :][: values.size]
        for values in (series.delivered_bytes, series.width_s)
    )
    rates: Floats = moved * 8.0 / widths_s
    return rates


def _first_cut(series: IntervalSeries, slow_start_end_s: float) -> int:
    """The first interval whose loss cut the window; the number of intervals without any.

    A loss that ends slow start cuts it even where the window at the ends of the intervals hardly shows it: it doubled
    and was halved within one.
    """
    for index in loss_starts(series):
        before = series.cwnd_bytes[max(0, index - 1)]
        least = np.fmin.reduce(series.cwnd_bytes[index : index + 2])
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
