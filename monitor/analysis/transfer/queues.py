"""Verdicts of a full link: a queue that stands or drops, BBR's measured rate, a used-up capacity. The rate is this
flow's share unless it is the known capacity."""

from __future__ import annotations

import math

from monitor.analysis.figures import bit_rate, milliseconds, percent
from monitor.analysis.transfer.finding import (
    EvidenceFigure,
    TransferFinding,
    Verdict,
    flight_bytes,
    loss_events_text,
    rate_figure,
)
from monitor.analysis.transfer.record import Recording, is_bbr
from monitor.analysis.transfer.signs import Signs
from monitor.analysis.transfer.token_bucket import LEAST_GROUP

# Duplicate share of retransmissions above which reordering is the limit: more were late than lost.
DUPLICATES = 0.5

LEAST_LOSS_EVENTS = 3

# RTT rise of a dropping queue, 2 ms and 5% (10% with unknown variation); a standing queue 25%, above delayed ACKs.
QUEUE_MS, QUEUE_DROPS, QUEUE_UNSURE, QUEUE_STANDING = 2.0, 1.05, 1.1, 1.25

# Share of a known capacity that uses it up: headers and the window's sawtooth take a tenth.
NEAR_CAPACITY = 0.9

# Deviation over mean of the window at losses: a full queue below the first, independent losses above the second.
SAME_WINDOW, OTHER_WINDOW = 0.05, 0.2

# Minimum loss events at the same window: three may be by chance.
LEAST_SAME = 4

# Deviation of the window over its mean from which losses cut it; a constant window proves nothing.
MOVES = 0.1

# Maximum deviation of a rate that losses do not change, since the link is never idle.
PINNED = 0.05

# Median window over bytes in flight above which no constant window or buffer is the limit; such limits give 2 to 2.3.
MOST_OVER_FLIGHT = 2.5

# No buffer is below the initial window (RFC 6928): less in flight is the sender's interface.
LEAST_FLIGHT_SEGMENTS = 10

# Evidence of a queue's verdict that a path paced by BBR lacks.
QUEUE_FIGURE = "RTT with the queue"

# Minimum RTT rise over its variation: 6 to 700 with a queue in the lab, up to 3.3 on idle paths.
NOISE = 6.0

# Minimum queue length at its longest and mostly; shorter delays at low rates are delayed ACKs or busy hosts.
QUEUE_SEGMENTS, STANDING_SEGMENTS = 4.0, 2.0

# Maximum rate deviation of a standing queue; above it another cause, such as a busy host, raised the RTT.
QUEUE_DEVIATION = 0.2

# Share of the busy time with a full send buffer above which it is the limit.
BUFFER_BINDS = 0.5

# Share of a test with data to send, except the connection setup and short gaps.
BUSY = 0.8

# Retransmitted share that explains a fall below the path's past: BBRv2's limit for loss.
NOTABLE_LOSS = 0.02

# Share of the earlier tests' median, or of the capacity, below which a path has lost throughput.
FALLEN = 0.5

# BBR's window over the bytes in flight: 2 or more where something else limits.
BBR_WINDOW = 1.9

# Deviation of the rate above which BBR is not at a bottleneck, where it keeps its measured rate.
UNSTEADY = 0.5

# In longer intervals single loss events are not visible; there three show a queue, here one.
FINE_INTERVAL_S = 0.25

LINE_RATES_BPS = tuple(1e6 * megabits for megabits in (10, 100, 1000, 2500, 5000, 10_000, 25_000, 40_000, 100_000))

# Payload in a full Ethernet frame at an MTU of 1500, on the wire and as Linux's shapers count it.
FRAME_SHARES = (1448 / 1538, 1448 / 1514)

FRAME_SHARE_WITHIN = 0.005

# An interface that is never idle has that share of its rate, and hardly varies.
FRAME_DEVIATION = 0.01


def queued(signs: Signs, recording: Recording) -> TransferFinding | None:
    """A queue that drops or stands; a window far above the flight fills none. BBR empties its queue between losses."""
    drops = signs.loss_events > 0 and is_raised(signs)
    least_events = 1 if signs.interval_s <= FINE_INTERVAL_S else LEAST_LOSS_EVENTS
    at_loss = signs.later_loss_events >= least_events and queue_at_loss(signs)
    if not (drops or queue_stands(signs) or (at_loss and is_bbr(recording))) or outgrew_flight(signs, recording):
        return None
    longest_ms = (
        signs.rtt_at_loss_ms if at_loss else signs.window.filled_rtt_ms if _fills_queue(signs) else signs.rtt_ms
    )
    end = f"; {loss_events_text(signs)}" if drops or at_loss else ""
    if end and signs.resent_ratio >= NOTABLE_LOSS:
        end += f", {percent(signs.resent_ratio)} of the segments retransmitted"
    if signs.duplicate_ratio >= DUPLICATES:
        end = "; retransmitted segments were late, not lost"
    raised = f"its queue raises the RTT from {milliseconds(signs.base_rtt_ms)} to {milliseconds(longest_ms)}{end}"
    return TransferFinding(
        Verdict.BOTTLENECK_QUEUE,
        _link_text(raised, signs, recording),
        (
            rate_figure(signs),
            EvidenceFigure("idle RTT", signs.base_rtt_ms, "ms"),
            EvidenceFigure(QUEUE_FIGURE, longest_ms, "ms"),
            EvidenceFigure("loss", signs.resent_ratio, ""),
            EvidenceFigure("loss events", signs.loss_events, "count"),
        ),
    )


def paced_by_bbr(signs: Signs, recording: Recording) -> TransferFinding | None:
    """BBR sends at the measured bottleneck rate with hardly any queue or loss. Without kernel counters, more than half
    of its window in flight excludes buffers and application."""
    if not is_bbr(recording):
        return None
    is_in_flight = signs.window_limited_ratio < BUFFER_BINDS and signs.window.over_flight_ratio < BBR_WINDOW
    if not (is_in_flight if math.isnan(signs.busy_ratio) else signs.busy_ratio >= BUSY):
        return None
    if signs.send_buffer_limited_ratio >= BUFFER_BINDS:
        return None
    if has_fallen(signs, recording) or signs.rate_deviation_ratio > UNSTEADY:
        return None
    lost = f"; {percent(signs.resent_ratio)} of the segments were retransmitted" if signs.resent_segments else ""
    return TransferFinding(
        Verdict.BOTTLENECK_QUEUE,
        _link_text(f"BBR measured that rate and keeps its queue short{lost}", signs, recording),
        (
            rate_figure(signs),
            EvidenceFigure("busy", signs.busy_ratio, ""),
            EvidenceFigure("RTT", signs.rtt_ms, "ms"),
            EvidenceFigure("loss", signs.resent_ratio, ""),
        ),
    )


def at_capacity(signs: Signs, recording: Recording) -> TransferFinding | None:
    """The known capacity is used up, whether or not the test shows how."""
    capacity_bps = _filled_bps(signs, recording)
    if capacity_bps is None:
        return None
    lost = f"{loss_events_text(signs)} on it" if signs.loss_events else "no loss"
    return TransferFinding(
        Verdict.BOTTLENECK_QUEUE,
        _link_text(lost, signs, recording),
        (rate_figure(signs), EvidenceFigure("capacity", capacity_bps, "bit/s")),
    )


def _filled_bps(signs: Signs, recording: Recording) -> float | None:
    """The known capacity if fully used; None also for a rate above it."""
    capacity_bps = recording.known_capacity_bps
    if capacity_bps is None or not NEAR_CAPACITY <= signs.throughput_bps / capacity_bps <= 1.0 / NEAR_CAPACITY:
        return None
    return capacity_bps


def _link_text(how: str, signs: Signs, recording: Recording) -> str:
    capacity_bps = _filled_bps(signs, recording)
    if capacity_bps is not None:
        full = f"the path is full, it carries {bit_rate(capacity_bps)}"
        return f"bottleneck of {bit_rate(signs.throughput_bps)}: {how}; {full}"
    # A promise or an interface is a bound: the path need not carry it.
    measured_bps = recording.capacity_bps
    of_path = "" if measured_bps is None else f" of a path that carries {bit_rate(measured_bps)}"
    return f"bottleneck at {bit_rate(signs.throughput_bps)}: {how}; this flow's share{of_path}, others may share it"


def at_line_rate(signs: Signs, recording: Recording) -> TransferFinding | None:
    """A steady rate that is exactly an Ethernet interface's, without losses."""
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


def short_queue(signs: Signs, recording: Recording) -> TransferFinding | None:
    """Losses at the same window, or without effect on the rate: a queue too short to raise the RTT."""
    if signs.loss_events < LEAST_LOSS_EVENTS or signs.interval_s > FINE_INTERVAL_S or is_bbr(recording):
        return None
    if not drops_singly(signs, recording) or not window_moves(signs, recording):
        return None
    rate_deviation_ratio = signs.rate_deviation_ratio * math.sqrt(recording.streams)
    same_window = signs.later_loss_events >= LEAST_SAME and signs.loss_window_deviation_ratio <= SAME_WINDOW
    if not (same_window or rate_deviation_ratio <= PINNED):
        return None
    how = (
        f"{loss_events_text(signs)} at the same window, to within {percent(signs.loss_window_deviation_ratio)}"
        if same_window
        else f"constant to within {percent(signs.rate_deviation_ratio)} in spite of {loss_events_text(signs)}"
    )
    return TransferFinding(
        Verdict.BOTTLENECK_QUEUE,
        _link_text(f"{how}: its queue is too short to be seen in the RTT", signs, recording),
        (
            rate_figure(signs),
            EvidenceFigure("loss events", signs.loss_events, "count"),
            EvidenceFigure("deviation of the window at losses", signs.loss_window_deviation_ratio, ""),
            EvidenceFigure("deviation", signs.rate_deviation_ratio, ""),
        ),
    )


def window_moves(signs: Signs, recording: Recording) -> bool:
    """Whether losses cut the congestion window; several streams vary less by the root of their number."""
    return signs.window.deviation_ratio * math.sqrt(recording.streams) >= MOVES


def drops_singly(signs: Signs, recording: Recording) -> bool:
    """Whether a loss event has a segment or two of each stream, unlike a policer's."""
    return signs.median_group < LEAST_GROUP * recording.streams


def queue_at_loss(signs: Signs) -> bool:
    return _is_long(signs, signs.rtt_at_loss_ms, QUEUE_UNSURE)


def is_raised(signs: Signs) -> bool:
    is_long = is_longer(signs, signs.rtt_ms, QUEUE_DROPS) and _holds(signs, signs.rtt_ms, STANDING_SEGMENTS)
    return is_long and not _is_noise(signs)


def has_fallen(signs: Signs, recording: Recording) -> bool:
    """Whether the path was far faster before."""
    return is_below(signs, recording, FALLEN)


def is_below(signs: Signs, recording: Recording, share: float) -> bool:
    """Whether the rate is below this share of the earlier tests, or else of the capacity."""
    usual_bps = recording.usual_bps
    return usual_bps is not None and signs.throughput_bps < share * usual_bps


def queue_stands(signs: Signs) -> bool:
    """Whether the RTT is raised throughout at a steady rate, or rises with the window at a steady ratio."""
    if _fills_queue(signs):
        return True
    is_long = _is_long(signs, signs.rtt_ms, QUEUE_STANDING) and not _is_noise(signs)
    return is_long and signs.rate_deviation_ratio <= QUEUE_DEVIATION


def _fills_queue(signs: Signs) -> bool:
    # For a queue that was never empty: RTT is window over rate.
    window = signs.window
    steady = window.fills_queue and window.fill_deviation_ratio <= QUEUE_DEVIATION
    return steady and _is_long(signs, window.filled_rtt_ms, QUEUE_UNSURE)


def outgrew_flight(signs: Signs, recording: Recording) -> bool:
    """Whether far more was in flight when the congestion window grew; not for the initial window or BBR's."""
    if is_bbr(recording) or flight_bytes(signs) < LEAST_FLIGHT_SEGMENTS * recording.mss_bytes:
        return False
    return signs.window.over_flight_ratio > MOST_OVER_FLIGHT


def _is_long(signs: Signs, rtt_ms: float, times: float) -> bool:
    return is_longer(signs, rtt_ms, times) and _holds(signs, rtt_ms, QUEUE_SEGMENTS)


def _is_noise(signs: Signs) -> bool:
    """Whether the RTT varies from packet to packet without a queue."""
    if math.isnan(signs.rtt_variation_ms):
        return not is_longer(signs, signs.rtt_ms, QUEUE_UNSURE)
    return signs.rtt_ms - signs.base_rtt_ms < NOISE * signs.rtt_variation_ms


def is_longer(signs: Signs, rtt_ms: float, times: float) -> bool:
    return rtt_ms >= max(signs.base_rtt_ms + QUEUE_MS, times * signs.base_rtt_ms)


def _holds(signs: Signs, rtt_ms: float, segments: float) -> bool:
    queued_bytes = signs.throughput_bps / 8.0 * (rtt_ms - signs.base_rtt_ms) / 1000.0
    return queued_bytes >= segments * signs.mss_bytes
