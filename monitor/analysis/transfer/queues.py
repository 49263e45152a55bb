"""Verdicts of a full link: a queue that stands or drops, a rate that BBR measured, a known capacity that is used up.

In: `Signs`, and the `Recording` for settings and prior knowledge. Out: a `TransferFinding`, or None. A queue shows that
a link on the path is full, and not who fills it: the rate is this flow's share unless it is the known capacity.
"""

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

DUPLICATES = 0.5
"""Share of the retransmitted segments above which reordering is the limit: more were late than lost."""

LEAST_LOSS_EVENTS = 3

QUEUE_MS, QUEUE_DROPS, QUEUE_UNSURE, QUEUE_STANDING = 2.0, 1.05, 1.1, 1.25
"""A queue that drops raises the RTT of most intervals by at least 2 ms and 5%, or 10% where its variation is not known;
a standing queue that does not drop by 25%, as delayed acknowledgements add a few percent."""

NEAR_CAPACITY = 0.9
"""Share of a known capacity from which on it is used up: headers and the sawtooth of the window take a tenth."""

SAME_WINDOW, OTHER_WINDOW = 0.05, 0.2
"""Deviation of the congestion window at loss events over its mean: below the first a full queue drops at its length,
above the second losses are independent, whose windows are spread like the times between them."""

LEAST_SAME = 4
"""Minimum loss events at the same window: three may be by chance."""

MOVES = 0.1
"""Deviation of the congestion window over its mean from which on losses cut it: a window that stands still tells
nothing about them."""

PINNED = 0.05
"""Maximum deviation of a rate that losses do not change, since the link is never idle."""

MOST_OVER_FLIGHT = 2.5
"""Median ratio of the congestion window to the bytes in flight above which no constant window or buffer holds the
flight: with it the congestion window ends at twice the flight, at 2.3 times with pauses and writes in blocks."""

LEAST_FLIGHT_SEGMENTS = 10
"""No buffer is smaller than the initial window (RFC 6928): less in flight is held back by the sender's interface."""

QUEUE_FIGURE = "RTT with the queue"
"""The evidence that a verdict of a queue has, and that of a path paced by BBR has not."""

NOISE = 6.0
"""Minimum rise of the RTT over its own variation, which is that from packet to packet: in the lab 6 to 700 in a queue
that others share or not, up to 3.3 on idle paths with jitter or delayed acknowledgements."""

QUEUE_SEGMENTS, STANDING_SEGMENTS = 4.0, 2.0
"""Minimum length of a queue at its longest, and most of the time, by its delay at the rate of the bottleneck: a few
milliseconds at 2 Mbit/s hold less than a segment, and are delayed acknowledgements or a busy host."""

QUEUE_DEVIATION = 0.2
"""Maximum deviation of the rate with a standing queue, which keeps its link busy. With a larger deviation the RTT rose
for another reason, such as a busy host."""

BUFFER_BINDS = 0.5
"""Share of the busy time in which the send buffer was full, above which it is the limit."""

BUSY = 0.8
"""Share of a test in which its sender has data to send, but for the connection setup and short gaps."""

NOTABLE_LOSS = 0.02
"""Share of the segments retransmitted that explains a fall below the path's past: BBRv2's limit for loss."""

FALLEN = 0.5
"""Share of the median of the earlier tests, or without them of the path's capacity, below which a path has lost
throughput."""

BBR_WINDOW = 1.9
"""BBR's window over the bytes in flight: 2 where something else limits, as its room for bursts comes on top."""

UNSTEADY = 0.5
"""Deviation of the rate above which BBR is not at a bottleneck: it keeps to the rate that it measured there."""

FINE_INTERVAL_S = 0.25
"""Maximum length of intervals in which single loss events, and the RTT before each, can be seen: there a single loss
shows a queue, in longer intervals three do."""

LINE_RATES_BPS = tuple(1e6 * megabits for megabits in (10, 100, 1000, 2500, 5000, 10_000, 25_000, 40_000, 100_000))

FRAME_SHARES = (1448 / 1538, 1448 / 1514)
"""Payload in a full frame of Ethernet at an MTU of 1500, on the wire and as Linux's shapers count it."""

FRAME_SHARE_WITHIN = 0.005

FRAME_DEVIATION = 0.01
"""An interface that is never idle has that share of its rate, and hardly varies."""


def queued(signs: Signs, recording: Recording) -> TransferFinding | None:
    """A queue that drops, or that stands. A window far above the flight fills none.

    BBR empties its queue between losses, so that the RTT before them shows it.
    """
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
    """BBR sends at the measured bottleneck rate and causes hardly any queue or loss.

    Its window is twice what the path holds at that rate. Without the kernel's counters, more than half of it in flight
    shows that the path holds the data, and no buffer or application; nor does the peer's window, where that is known.
    """
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
    """The known capacity where the test had all of it, else None. A rate above it shows that it is not the capacity."""
    capacity_bps = recording.known_capacity_bps
    if capacity_bps is None or not NEAR_CAPACITY <= signs.throughput_bps / capacity_bps <= 1.0 / NEAR_CAPACITY:
        return None
    return capacity_bps


def _link_text(how: str, signs: Signs, recording: Recording) -> str:
    """The rate of a flow that the path's link limits: all of the link, or a share that only its capacity would tell."""
    capacity_bps = _filled_bps(signs, recording)
    if capacity_bps is not None:
        full = f"the path is full, it carries {bit_rate(capacity_bps)}"
        return f"bottleneck of {bit_rate(signs.throughput_bps)}: {how}; {full}"
    # A promise or an interface is a bound: the path need not carry it.
    measured_bps = recording.capacity_bps
    of_path = "" if measured_bps is None else f" of a path that carries {bit_rate(measured_bps)}"
    return f"bottleneck at {bit_rate(signs.throughput_bps)}: {how}; this flow's share{of_path}, others may share it"


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


def short_queue(signs: Signs, recording: Recording) -> TransferFinding | None:
    """Losses that come at the same window, or leave the rate as it is: of a queue too short to raise the RTT."""
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
    """Whether losses cut the congestion window. The sum of several streams varies less by the root of their number."""
    return signs.window.deviation_ratio * math.sqrt(recording.streams) >= MOVES


def drops_singly(signs: Signs, recording: Recording) -> bool:
    """Whether a loss event has a segment or two of each stream, as a policer's have not."""
    return signs.median_group < LEAST_GROUP * recording.streams


def queue_at_loss(signs: Signs) -> bool:
    """Whether the RTT is raised just before losses."""
    return _is_long(signs, signs.rtt_at_loss_ms, QUEUE_UNSURE)


def is_raised(signs: Signs) -> bool:
    """Whether the RTT is raised most of the time."""
    is_long = is_longer(signs, signs.rtt_ms, QUEUE_DROPS) and _holds(signs, signs.rtt_ms, STANDING_SEGMENTS)
    return is_long and not _is_noise(signs)


def has_fallen(signs: Signs, recording: Recording) -> bool:
    """Whether the path was far faster before."""
    return is_below(signs, recording, FALLEN)


def is_below(signs: Signs, recording: Recording, share: float) -> bool:
    """Whether the rate is below this share of that of the earlier tests, or without them of the path's capacity."""
    usual_bps = recording.usual_bps
    return usual_bps is not None and signs.throughput_bps < share * usual_bps


def queue_stands(signs: Signs) -> bool:
    """Whether the RTT is raised throughout at a steady rate, or rises with the window while their ratio is steady."""
    if _fills_queue(signs):
        return True
    is_long = _is_long(signs, signs.rtt_ms, QUEUE_STANDING) and not _is_noise(signs)
    return is_long and signs.rate_deviation_ratio <= QUEUE_DEVIATION


def _fills_queue(signs: Signs) -> bool:
    """A queue that was never empty has no idle RTT to compare with: its RTTs are the windows over the link's rate."""
    window = signs.window
    steady = window.fills_queue and window.fill_deviation_ratio <= QUEUE_DEVIATION
    return steady and _is_long(signs, window.filled_rtt_ms, QUEUE_UNSURE)


def outgrew_flight(signs: Signs, recording: Recording) -> bool:
    """Whether far more was in flight when the congestion window grew. The initial window did not grow, and BBR's has
    room for bursts of acknowledgements."""
    if is_bbr(recording) or flight_bytes(signs) < LEAST_FLIGHT_SEGMENTS * recording.mss_bytes:
        return False
    return signs.window.over_flight_ratio > MOST_OVER_FLIGHT


def _is_long(signs: Signs, rtt_ms: float, times: float) -> bool:
    return is_longer(signs, rtt_ms, times) and _holds(signs, rtt_ms, QUEUE_SEGMENTS)


def _is_noise(signs: Signs) -> bool:
    """Whether the RTT varies by itself, from packet to packet, so that most are above the minimum without a queue."""
    if math.isnan(signs.rtt_variation_ms):
        return not is_longer(signs, signs.rtt_ms, QUEUE_UNSURE)
    return signs.rtt_ms - signs.base_rtt_ms < NOISE * signs.rtt_variation_ms


def is_longer(signs: Signs, rtt_ms: float, times: float) -> bool:
    return rtt_ms >= max(signs.base_rtt_ms + QUEUE_MS, times * signs.base_rtt_ms)


def _holds(signs: Signs, rtt_ms: float, segments: float) -> bool:
    queued_bytes = signs.throughput_bps / 8.0 * (rtt_ms - signs.base_rtt_ms) / 1000.0
    return queued_bytes >= segments * signs.mss_bytes
