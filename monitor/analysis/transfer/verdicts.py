"""Verdict on the limit of a transfer, from its signs. Limits are tried in a fixed order, imitating ones first; else
`UNDETERMINED` with the reason."""

from __future__ import annotations

import math
from collections.abc import Callable

from monitor.analysis.figures import bit_rate, milliseconds, percent
from monitor.analysis.tcp import buffer_bytes
from monitor.analysis.transfer.congestion import cut_by_loss, heavy_loss, lossy, policed
from monitor.analysis.transfer.finding import (
    EvidenceFigure,
    TransferFinding,
    Verdict,
    flight_bytes,
    loss_events_text,
    rate_figure,
    size_text,
)
from monitor.analysis.transfer.host_limits import buffer_advice, cpu_bound, own_queue, starved
from monitor.analysis.transfer.queues import (
    BUFFER_BINDS,
    BUSY,
    DUPLICATES,
    FINE_INTERVAL_S,
    LEAST_FLIGHT_SEGMENTS,
    LEAST_LOSS_EVENTS,
    LINE_RATES_BPS,
    at_capacity,
    at_line_rate,
    outgrew_flight,
    paced_by_bbr,
    queue_at_loss,
    queue_stands,
    queued,
    short_queue,
)
from monitor.analysis.transfer.record import Recording, is_bbr
from monitor.analysis.transfer.signs import Signs
from monitor.analysis.transfer.start import wanted_seconds
from monitor.analysis.transfer.token_bucket import LEAST_GROUP
from monitor.analysis.transfer.trains import with_trains

LEAST_STEADY_S = 0.5
LEAST_STEADY_RTTS = 10.0
# Minimum length of the steady part; a test with less than all three is mostly slow start.
LEAST_STEADY_INTERVALS = 3

# Share of the time: longer pauses cost more than the variation between tests on the same path.
PAUSED = 0.1

COLLAPSES = 0.1
# Share of time at the peer's window; half of it where the window collapses, as it then varies.
WINDOW_BINDS = 0.5

# Share of the requested rate from which the request was the limit, whatever queues its bursts fill.
REQUESTED = 0.97

# Linux offers about half of its buffer as window; the rest holds its own bookkeeping.
WINDOW_IN_BUFFER = 2.0

# Share of pauses with nothing to send in the kernel: silence with unacknowledged data is a retransmission timeout.
IDLE_SHARE = 0.5

# Share of steady time with an unused or constant congestion window, above which another window is the limit.
WINDOW_OPEN = 0.8

# Minimum time of a constant window: CUBIC's plateau takes 2 to 3 s.
LEAST_STILL_S = 5.0

# Maximum deviation of the rate behind a window; writes of a megabyte give 0.15 at 80 Mbit/s and a second.
STEADY_DEVIATION = 0.25

# CPU use of either end above which the process may be the limit between the samples.
HOST_BUSY = 0.5

LINE_SHARE = (0.92, 0.995)
# Deviation of a sender's own Ethernet interface rate: 0.941 at an MTU of 1500, 0.99 at 9000.
LINE_DEVIATION = 0.03

ROUND_STEPS = (1.0, 1.5, 2.0, 2.5, 3.0, 4.0, 5.0, 6.0, 7.5, 8.0)
ROUND_WITHIN = 0.005
# A requested rate, which old versions of iperf3 do not report, is round and hardly varies.
ROUND_DEVIATION = 0.01


def find(signs: Signs, recording: Recording, start_s: float, duration_s: float) -> TransferFinding:
    """The first limit with its signs present; `UNDETERMINED` for a too short test."""
    short = _too_short(signs, start_s, duration_s)
    return short or with_trains(_first(signs, recording) or _undetermined(signs, recording), signs, recording)


def is_enough(signs: Signs) -> bool:
    rtt_s = 0.0 if math.isnan(signs.base_rtt_ms) else signs.base_rtt_ms / 1000.0
    least_s = max(LEAST_STEADY_S, LEAST_STEADY_RTTS * rtt_s)
    return signs.steady_s >= least_s and signs.steady_intervals >= LEAST_STEADY_INTERVALS


def _too_short(signs: Signs, start_s: float, duration_s: float) -> TransferFinding | None:
    if is_enough(signs):
        return None
    at_rtt = "" if math.isnan(signs.base_rtt_ms) else f" of {milliseconds(signs.base_rtt_ms)}"
    return TransferFinding(
        Verdict.UNDETERMINED,
        f"undetermined: the test is too short for its RTT{at_rtt}: slow start took {start_s:.1f} s of"
        f" {duration_s:.1f} s; run at least {math.ceil(wanted_seconds(start_s) - 1e-9)} s",
        (EvidenceFigure("slow start", start_s, "s"), EvidenceFigure("duration", duration_s, "s")),
    )


def _first(signs: Signs, recording: Recording) -> TransferFinding | None:
    finding = next((finding for judge in JUDGES if (finding := judge(signs, recording)) is not None), None)
    return None if finding is None else starved(finding, signs, recording)


def _paused(signs: Signs, recording: Recording) -> TransferFinding | None:
    if not signs.paused_ratio >= PAUSED or 1.0 - signs.busy_ratio < IDLE_SHARE * signs.paused_ratio:
        return None
    return TransferFinding(
        Verdict.APPLICATION_LIMITED,
        f"application-limited at {bit_rate(signs.throughput_bps)}: the sender paused for"
        f" {percent(signs.paused_ratio)} of the time with its window open, and sent"
        f" {size_text(signs.burst_bytes)} right after a pause",
        (
            rate_figure(signs),
            EvidenceFigure("paused", signs.paused_ratio, ""),
            EvidenceFigure("burst after a pause", signs.burst_bytes, "B"),
        ),
    )


def _idle(signs: Signs, recording: Recording) -> TransferFinding | None:
    """Pauses too short for the intervals, by the kernel's counters."""
    if not signs.busy_ratio < BUSY:
        return None
    return TransferFinding(
        Verdict.APPLICATION_LIMITED,
        f"application-limited at {bit_rate(signs.throughput_bps)}: the sender had nothing to send for"
        f" {percent(1.0 - signs.busy_ratio)} of the time",
        (rate_figure(signs), EvidenceFigure("nothing to send", 1.0 - signs.busy_ratio, "")),
    )


def _reordered(signs: Signs, recording: Recording) -> TransferFinding | None:
    if not (signs.duplicate_ratio >= DUPLICATES and signs.loss_events >= LEAST_LOSS_EVENTS):
        return None
    if queue_at_loss(signs) or queue_stands(signs):
        return None
    return TransferFinding(
        Verdict.REORDERING,
        f"limited by reordering at {bit_rate(signs.throughput_bps)}: {percent(signs.duplicate_ratio)} of the"
        f" {signs.resent_segments} retransmitted segments were late, not lost",
        (
            rate_figure(signs),
            EvidenceFigure("retransmitted", signs.resent_segments, "count"),
            EvidenceFigure("of them late", signs.duplicate_ratio, ""),
        ),
    )


def _slow_receiver(signs: Signs, recording: Recording) -> TransferFinding | None:
    if not (signs.window_limited_ratio >= WINDOW_BINDS / 2 and signs.window_collapsed_ratio >= COLLAPSES):
        return None
    return TransferFinding(
        Verdict.SLOW_RECEIVER,
        f"slow receiver at {bit_rate(signs.throughput_bps)}: its window was below half of its maximum for"
        f" {percent(signs.window_collapsed_ratio)} of the time: its application or disk reads more slowly than data"
        " arrive",
        (
            rate_figure(signs),
            EvidenceFigure("window collapsed", signs.window_collapsed_ratio, ""),
            EvidenceFigure("window-limited", signs.window_limited_ratio, ""),
        ),
    )


def _window_limited(signs: Signs, recording: Recording) -> TransferFinding | None:
    if not signs.window_limited_ratio >= WINDOW_BINDS or queue_stands(signs):
        return None
    held = f"the receiver's window is {size_text(signs.peer_window_bytes)}"
    return TransferFinding(
        Verdict.WINDOW_LIMITED,
        f"window-limited at {bit_rate(signs.throughput_bps)}: {held}, {_window_advice(signs, recording, 'receiver')}",
        (
            rate_figure(signs),
            EvidenceFigure("receiver's window", signs.peer_window_bytes, "B"),
            EvidenceFigure("RTT", signs.rtt_ms, "ms"),
            EvidenceFigure("window-limited", signs.window_limited_ratio, ""),
        ),
    )


def _buffer_limited(signs: Signs, recording: Recording) -> TransferFinding | None:
    if not signs.send_buffer_limited_ratio >= BUFFER_BINDS or queue_stands(signs):
        return None
    return TransferFinding(
        Verdict.WINDOW_LIMITED,
        f"window-limited at {bit_rate(signs.throughput_bps)}: the sender's buffer allows"
        f" {size_text(flight_bytes(signs))} in flight, {_window_advice(signs, recording, 'sender')}",
        (
            rate_figure(signs),
            EvidenceFigure("in flight", flight_bytes(signs), "B"),
            EvidenceFigure("RTT", signs.rtt_ms, "ms"),
            EvidenceFigure("send buffer full", signs.send_buffer_limited_ratio, ""),
        ),
    )


def _window_advice(signs: Signs, recording: Recording, *ends: str) -> str:
    if recording.capacity_bps is not None:
        wanted = float(buffer_bytes(recording.capacity_bps, signs.base_rtt_ms))
        need = f"the path needs {size_text(wanted)}"
    else:
        wanted = 2.0 * flight_bytes(signs)
        need = "which did not fill the path"
    each_bytes = WINDOW_IN_BUFFER * wanted / recording.streams
    present_bytes = {"receiver": signs.peer_window_bytes, "sender": flight_bytes(signs)}
    advice = (
        buffer_advice(recording, end, each_bytes, _or_flight(present_bytes[end], signs) / recording.streams)
        for end in ends
    )
    return f"{need}; {' and '.join(advice)}"


def _or_flight(window_bytes: float, signs: Signs) -> float:
    return flight_bytes(signs) if math.isnan(window_bytes) else window_bytes


def _rate_requested(signs: Signs, recording: Recording) -> TransferFinding | None:
    asked_bps = recording.asked_bps
    if asked_bps is None or signs.throughput_bps < REQUESTED * asked_bps:
        return None
    return TransferFinding(
        Verdict.APPLICATION_LIMITED,
        f"application-limited at {bit_rate(signs.throughput_bps)}: the test requested {bit_rate(asked_bps)}",
        (rate_figure(signs), EvidenceFigure("requested", asked_bps, "bit/s")),
    )


def _window_open(signs: Signs, recording: Recording) -> TransferFinding | None:
    """A steady rate below the window, with unknown peer window or kernel."""
    open_ratio, still_ratio = signs.window.open_ratio, signs.window.still_ratio
    stands_still = still_ratio >= WINDOW_OPEN and still_ratio * signs.steady_s >= LEAST_STILL_S
    if not (open_ratio >= WINDOW_OPEN or stands_still) or not _may_be_window(signs, recording):
        return None
    in_flight = flight_bytes(signs)
    peer_known = not math.isnan(signs.peer_window_bytes)
    if peer_known and signs.peer_window_bytes < 2.0 * in_flight:
        return None
    which, ends = (
        ("the send buffer is full", ("sender",))
        if peer_known
        else ("the receiver's window or the send buffer is full", ("receiver", "sender"))
    )
    unused = "not used up" if open_ratio >= WINDOW_OPEN else "which stands still"
    return TransferFinding(
        Verdict.WINDOW_LIMITED,
        f"window-limited at {bit_rate(signs.throughput_bps)}: {size_text(in_flight)} in flight of a congestion window"
        f" of {size_text(signs.cwnd_bytes)}, {unused}: {which}, {_window_advice(signs, recording, *ends)}",
        (
            rate_figure(signs),
            EvidenceFigure("in flight", in_flight, "B"),
            EvidenceFigure("congestion window", signs.cwnd_bytes, "B"),
            EvidenceFigure("RTT", signs.rtt_ms, "ms"),
            EvidenceFigure("window open", max(open_ratio, still_ratio), ""),
        ),
    )


def _may_be_window(signs: Signs, recording: Recording) -> bool:
    """Whether nothing else explains an open window."""
    if is_bbr(recording) or recording.asked_bps is not None or outgrew_flight(signs, recording):
        return False
    if signs.later_loss_events >= LEAST_LOSS_EVENTS:
        return False
    if not math.isnan(signs.send_buffer_limited_ratio) or queue_stands(signs):
        return False
    cpu_ratios = (recording.sender_cpu_ratio, recording.receiver_cpu_ratio)
    if None in cpu_ratios or max(ratio for ratio in cpu_ratios if ratio is not None) > HOST_BUSY:
        return False
    if flight_bytes(signs) < LEAST_FLIGHT_SEGMENTS * recording.mss_bytes:
        return False
    deviation = signs.rate_deviation_ratio
    at_line = any(LINE_SHARE[0] <= signs.throughput_bps / line_bps <= LINE_SHARE[1] for line_bps in LINE_RATES_BPS)
    if deviation <= LINE_DEVIATION and at_line:
        return False
    if deviation <= ROUND_DEVIATION and _is_round(signs.throughput_bps):
        return False
    return deviation <= STEADY_DEVIATION


def _is_round(rate_bps: float) -> bool:
    if not rate_bps > 0.0:
        return False
    digits = rate_bps / 10.0 ** math.floor(math.log10(rate_bps))
    return any(abs(digits / step - 1.0) <= ROUND_WITHIN for step in (*ROUND_STEPS, 10.0))


Judge = Callable[[Signs, Recording], TransferFinding | None]

JUDGES: tuple[Judge, ...] = (
    cpu_bound,
    _paused,
    _idle,
    _slow_receiver,
    _window_limited,
    _buffer_limited,
    own_queue,
    _reordered,
    _rate_requested,
    policed,
    at_capacity,
    heavy_loss,
    queued,
    paced_by_bbr,
    short_queue,
    lossy,
    at_line_rate,
    _window_open,
    cut_by_loss,
)


def _undetermined(signs: Signs, recording: Recording) -> TransferFinding:
    if signs.loss_events >= LEAST_LOSS_EVENTS and signs.interval_s > FINE_INTERVAL_S:
        reason = f"{loss_events_text(signs)}, whose cause intervals of {signs.interval_s:.2g} s do not show"
    elif signs.loss_events >= LEAST_LOSS_EVENTS and signs.median_group >= LEAST_GROUP:
        reason = (
            f"{loss_events_text(signs)} of {signs.median_group:.0f} segments each, without a visible queue, but too"
            " irregular for a policer; run a longer test"
        )
    elif signs.loss_events:
        reason = f"{loss_events_text(signs)}, too few to find the cause"
    elif math.isnan(signs.cwnd_bytes):
        reason = "the sender reports neither windows nor losses"
    elif outgrew_flight(signs, recording):
        reason = (
            f"no loss, and no full window or buffer: {size_text(flight_bytes(signs))} in flight of a congestion window"
            f" of {size_text(signs.cwnd_bytes)}, which grew with far more; the application, or a queue that was never"
            " empty"
        )
    elif math.isnan(signs.peer_window_bytes):
        reason = "no loss and no queueing, but the peer's window is unknown"
    elif math.isnan(signs.send_buffer_limited_ratio):
        reason = (
            "no loss, no queueing, neither window full: the send buffer or the application, which only the counters of"
            " the sender's kernel tell apart"
        )
    else:
        reason = "no loss, no queueing, and neither window nor buffer was full"
    return TransferFinding(
        Verdict.UNDETERMINED, f"undetermined at {bit_rate(signs.throughput_bps)}: {reason}", (rate_figure(signs),)
    )
