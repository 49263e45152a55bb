"""Verdicts of the path itself: policer, loss, bottleneck queue.

In: `Signs`, and the `Recording` for settings and prior knowledge. Out: a `TransferFinding`, or None.
`monitor.analysis.transfer.verdicts` has the order in which they are tried.
"""

from __future__ import annotations

import math

from monitor.analysis.figures import bit_rate, milliseconds, percent
from monitor.analysis.transfer.finding import (
    EvidenceFigure,
    TransferFinding,
    Verdict,
    loss_events_text,
    rate_figure,
    size_text,
)
from monitor.analysis.transfer.record import Recording, is_bbr
from monitor.analysis.transfer.signs import Signs
from monitor.analysis.transfer.token_bucket import LEAST_GROUP, TokenBucket

DUPLICATES = 0.5
"""Share of the retransmitted segments above which reordering is the limit: more were late than lost."""

LEAST_LOSS_EVENTS = 3

QUEUE_MS, QUEUE_AT_LOSS, QUEUE_STANDING = 2.0, 1.1, 1.25
"""A queue that drops raises the RTT by at least 2 ms and 10%; a standing queue that does not drop by 25%, as delayed
acknowledgements add a few percent."""

QUEUE_FIGURE = "RTT with the queue"
"""The evidence that a verdict of a queue has, and that of a path paced by BBR has not."""

QUEUE_SEGMENTS = 4.0
"""Minimum length of a queue, by its delay at the rate of the bottleneck: a few milliseconds at 2 Mbit/s hold less than
a segment, and are delayed acknowledgements or a busy host."""

QUEUE_DEVIATION = 0.2
"""Maximum deviation of the rate with a standing queue, which keeps its link busy. With a larger deviation the RTT rose
for another reason, such as a busy host."""

BUFFER_BINDS = 0.5
"""Share of the busy time in which the send buffer was full, above which it is the limit."""

BUSY = 0.8
"""Share of a test in which its sender has data to send, but for the connection setup and short gaps."""

HEAVY_LOSS = 0.05
"""Share of the segments retransmitted above which loss is the limit, not a queue: CUBIC and Reno then keep a window of
5 segments (1.22 / sqrt(p)), which fills no queue of a path worth testing."""

HEAVY_LOSS_BBR = 0.1
"""The same for BBR, which keeps its rate up to there: it probes at 1.25 times the delivered rate, so that 20% of loss
takes all of its growth (Cardwell and others, "BBR: Congestion-based congestion control", 2016)."""

SUSTAINED_LOSS = 0.15
"""Share of the segments retransmitted above which they are not those of slow start alone: a tenth of a test of BBR on a
long path."""

NOTABLE_LOSS = 0.02
"""Share of the segments retransmitted that explains a fall below the path's past: BBRv2's limit for loss."""

FALLEN = 0.5
"""Share of the median of the earlier tests, or without them of the path's capacity, below which a path has lost
throughput."""

NEAR_USUAL = 0.8
"""The same for BBR with heavy loss and a raised RTT: a short queue leaves it nearly the rate of the bottleneck."""

UNSTEADY = 0.5
"""Deviation of the rate above which BBR is not at a bottleneck: it keeps to the rate that it measured there."""

FINE_INTERVAL_S = 0.25
"""Maximum length of intervals in which single loss events, and the RTT before each, can be seen: there a single loss
shows a queue, in longer intervals three do."""

BOUND = 0.67
"""Share of the steady time in which the congestion window must be in flight to be the limit."""

STILL = 0.5
"""Share of the steady time in which the window stands still above which it does not grow back after a loss."""

AFTER_CUT = 0.5
"""Share of the steady time after the loss that cut the window: before that, the window grew freely."""

LINE_RATES_BPS = tuple(1e6 * megabits for megabits in (10, 100, 1000, 2500, 5000, 10_000, 25_000, 40_000, 100_000))
FRAME_SHARES = (1448 / 1538, 1448 / 1514)
"""Payload in a full frame of Ethernet at an MTU of 1500, on the wire and as Linux's shapers count it."""

FRAME_SHARE_WITHIN = 0.005
FRAME_DEVIATION = 0.01
"""An interface that is never idle has that share of its rate, and hardly varies."""


def policed(signs: Signs, recording: Recording) -> TransferFinding | None:
    """Losses at a constant rate, without a queue. Under BBR, whose rate is constant by itself, heavy loss has none."""
    bucket = signs.token_bucket
    if bucket is None or queue_at_loss(signs) or (is_bbr(recording) and signs.resent_ratio >= HEAVY_LOSS_BBR):
        return None
    depth = "shallow" if bucket.depth_bytes is None else f"about {size_text(bucket.depth_bytes)} deep"
    return TransferFinding(
        Verdict.POLICER,
        f"policed at {bit_rate(bucket.rate_bps)}: {_dropped_how(bucket)}; the token bucket is {depth}",
        (
            EvidenceFigure("token rate", bucket.rate_bps, "bit/s"),
            *(() if bucket.depth_bytes is None else (EvidenceFigure("bucket depth", bucket.depth_bytes, "B"),)),
            *(() if bucket.dropping_s is None else (EvidenceFigure("dropping", bucket.dropping_s, "s"),)),
            EvidenceFigure("deviation between losses", bucket.deviation_ratio, ""),
            EvidenceFigure("loss events", signs.loss_events, "count"),
        ),
    )


def _dropped_how(bucket: TokenBucket) -> str:
    within = f"constant to within {percent(bucket.deviation_ratio)}"
    if bucket.dropping_s is None or bucket.dropped_ratio is None:
        return f"the rate between losses is {within}, without queueing before them"
    return (
        f"after a burst above that rate, {percent(bucket.dropped_ratio)} of the segments were retransmitted for"
        f" {bucket.dropping_s:.1f} s at a rate {within}, without queueing"
    )


def heavy_loss(signs: Signs, recording: Recording) -> TransferFinding | None:
    """So much loss that it explains the rate by itself, whatever the queue; or that explains a fall.

    BBR itself loses 10 to 30% in a queue shorter than the bandwidth-delay product, at nearly the rate of the
    bottleneck: with the RTT raised before losses, they are the queue's. Far below the usual rate they need not be, nor
    where no usual rate is known and the RTT is at its minimum most of the time: that rate is no bottleneck's.
    """
    usual_bps = _usual_bps(recording)
    is_unusual = usual_bps is None and signs.resent_ratio >= SUSTAINED_LOSS and not _is_raised(signs)
    if (signs.loss_events < LEAST_LOSS_EVENTS and not is_unusual) or signs.duplicate_ratio >= DUPLICATES:
        return None
    is_queue_near = is_bbr(recording) and queue_at_loss(signs)
    if is_queue_near and not is_unusual and not _is_below(signs, recording, NEAR_USUAL):
        return None
    earlier_bps = recording.earlier_bps
    fallen = _has_fallen(signs, recording)
    least_ratio = NOTABLE_LOSS if fallen else HEAVY_LOSS_BBR if is_bbr(recording) else HEAVY_LOSS
    if not signs.resent_ratio >= least_ratio:
        return None
    before = ""
    if (fallen or is_queue_near) and earlier_bps is not None:
        before = f"; earlier tests of this path had {bit_rate(earlier_bps)}"
    elif usual_bps is not None and (fallen or is_queue_near):
        before = f"; this path has carried {bit_rate(recording.capacity_bps)}"
    if is_queue_near:
        before += "; cannot tell whether a queue dropped them, though the RTT was raised"
    return TransferFinding(
        Verdict.LOSS,
        f"loss-limited at {bit_rate(signs.throughput_bps)}: {percent(signs.resent_ratio)} of the segments were"
        f" retransmitted{before}",
        (
            rate_figure(signs),
            EvidenceFigure("loss", signs.resent_ratio, ""),
            EvidenceFigure("retransmitted", signs.resent_segments, "count"),
            *(() if earlier_bps is None else (EvidenceFigure("earlier tests", earlier_bps, "bit/s"),)),
        ),
    )


def queued(signs: Signs, recording: Recording) -> TransferFinding | None:
    """A queue that drops, or that stands."""
    least_events = 1 if signs.interval_s <= FINE_INTERVAL_S else LEAST_LOSS_EVENTS
    lossy = signs.later_loss_events >= least_events and queue_at_loss(signs)
    if not lossy and not queue_stands(signs):
        return None
    longest_ms = signs.rtt_at_loss_ms if lossy else signs.window.filled_rtt_ms if _fills_queue(signs) else signs.rtt_ms
    end = f"; {loss_events_text(signs)}" if lossy else ""
    if lossy and signs.resent_ratio >= NOTABLE_LOSS:
        end += f", {percent(signs.resent_ratio)} of the segments retransmitted"
    if signs.duplicate_ratio >= DUPLICATES:
        end = "; retransmitted segments were late, not lost"
    return TransferFinding(
        Verdict.BOTTLENECK_QUEUE,
        f"bottleneck of {bit_rate(signs.throughput_bps)}: its queue raises the RTT from"
        f" {milliseconds(signs.base_rtt_ms)} to {milliseconds(longest_ms)}{end}",
        (
            rate_figure(signs),
            EvidenceFigure("idle RTT", signs.base_rtt_ms, "ms"),
            EvidenceFigure(QUEUE_FIGURE, longest_ms, "ms"),
            EvidenceFigure("loss", signs.resent_ratio, ""),
            EvidenceFigure("loss events", signs.loss_events, "count"),
        ),
    )


def paced_by_bbr(signs: Signs, recording: Recording) -> TransferFinding | None:
    """BBR sends at the measured bottleneck rate and causes hardly any queue or loss."""
    if not is_bbr(recording) or not signs.busy_ratio >= BUSY:
        return None
    if signs.send_buffer_limited_ratio >= BUFFER_BINDS:
        return None
    if _has_fallen(signs, recording) or signs.rate_deviation_ratio > UNSTEADY:
        return None
    lost = f"; {percent(signs.resent_ratio)} of the segments were retransmitted" if signs.resent_segments else ""
    return TransferFinding(
        Verdict.BOTTLENECK_QUEUE,
        f"bottleneck of {bit_rate(signs.throughput_bps)}: BBR measured that rate and keeps its queue short{lost}",
        (
            rate_figure(signs),
            EvidenceFigure("busy", signs.busy_ratio, ""),
            EvidenceFigure("RTT", signs.rtt_ms, "ms"),
            EvidenceFigure("loss", signs.resent_ratio, ""),
        ),
    )


def at_line_rate(signs: Signs, recording: Recording) -> TransferFinding | None:
    """A steady rate that is exactly what an Ethernet interface carries, without losses to bring it about."""
    if signs.loss_events or not signs.rate_deviation_ratio <= FRAME_DEVIATION:
        return None
    line_bps = next((line for line in LINE_RATES_BPS if _fills_frames(signs.throughput_bps / line)), None)
    if line_bps is None:
        return None
    return TransferFinding(
        Verdict.BOTTLENECK_QUEUE,
        f"bottleneck of {bit_rate(signs.throughput_bps)}: what Ethernet of {bit_rate(line_bps)} carries, constant to"
        f" within {percent(signs.rate_deviation_ratio)}, without losses",
        (
            rate_figure(signs),
            EvidenceFigure("Ethernet", line_bps, "bit/s"),
            EvidenceFigure("deviation", signs.rate_deviation_ratio, ""),
        ),
    )


def _fills_frames(share: float) -> bool:
    return any(abs(share / full - 1.0) <= FRAME_SHARE_WITHIN for full in FRAME_SHARES)


def lossy(signs: Signs, recording: Recording) -> TransferFinding | None:
    """Loss events of their own, without a queue."""
    if signs.loss_events < LEAST_LOSS_EVENTS or signs.interval_s > FINE_INTERVAL_S:
        return None
    if signs.median_group >= LEAST_GROUP:
        return None
    late = "; unknown whether some were only late" if math.isnan(signs.duplicate_ratio) else ""
    return TransferFinding(
        Verdict.RANDOM_LOSS,
        f"loss-limited at {bit_rate(signs.throughput_bps)}: {percent(signs.resent_ratio)} of the segments were"
        f" retransmitted, in {loss_events_text(signs)} at low and high rates, with the RTT at its minimum of"
        f" {milliseconds(signs.base_rtt_ms)}: not caused by queueing{late}",
        (
            rate_figure(signs),
            EvidenceFigure("loss", signs.resent_ratio, ""),
            EvidenceFigure("loss events", signs.loss_events, "count"),
            EvidenceFigure("RTT at a loss", signs.rtt_at_loss_ms, "ms"),
        ),
    )


def cut_by_loss(signs: Signs, recording: Recording) -> TransferFinding | None:
    """The congestion window bound after a loss had cut it; the test does not show why the path dropped."""
    window = signs.window
    if is_bbr(recording) or not (window.bound_ratio >= BOUND and window.after_cut_ratio >= AFTER_CUT):
        return None
    if window.still_ratio >= STILL:
        return None
    if window.cut_in_start and not signs.loses_later:
        how = (
            f"{_segments(signs)} retransmitted after slow start cut the congestion window to"
            f" {size_text(signs.cwnd_bytes)}, which grows back slowly; run a longer test"
        )
    else:
        each = f" of {signs.median_group:.0f} segments each" if signs.interval_s <= FINE_INTERVAL_S else ""
        how = (
            f"{loss_events_text(signs)}{each}, {percent(signs.resent_ratio)} of all segments, keep the congestion"
            f" window at {size_text(signs.cwnd_bytes)}; {_cause_text(signs)}"
        )
    return TransferFinding(
        Verdict.LOSS,
        f"loss-limited at {bit_rate(signs.throughput_bps)}: {how}",
        (
            rate_figure(signs),
            EvidenceFigure("loss", signs.resent_ratio, ""),
            EvidenceFigure("loss events", signs.loss_events, "count"),
            EvidenceFigure("congestion window", signs.cwnd_bytes, "B"),
            EvidenceFigure("RTT", signs.rtt_ms, "ms"),
        ),
    )


def queue_at_loss(signs: Signs) -> bool:
    """Whether the RTT is raised just before losses."""
    least_ms = max(signs.base_rtt_ms + QUEUE_MS, QUEUE_AT_LOSS * signs.base_rtt_ms)
    return signs.rtt_at_loss_ms >= least_ms and _holds_segments(signs, signs.rtt_at_loss_ms)


def _is_raised(signs: Signs) -> bool:
    """Whether the RTT is raised most of the time."""
    return signs.rtt_ms >= max(signs.base_rtt_ms + QUEUE_MS, QUEUE_AT_LOSS * signs.base_rtt_ms)


def _has_fallen(signs: Signs, recording: Recording) -> bool:
    """Whether the path was far faster before."""
    return _is_below(signs, recording, FALLEN)


def _is_below(signs: Signs, recording: Recording, share: float) -> bool:
    """Whether the rate is below this share of that of the earlier tests, or without them of the path's capacity."""
    usual_bps = _usual_bps(recording)
    return usual_bps is not None and signs.throughput_bps < share * usual_bps


def _usual_bps(recording: Recording) -> float | None:
    return recording.capacity_bps if recording.earlier_bps is None else recording.earlier_bps


def queue_stands(signs: Signs) -> bool:
    """Whether the RTT is raised throughout at a steady rate, or rises with the window while their ratio is steady."""
    if _fills_queue(signs):
        return True
    return _is_long(signs, signs.rtt_ms) and signs.rate_deviation_ratio <= QUEUE_DEVIATION


def _fills_queue(signs: Signs) -> bool:
    """A queue that was never empty has no idle RTT to compare with: its RTTs are the windows over the link's rate."""
    window = signs.window
    steady = window.fills_queue and window.fill_deviation_ratio <= QUEUE_DEVIATION
    return steady and _is_long(signs, window.filled_rtt_ms)


def _is_long(signs: Signs, rtt_ms: float) -> bool:
    least_ms = max(signs.base_rtt_ms + QUEUE_MS, QUEUE_STANDING * signs.base_rtt_ms)
    return rtt_ms >= least_ms and _holds_segments(signs, rtt_ms)


def _holds_segments(signs: Signs, rtt_ms: float) -> bool:
    queued_bytes = signs.throughput_bps / 8.0 * (rtt_ms - signs.base_rtt_ms) / 1000.0
    return queued_bytes >= QUEUE_SEGMENTS * signs.mss_bytes


def _cause_text(signs: Signs) -> str:
    if signs.interval_s <= FINE_INTERVAL_S:
        return "without a visible queue, but too irregular for a policer; run a longer test"
    causes = "queue, policer, line or reordering" if math.isnan(signs.duplicate_ratio) else "queue, policer or line"
    return f"cause ({causes}) not visible at intervals of {signs.interval_s:.2g} s"


def _segments(signs: Signs) -> str:
    return f"{signs.resent_segments:,} segment{'' if signs.resent_segments == 1 else 's'}"
