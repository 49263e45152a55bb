"""Verdicts of a path that drops: policer, heavy loss, random loss, and loss of unknown cause. `verdicts` has their
order."""

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
from monitor.analysis.transfer.queues import (
    DUPLICATES,
    FINE_INTERVAL_S,
    LEAST_LOSS_EVENTS,
    NOTABLE_LOSS,
    OTHER_WINDOW,
    QUEUE_DROPS,
    drops_singly,
    has_fallen,
    is_below,
    is_longer,
    is_raised,
    queue_at_loss,
    window_moves,
)
from monitor.analysis.transfer.record import Recording, is_bbr
from monitor.analysis.transfer.signs import Signs
from monitor.analysis.transfer.token_bucket import TokenBucket
from monitor.analysis.transfer.window_use import OPEN, OVERUSED

# Retransmit share above which loss is the limit: CUBIC and Reno then keep 5 segments (1.22 / sqrt(p)), no queue.
HEAVY_LOSS = 0.05

# The same for BBR, which probes at 1.25: 20% loss takes its growth (Cardwell and others, "BBR: Congestion-based
# congestion control", 2016).
HEAVY_LOSS_BBR = 0.1

# Retransmit share beyond slow start alone, which is a tenth of a BBR test on a long path.
SUSTAINED_LOSS = 0.15

# Share of the usual rate above which BBR's heavy loss is a short queue's, which leaves nearly the bottleneck's rate.
NEAR_USUAL = 0.8

# Share of steady time with a constant window above which it does not regrow after a loss.
STILL = 0.5

# Share of the steady time after the cutting loss: before it, the window grew freely.
AFTER_CUT = 0.5


def policed(signs: Signs, recording: Recording) -> TransferFinding | None:
    """Losses at a constant rate, without a queue. BBR's rate is constant whatever drops."""
    bucket = signs.token_bucket
    if bucket is None or queue_at_loss(signs) or (is_bbr(recording) and bucket.dropping_s is None):
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
    """Loss that explains the rate, or a fall, by itself. BBR's 10 to 30% loss with a raised RTT is a queue's instead,
    unless far below the usual rate."""
    usual_bps = recording.usual_bps
    # With the RTT mostly at its minimum, loss is not a bottleneck's.
    is_unusual = usual_bps is None and signs.resent_ratio >= SUSTAINED_LOSS and not is_raised(signs)
    if (signs.loss_events < LEAST_LOSS_EVENTS and not is_unusual) or signs.duplicate_ratio >= DUPLICATES:
        return None
    is_queue_near = is_bbr(recording) and queue_at_loss(signs)
    if is_queue_near and not is_unusual and not is_below(signs, recording, NEAR_USUAL):
        return None
    earlier_bps = recording.earlier_bps
    fallen = has_fallen(signs, recording)
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


def lossy(signs: Signs, recording: Recording) -> TransferFinding | None:
    """Separate loss events, at low and high windows, without a queue."""
    if signs.loss_events < LEAST_LOSS_EVENTS or signs.interval_s > FINE_INTERVAL_S:
        return None
    if not drops_singly(signs, recording):
        return None
    if window_moves(signs, recording) and signs.loss_window_deviation_ratio < OTHER_WINDOW:
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
    """The congestion window bound after a loss cut it; the cause of the drop is unknown."""
    window = signs.window
    if is_bbr(recording) or not (OVERUSED <= window.over_flight_ratio < OPEN and window.after_cut_ratio >= AFTER_CUT):
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


def _cause_text(signs: Signs) -> str:
    if signs.interval_s <= FINE_INTERVAL_S:
        return "without a visible queue, but too irregular for a policer; run a longer test"
    queue = "queue" if math.isnan(signs.rtt_ms) or is_longer(signs, signs.rtt_ms, QUEUE_DROPS) else "short queue"
    causes = (
        f"{queue}, policer, line or reordering" if math.isnan(signs.duplicate_ratio) else f"{queue}, policer or line"
    )
    return f"cause ({causes}) not visible at intervals of {signs.interval_s:.2g} s"


def _segments(signs: Signs) -> str:
    return f"{signs.resent_segments:,} segment{'' if signs.resent_segments == 1 else 's'}"
