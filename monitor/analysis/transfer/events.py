"""Interruptions of a transfer, in order of time: recoveries from loss, stalls, and pauses of the sender."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from monitor.analysis.transfer.record import WINDOW_USED, IntervalSeries
from monitor.arrays import Bools

# A window below this share of its previous value has a new loss: CUBIC reduces to 0.7, Reno to 0.5.
CUT = 0.85

# Share of the rate before the loss at which the recovery is complete.
RECOVERED = 0.95

# Period of the rate before a loss, in RTTs; `REFERENCE_S` at least.
REFERENCE_RTTS = 4.0
REFERENCE_S = 0.5

# Linux's minimum above the RTT before it retransmits: silence this long after a loss belongs to it.
TIMEOUT_MARGIN_S = 0.2

# A peer window below this is closed: the silence is caused by the receiver.
CLOSED_WINDOW_SEGMENTS = 2


@dataclass(frozen=True, slots=True)
class Recovery:
    """A loss event of any number of segments, until the rate has recovered, the next event begins or the test ends."""

    start_s: float
    end_s: float
    resent_segments: int
    before_bytes: float  # since the event before, or the start
    lost_s: float  # time of the missing bytes at the rate before
    stalled_s: float  # part of lost_s without arrivals
    recovered: bool


@dataclass(frozen=True, slots=True)
class Pause:
    """A time in which the sender had nothing to send."""

    start_s: float
    length_s: float
    burst_bytes: float  # of an interval and an RTT after it


def recoveries(series: IntervalSeries) -> tuple[Recovery, ...]:
    """Loss events of a test; a lower bound where intervals are longer than the time between losses."""
    starts = loss_starts(series)
    bounds = [*starts, series.start_s.size]
    total_bytes = np.concatenate([[0.0], np.cumsum(series.delivered_bytes)])
    events = []
    for number, first in enumerate(starts):
        before_bytes = total_bytes[first] - (total_bytes[starts[number - 1]] if number else 0.0)
        events.append(_recovery(series, first, bounds[number + 1], float(before_bytes)))
    return tuple(events)


def loss_starts(series: IntervalSeries) -> list[int]:
    """Intervals in which a loss event begins. The next interval's retransmissions belong to it, unless the window fell
    again an RTT later."""
    starts: list[int] = []
    for index in np.flatnonzero(series.lossy).tolist():
        apart = not starts or not series.lossy[index - 1]
        if apart or _reduced_again(series, starts[-1], index):
            starts.append(index)
    return starts


def pauses(series: IntervalSeries, mss_bytes: int) -> tuple[Pause, ...]:
    """Periods of at least the current RTT in which the sender sent nothing though loss and window allowed it; none with
    unknown losses."""
    if not series.losses_known:
        return ()
    silent = silent_intervals(series) & ~_after_loss(series)
    silent &= ~(series.peer_window_bytes < CLOSED_WINDOW_SEGMENTS * mss_bytes)
    events = []
    for first, last in _runs(silent):
        length_s = float(series.end_s[last] - series.start_s[first])
        followed = last + 1 < series.start_s.size
        if length_s >= _current_rtt_s(series, first, last) and followed:
            events.append(Pause(float(series.start_s[first]), length_s, _burst_bytes(series, last + 1)))
    return tuple(events)


def _current_rtt_s(series: IntervalSeries, first: int, last: int) -> float:
    # Maximum RTT around a period: ACKs come as late as the queue is.
    around_ms = series.rtt_ms[max(0, first - 1) : last + 2]
    defined = around_ms[~np.isnan(around_ms)]
    return float(defined.max()) / 1000.0 if defined.size else series.base_rtt_s


def silent_intervals(series: IntervalSeries) -> Bools:
    """Where nothing arrived; or, without arrivals, nothing was written and no ACK came with an open peer window."""
    if series.arrivals_known:
        return np.asarray(series.delivered_bytes <= 0.0)
    frozen = np.zeros(series.start_s.size, dtype=np.bool_)
    frozen[1:] = (np.diff(series.rtt_ms) == 0.0) & (np.diff(series.cwnd_bytes) == 0.0)
    used_up = series.cwnd_bytes >= WINDOW_USED * series.peer_window_bytes
    return np.asarray(frozen & (series.sent_bytes <= 0.0) & ~used_up)


def _reduced_again(series: IntervalSeries, start: int, index: int) -> bool:
    later = series.start_s[index] - series.start_s[start] >= series.base_rtt_s
    return bool(later and series.cwnd_bytes[index] < CUT * series.cwnd_bytes[index - 1])


def _recovery(series: IntervalSeries, first: int, until: int, before_bytes: float) -> Recovery:
    reference_bps = _rate_before(series, first)
    rates_bps, widths_s = series.delivered_bps[first:until], series.width_s[first:until]
    quiet = ~series.lossy[first:until]
    back = np.flatnonzero(quiet & (rates_bps >= RECOVERED * reference_bps))
    length = int(back[0]) if back.size else until - first
    missing = np.clip(1.0 - rates_bps[:length] / reference_bps, 0.0, 1.0) if reference_bps > 0.0 else np.zeros(length)
    return Recovery(
        start_s=float(series.start_s[first]),
        end_s=float(series.end_s[first + length - 1]),
        resent_segments=int(series.retransmits[first:until].sum()),
        before_bytes=before_bytes,
        lost_s=float((missing * widths_s[:length]).sum()),
        stalled_s=float(widths_s[:length][rates_bps[:length] <= 0.0].sum()) if series.arrivals_known else 0.0,
        recovered=bool(back.size),
    )


def _rate_before(series: IntervalSeries, index: int) -> float:
    since_s = series.start_s[index] - max(REFERENCE_RTTS * series.base_rtt_s, REFERENCE_S)
    before = (series.end_s > since_s + 1e-6) & (series.end_s <= series.start_s[index] + 1e-6)
    if not before.any():
        return 0.0
    return float(series.delivered_bytes[before].sum() * 8.0 / series.width_s[before].sum())


def _after_loss(series: IntervalSeries) -> Bools:
    """Intervals that a retransmission timeout before or in them could explain."""
    lossy_end_s = series.end_s[series.lossy]
    if not lossy_end_s.size:
        return np.zeros(series.start_s.size, dtype=np.bool_)
    longest_ms = np.fmax.reduce(series.rtt_ms)
    margin_s = (0.0 if np.isnan(longest_ms) else longest_ms / 1000.0) + TIMEOUT_MARGIN_S
    near = (series.start_s[:, None] <= lossy_end_s + margin_s) & (series.end_s[:, None] >= lossy_end_s - margin_s)
    return np.asarray(near.any(axis=1))


def _burst_bytes(series: IntervalSeries, first: int) -> float:
    until_bytes = np.cumsum(series.delivered_bytes[first:])
    return float(np.interp(series.end_s[first] + series.base_rtt_s, series.end_s[first:], until_bytes))


def _runs(mask: Bools) -> list[tuple[int, int]]:
    edges = np.flatnonzero(np.diff(np.concatenate([[False], mask, [False]]).astype(np.int8)))
    return [(int(first), int(end) - 1) for first, end in zip(edges[::2], edges[1::2], strict=True)]
