"""Signs of a transfer's limit, figures of its steady part. `verdicts` judges them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from monitor.analysis.transfer.events import CLOSED_WINDOW_SEGMENTS, Pause, Recovery, loss_starts
from monitor.analysis.transfer.record import WINDOW_USED, IntervalSeries, Recording, is_bbr
from monitor.analysis.transfer.token_bucket import TokenBucket, fit_drained_bucket, fit_token_bucket
from monitor.analysis.transfer.window_use import WindowUse, window_use
from monitor.arrays import Bools, Floats

# Maximum time after slow start in which the segments that it lost are retransmitted.
OVERSHOOT_RTTS = 10.0

# A peer window below this share of its maximum: its reader is too slow.
COLLAPSED = 0.5


@dataclass(frozen=True, slots=True, kw_only=True)
class Signs:
    """Figures of the steady part. NaN and None are unknown."""

    interval_s: float  # median
    mss_bytes: int
    steady_s: float
    steady_intervals: int
    throughput_bps: float
    rtt_ms: float
    rtt_variation_ms: float
    base_rtt_ms: float
    rtt_at_loss_ms: float  # without losses that ended slow start or followed at once
    cwnd_bytes: float
    peer_window_bytes: float
    window_limited_ratio: float  # share of time in which the peer's window was the limit
    window_collapsed_ratio: float  # share of time below half of its maximum
    rate_deviation_ratio: float  # deviation over mean
    paused_ratio: float
    burst_bytes: float
    busy_ratio: float  # share of time with something to send
    send_buffer_limited_ratio: float
    loss_events: int
    later_loss_events: int  # without those that ended slow start or followed at once
    loses_later: bool  # segments retransmitted later at all
    loss_window_deviation_ratio: float  # of the window at later loss events; NaN below three
    median_group: float  # segments retransmitted in the median loss event
    resent_segments: int
    sent_segments: float  # delivered and retransmitted
    duplicate_ratio: float  # share of retransmitted segments that the peer already had
    token_bucket: TokenBucket | None
    window: WindowUse

    @property
    def resent_ratio(self) -> float:
        """Share of segments sent again; NaN where none was sent."""
        return _ratio(self.resent_segments, self.sent_segments)


def read_signs(
    recording: Recording,
    series: IntervalSeries,
    slow_start_end_s: float,
    start_s: float,
    events: tuple[Recovery, ...],
    pauses: tuple[Pause, ...],
) -> Signs:
    """The signs of a test that is steady from `start_s` on. Loss is counted over the whole test."""
    steady = series.start_s >= start_s - 1e-6
    steady_s = float(series.width_s[steady].sum())
    throughput_bps = _ratio(8.0 * series.delivered_bytes[steady].sum(), steady_s)
    rtt_ms = _median(series.rtt_ms[steady])
    cwnd_bytes, window_bytes = _median(series.cwnd_bytes[steady]), _median(series.peer_window_bytes[steady])
    resent = int(series.retransmits.sum())
    is_later = _after_overshoot(series, slow_start_end_s, ends_with_loss=not is_bbr(recording))
    later = [index for index in loss_starts(series) if is_later[index]]
    group = _median(np.array([event.resent_segments for event in events], dtype=np.float64))
    return Signs(
        interval_s=_median(series.width_s),
        mss_bytes=recording.mss_bytes,
        steady_s=steady_s,
        steady_intervals=int(steady.sum()),
        throughput_bps=throughput_bps,
        rtt_ms=rtt_ms,
        rtt_variation_ms=_median(series.rtt_variation_ms[steady]),
        base_rtt_ms=series.base_rtt_ms,
        rtt_at_loss_ms=_median(_rtt_at_loss(series, later)),
        cwnd_bytes=cwnd_bytes,
        peer_window_bytes=window_bytes,
        window_limited_ratio=_window_limited_ratio(series, steady),
        window_collapsed_ratio=_window_collapsed_ratio(series, steady, recording.mss_bytes),
        rate_deviation_ratio=_deviation(_by_half_second(series, steady)),
        paused_ratio=_ratio(sum(pause.length_s for pause in pauses if pause.start_s >= start_s - 1e-6), steady_s),
        burst_bytes=_median(np.array([pause.burst_bytes for pause in pauses])),
        busy_ratio=_busy_ratio(recording),
        send_buffer_limited_ratio=_send_buffer_limited_ratio(recording),
        loss_events=len(events),
        later_loss_events=len(later),
        loss_window_deviation_ratio=_deviation(_window_at_loss(series, later)) if len(later) >= 3 else float("nan"),
        loses_later=bool((series.lossy & is_later).any()),
        median_group=group,
        resent_segments=resent,
        sent_segments=series.total_delivered_bytes / recording.mss_bytes + resent,
        duplicate_ratio=_duplicate_ratio(recording, resent),
        token_bucket=fit_token_bucket(
            series.start_s, series.delivered_bytes, loss_starts(series), group / recording.streams, series.base_rtt_s
        )
        or fit_drained_bucket(series, recording.mss_bytes),
        window=window_use(series, steady, slow_start_end_s),
    )


def _after_overshoot(series: IntervalSeries, slow_start_end_s: float, *, ends_with_loss: bool) -> Bools:
    """Intervals after the repair of slow start's losses, which may take seconds."""
    first = int(series.lossy.argmax())
    # Segments retransmitted within an RTT after slow start were sent in it; their bursts raise the RTT on an idle link
    # too.
    if ends_with_loss and series.lossy.any() and _is_of_start(series, first, slow_start_end_s):
        slow_start_end_s = float(series.end_s[first])
    after = series.start_s >= slow_start_end_s - 1e-6
    quiet = np.flatnonzero(after & ~series.lossy)
    since_quiet = np.arange(after.size) > (quiet[0] if quiet.size else after.size)
    late = series.start_s > slow_start_end_s + OVERSHOOT_RTTS * series.base_rtt_s + 1e-6
    return np.asarray(after & (since_quiet | late))


def _is_of_start(series: IntervalSeries, first: int, slow_start_end_s: float) -> bool:
    """Whether the first loss followed slow start within the RTT before it."""
    rtt_s = np.fmax(series.rtt_ms[first], series.rtt_ms[max(0, first - 1)]) / 1000.0
    since_s = series.start_s[first] - slow_start_end_s
    return bool(-1e-6 <= since_s < rtt_s)


def _rtt_at_loss(series: IntervalSeries, losses: list[int]) -> Floats:
    starts = np.array(losses, dtype=np.intp)
    if not starts.size:
        return np.array([])
    return np.fmax(series.rtt_ms[starts], series.rtt_ms[np.maximum(starts - 1, 0)])


def _window_at_loss(series: IntervalSeries, losses: list[int]) -> Floats:
    starts = np.array(losses, dtype=np.intp)
    return np.fmax(series.cwnd_bytes[starts], series.cwnd_bytes[np.maximum(starts - 1, 0)])


def _window_limited_ratio(series: IntervalSeries, steady: Bools) -> float:
    defined = steady & ~np.isnan(series.peer_window_bytes) & ~np.isnan(series.cwnd_bytes)
    bound = series.cwnd_bytes >= WINDOW_USED * series.peer_window_bytes
    return _ratio(float(series.width_s[defined & bound].sum()), float(series.width_s[defined].sum()))


def _window_collapsed_ratio(series: IntervalSeries, steady: Bools, mss_bytes: int) -> float:
    """Share of time with a collapsed peer window; closed from the start counts too."""
    defined = steady & ~np.isnan(series.peer_window_bytes)
    largest = np.maximum.accumulate(np.nan_to_num(series.peer_window_bytes))
    collapsed = series.peer_window_bytes < np.maximum(COLLAPSED * largest, CLOSED_WINDOW_SEGMENTS * mss_bytes)
    return _ratio(float(series.width_s[defined & collapsed].sum()), float(series.width_s[defined].sum()))


def _send_buffer_limited_ratio(recording: Recording) -> float:
    kernel = recording.kernel
    if kernel is None or kernel.send_buffer_limited_s is None or not kernel.busy_s:
        return float("nan")
    return kernel.send_buffer_limited_s / kernel.busy_s


def _busy_ratio(recording: Recording) -> float:
    kernel = recording.kernel
    if kernel is None or kernel.busy_s is None or not kernel.age_s:
        return float("nan")
    return kernel.busy_s / kernel.age_s


def _duplicate_ratio(recording: Recording, resent: int) -> float:
    kernel = recording.kernel
    if kernel is None or kernel.duplicates is None or not resent:
        return float("nan")
    return min(1.0, kernel.duplicates / resent)


def _by_half_second(series: IntervalSeries, steady: Bools) -> Floats:
    """Steady rates over half a second, or an interval if longer."""
    widths_s, moved = series.width_s[steady], series.delivered_bytes[steady]
    if not widths_s.size:
        return np.array([])
    together = max(1, round(0.5 / float(np.median(widths_s))))
    whole = widths_s.size // together * together
    by_block = (moved[:whole].reshape(-1, together).sum(axis=1), widths_s[:whole].reshape(-1, together).sum(axis=1))
    rates: Floats = by_block[0] * 8.0 / by_block[1]
    return rates


def _deviation(values: Floats) -> float:
    return float("nan") if values.size < 2 or values.mean() <= 0.0 else float(values.std(ddof=1) / values.mean())


def _median(values: Floats) -> float:
    defined = values[~np.isnan(values)]
    return float(np.median(defined)) if defined.size else float("nan")


def _ratio(part: float, whole: float) -> float:
    return float(part / whole) if whole > 0.0 else float("nan")
