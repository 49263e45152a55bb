"""Verdict on the limit of a transfer, from its signs, as a sentence with evidence.

In: `Signs`, and the `Recording` for settings and prior knowledge. Out: a `TransferFinding`. The limits are tried in a
fixed order, those that imitate others first: a starved CPU looks like a slow reader, a pause like a small window. If
none fits, the verdict is `UNDETERMINED`, with the reason.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from monitor.analysis.figures import bit_rate, milliseconds, percent
from monitor.analysis.tcp import buffer_bytes
from monitor.analysis.transfer.finding import EvidenceFigure, TransferFinding, Verdict
from monitor.analysis.transfer.record import Recording
from monitor.analysis.transfer.signs import Signs
from monitor.analysis.transfer.start import wanted_seconds
from monitor.analysis.transfer.token_bucket import LEAST_GROUP

CPU_FULL = 0.9
"""Share of the time in which a process runs or waits for the CPU above which the CPU is the limit."""

LEAST_STEADY_S = 0.5
LEAST_STEADY_RTTS = 10.0
LEAST_STEADY_INTERVALS = 4
"""Minimum length of the steady part; a test with less than all three is mostly slow start."""

PAUSED = 0.1
"""Share of the time: the cost of longer pauses exceeds the variation between tests on the same path."""

COLLAPSES = 0.1
WINDOW_BINDS = 0.5
"""Share of the time in which the peer's window must bind; half of it where the window collapses, as it then varies."""

DUPLICATES = 0.5
"""Share of the retransmitted segments above which reordering is the limit: more were late than lost."""

LEAST_LOSS_EVENTS = 3

QUEUE_MS, QUEUE_AT_LOSS, QUEUE_STANDING = 2.0, 1.1, 1.25
"""A queue that drops raises the RTT by at least 2 ms and 10%; a standing queue that does not drop by 25%, as delayed
acknowledgements add a few percent."""

QUEUE_DEVIATION = 0.2
"""Maximum deviation of the rate with a standing queue, which keeps its link busy. With a larger deviation the RTT rose
for another reason, such as a busy host."""

BUFFER_BINDS = 0.5
"""Share of the busy time in which the send buffer was full, above which it is the limit."""

BUSY = 0.8
"""Share of a test in which its sender has data to send, but for the connection setup and short gaps."""

REQUESTED = 0.9
"""Share of the requested rate from which on the request was the limit."""

WINDOW_IN_BUFFER = 2.0
"""Linux offers about half of its buffer as window; the rest holds its own bookkeeping."""


def find(signs: Signs, recording: Recording, start_s: float, duration_s: float) -> TransferFinding:
    """First limit whose signs are present; start and length of the test decide whether it was long enough."""
    return _too_short(signs, start_s, duration_s) or _first(signs, recording) or _undetermined(signs)


def is_enough(signs: Signs) -> bool:
    """Whether the steady part is long enough for a verdict."""
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
    return next((finding for judge in JUDGES if (finding := judge(signs, recording)) is not None), None)


def _cpu_bound(signs: Signs, recording: Recording) -> TransferFinding | None:
    ends = {"sender": recording.sender_cpu_ratio, "receiver": recording.receiver_cpu_ratio}
    full = {end: ratio for end, ratio in ends.items() if ratio is not None and ratio > CPU_FULL}
    if not full:
        return None
    end = max(full, key=lambda role: full[role])
    return TransferFinding(
        Verdict.CPU_BOUND,
        f"CPU-bound at {bit_rate(signs.throughput_bps)}: the {end}'s process used or waited for the CPU"
        f" {percent(min(1.0, full[end]))} of the time; the path was not the limit",
        (_rate(signs), EvidenceFigure(f"{end}'s CPU", full[end], "")),
    )


def _paused(signs: Signs, recording: Recording) -> TransferFinding | None:
    if not signs.paused_ratio >= PAUSED:
        return None
    return TransferFinding(
        Verdict.APPLICATION_LIMITED,
        f"application-limited at {bit_rate(signs.throughput_bps)}: the sender paused for"
        f" {percent(signs.paused_ratio)} of the time with its window open, and sent"
        f" {_size(signs.burst_bytes)} right after a pause",
        (
            _rate(signs),
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
        (_rate(signs), EvidenceFigure("nothing to send", 1.0 - signs.busy_ratio, "")),
    )


def _reordered(signs: Signs, recording: Recording) -> TransferFinding | None:
    if not (signs.duplicate_ratio >= DUPLICATES and signs.loss_events >= LEAST_LOSS_EVENTS):
        return None
    if _queue_at_loss(signs) or _queue_stands(signs):
        return None
    return TransferFinding(
        Verdict.REORDERING,
        f"limited by reordering at {bit_rate(signs.throughput_bps)}: {percent(signs.duplicate_ratio)} of the"
        f" {signs.resent_segments} retransmitted segments were late, not lost",
        (
            _rate(signs),
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
            _rate(signs),
            EvidenceFigure("window collapsed", signs.window_collapsed_ratio, ""),
            EvidenceFigure("window-limited", signs.window_limited_ratio, ""),
        ),
    )


def _window_limited(signs: Signs, recording: Recording) -> TransferFinding | None:
    if not signs.window_limited_ratio >= WINDOW_BINDS or _queue_stands(signs):
        return None
    held = f"the receiver's window is {_size(signs.peer_window_bytes)}"
    return TransferFinding(
        Verdict.WINDOW_LIMITED,
        f"window-limited at {bit_rate(signs.throughput_bps)}: {held}, {_window_advice(signs, recording, 'tcp_rmem')}",
        (
            _rate(signs),
            EvidenceFigure("receiver's window", signs.peer_window_bytes, "B"),
            EvidenceFigure("RTT", signs.rtt_ms, "ms"),
            EvidenceFigure("window-limited", signs.window_limited_ratio, ""),
        ),
    )


def _buffer_limited(signs: Signs, recording: Recording) -> TransferFinding | None:
    if not signs.send_buffer_limited_ratio >= BUFFER_BINDS or _queue_stands(signs):
        return None
    return TransferFinding(
        Verdict.WINDOW_LIMITED,
        f"window-limited at {bit_rate(signs.throughput_bps)}: the sender's buffer allows"
        f" {_size(_flight_bytes(signs))} in flight, {_window_advice(signs, recording, 'tcp_wmem')}",
        (
            _rate(signs),
            EvidenceFigure("in flight", _flight_bytes(signs), "B"),
            EvidenceFigure("RTT", signs.rtt_ms, "ms"),
            EvidenceFigure("send buffer full", signs.send_buffer_limited_ratio, ""),
        ),
    )


def _window_advice(signs: Signs, recording: Recording, setting: str) -> str:
    """The window that the path's capacity needs; twice the current window where the capacity is unknown."""
    if recording.capacity_bps is not None:
        wanted = float(buffer_bytes(recording.capacity_bps, signs.base_rtt_ms))
        need = f"the path needs {_size(wanted)}"
    else:
        wanted = 2.0 * _flight_bytes(signs)
        need = "which did not fill the path"
    buffer = _rounded_up(WINDOW_IN_BUFFER * wanted / recording.streams)
    for_each = " for each stream" if recording.streams > 1 else ""
    return f"{need}; raise {setting} to {buffer}{for_each}"


def _policed(signs: Signs, recording: Recording) -> TransferFinding | None:
    bucket = signs.token_bucket
    if bucket is None or _queue_at_loss(signs):
        return None
    depth = "shallow" if bucket.depth_bytes is None else f"about {_size(bucket.depth_bytes)} deep"
    return TransferFinding(
        Verdict.POLICER,
        f"policed at {bit_rate(bucket.rate_bps)}: the rate between losses is constant to within"
        f" {percent(bucket.deviation_ratio)}, without queueing before them; the token bucket is {depth}",
        (
            EvidenceFigure("token rate", bucket.rate_bps, "bit/s"),
            *(() if bucket.depth_bytes is None else (EvidenceFigure("bucket depth", bucket.depth_bytes, "B"),)),
            EvidenceFigure("deviation between losses", bucket.deviation_ratio, ""),
            EvidenceFigure("loss events", signs.loss_events, "count"),
        ),
    )


def _queued(signs: Signs, recording: Recording) -> TransferFinding | None:
    lossy = signs.loss_events > 0 and _queue_at_loss(signs)
    if not lossy and not _queue_stands(signs):
        return None
    longest_ms = signs.rtt_at_loss_ms if lossy else signs.rtt_ms
    end = f"; {_loss_events(signs)}" if lossy else ""
    if signs.duplicate_ratio >= DUPLICATES:
        end = "; retransmitted segments were late, not lost"
    return TransferFinding(
        Verdict.BOTTLENECK_QUEUE,
        f"bottleneck of {bit_rate(signs.throughput_bps)}: its queue raises the RTT from"
        f" {milliseconds(signs.base_rtt_ms)} to {milliseconds(longest_ms)}{end}",
        (
            _rate(signs),
            EvidenceFigure("idle RTT", signs.base_rtt_ms, "ms"),
            EvidenceFigure("RTT with the queue", longest_ms, "ms"),
            EvidenceFigure("loss events", signs.loss_events, "count"),
        ),
    )


def _paced_by_bbr(signs: Signs, recording: Recording) -> TransferFinding | None:
    """BBR sends at the measured bottleneck rate and causes hardly any queue or loss."""
    if not (recording.congestion_control or "").startswith("bbr") or not signs.busy_ratio >= BUSY:
        return None
    if signs.send_buffer_limited_ratio >= BUFFER_BINDS:
        return None
    return TransferFinding(
        Verdict.BOTTLENECK_QUEUE,
        f"bottleneck of {bit_rate(signs.throughput_bps)}: BBR measured that rate and keeps its queue short",
        (_rate(signs), EvidenceFigure("busy", signs.busy_ratio, ""), EvidenceFigure("RTT", signs.rtt_ms, "ms")),
    )


def _lossy(signs: Signs, recording: Recording) -> TransferFinding | None:
    if signs.loss_events < LEAST_LOSS_EVENTS:
        return None
    share = signs.resent_segments / signs.sent_segments
    late = "; unknown whether some were only late" if math.isnan(signs.duplicate_ratio) else ""
    if signs.median_group >= LEAST_GROUP:
        return TransferFinding(
            Verdict.UNDETERMINED,
            f"undetermined: {_loss_events(signs)} of {signs.median_group:.0f} segments each, without a visible queue,"
            " but too irregular for a policer; run a longer test",
            (_rate(signs), EvidenceFigure("loss events", signs.loss_events, "count")),
        )
    return TransferFinding(
        Verdict.RANDOM_LOSS,
        f"loss-limited at {bit_rate(signs.throughput_bps)}: {percent(share)} of the segments were retransmitted, in"
        f" {_loss_events(signs)} at low and high rates, with the RTT at its minimum of"
        f" {milliseconds(signs.base_rtt_ms)}: not caused by queueing{late}",
        (
            _rate(signs),
            EvidenceFigure("loss", share, ""),
            EvidenceFigure("loss events", signs.loss_events, "count"),
            EvidenceFigure("RTT at a loss", signs.rtt_at_loss_ms, "ms"),
        ),
    )


def _rate_requested(signs: Signs, recording: Recording) -> TransferFinding | None:
    asked_bps = recording.asked_bps
    if asked_bps is None or signs.throughput_bps < REQUESTED * asked_bps:
        return None
    return TransferFinding(
        Verdict.APPLICATION_LIMITED,
        f"application-limited at {bit_rate(signs.throughput_bps)}: the test requested {bit_rate(asked_bps)}",
        (_rate(signs), EvidenceFigure("requested", asked_bps, "bit/s")),
    )


Judge = Callable[[Signs, Recording], TransferFinding | None]

JUDGES: tuple[Judge, ...] = (
    _cpu_bound,
    _paused,
    _idle,
    _slow_receiver,
    _window_limited,
    _buffer_limited,
    _reordered,
    _policed,
    _queued,
    _paced_by_bbr,
    _lossy,
    _rate_requested,
)


def _undetermined(signs: Signs) -> TransferFinding:
    if signs.loss_events:
        reason = f"{_loss_events(signs)}, too few to find the cause"
    elif math.isnan(signs.cwnd_bytes):
        reason = "the sender's system reports neither windows nor losses"
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
        Verdict.UNDETERMINED, f"undetermined at {bit_rate(signs.throughput_bps)}: {reason}", (_rate(signs),)
    )


def _queue_at_loss(signs: Signs) -> bool:
    least_ms = max(signs.base_rtt_ms + QUEUE_MS, QUEUE_AT_LOSS * signs.base_rtt_ms)
    return signs.rtt_at_loss_ms >= least_ms


def _queue_stands(signs: Signs) -> bool:
    long = signs.rtt_ms >= max(signs.base_rtt_ms + QUEUE_MS, QUEUE_STANDING * signs.base_rtt_ms)
    return long and signs.rate_deviation_ratio <= QUEUE_DEVIATION


def _rate(signs: Signs) -> EvidenceFigure:
    return EvidenceFigure("steady throughput", signs.throughput_bps, "bit/s")


def _loss_events(signs: Signs) -> str:
    return f"{signs.loss_events} loss event{'' if signs.loss_events == 1 else 's'}"


def _flight_bytes(signs: Signs) -> float:
    return signs.throughput_bps / 8.0 * signs.rtt_ms / 1000.0


def _size(size_bytes: float) -> str:
    """Two significant digits: 1.5 MB, 79 kB."""
    if math.isnan(size_bytes):
        return "an unknown size"
    scale, unit = next(((s, u) for s, u in ((1e9, "GB"), (1e6, "MB"), (1e3, "kB")) if size_bytes >= s), (1.0, "B"))
    number = size_bytes / scale
    return f"{number:.1f} {unit}" if number < 9.95 else f"{number:.0f} {unit}"


def _rounded_up(size_bytes: float) -> str:
    """Round up to whole MB above 512 kB, to a power of two in kB below."""
    if size_bytes > 512e3:
        return f"{math.ceil(size_bytes / 1e6)} MB"
    return f"{2 ** math.ceil(math.log2(max(1.0, size_bytes / 1000.0)))} kB"
