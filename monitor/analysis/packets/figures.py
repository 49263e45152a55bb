"""Figures of a TCP connection's direction, counted as by tcptrace (Ostermann).

Next to the sender RTTs are the path's and all retransmissions are seen; next to the receiver RTTs are nearly zero, and
a retransmission of a lost segment fills a hole.
"""

from __future__ import annotations

import itertools
from bisect import bisect_right
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

import numpy as np

from monitor.analysis.packets.connections import ACK, RST, SYN, TcpConnection, TcpDirection, TcpSegment
from monitor.analysis.packets.kept import KeptPart, kept_ranges, longest_segment, of_start
from monitor.analysis.packets.ranges import ByteRanges

MS = 1_000_000
# Linux's least retransmission timeout; a pause lasts at least this and two RTTs.
SHORTEST_PAUSE_MS = 200.0
PAUSE_RTTS = 2.0
BURST_RTTS = 0.1


class Waited(StrEnum):
    """Why a sender paused; unknown if the capture lacks the windows."""

    APPLICATION = "application"
    WINDOW = "window"
    ACKS = "acks"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class DataPause:
    """A time without data between data, from the first packet of the connection on."""

    begin_ms: float
    duration_ms: float
    outstanding_bytes: int  # halfway through the pause
    waited_for: Waited


@dataclass(frozen=True, slots=True)
class _State:
    """State after a packet."""

    at_ns: int
    outstanding_bytes: int  # sent and not acknowledged
    window_bytes: int | None  # offered by the receiver; None if not known


@dataclass(frozen=True, slots=True)
class CaptureFigures:
    """Figures of the data in one direction and of the ACKs of the other, None without evidence. Milliseconds count from
    the connection's first packet."""

    source: str
    destination: str
    duration_ms: float | None
    packets: int
    data_packets: int
    payload_bytes: int
    unique_bytes: int
    resent_packets: int
    resent_bytes: int
    out_of_order_packets: int
    loss_events: int | None
    rate_bps: float | None
    mss_bytes: int | None
    handshake_ms: float | None
    rtt_min_ms: float | None
    rtt_median_ms: float | None
    rtt_p95_ms: float | None
    rtt_max_ms: float | None
    rtt_samples: int
    outstanding_max_bytes: int | None
    window_min_bytes: int | None
    window_max_bytes: int | None
    zero_window_packets: int
    ack_packets: int
    duplicate_acks: int
    sack_packets: int
    most_sack_blocks: int
    duplicate_sack_packets: int
    largest_burst_bytes: int | None
    pauses: tuple[DataPause, ...]
    was_reset: bool
    captured_ratio: float | None = None  # share of the bytes captured, to which the counts refer; else None
    start_ms: float | None = None  # RTTs, outstanding bytes, bursts and pauses are of this time alone
    copies: int = 0  # left out, of both directions
    cut_packets: int = 0  # with options missing in the capture, of both directions
    clock_back_ms: float | None = None  # how far the clock went back; then no figures in time


@dataclass(slots=True)
class _Sent:
    """The data of a direction, replayed."""

    unique: ByteRanges
    resent_at_ns: list[int]
    resent_bytes: int = 0
    out_of_order: int = 0


def figures_of(connection: TcpConnection, direction: TcpDirection | None = None) -> CaptureFigures:
    """The figures of a direction, by default of the direction with more payload."""
    data = direction or connection.sender
    acks = connection.other(data)
    # The start of a test's capture may end before a connection begins.
    times_ns = [segment.at_ns for way in connection.directions for segment in way.segments] or [0]
    begin_ns, end_ns = min(times_ns), max(times_ns)
    carrying = [segment for segment in data.segments if segment.payload_bytes]
    sent = _replayed(carrying)
    has_clock = connection.clock_back_ns is None
    rtts_ms = _round_trips_ms(data, acks) if has_clock else np.array([])
    handshake_ms = _handshake_ms(data, acks) if has_clock else None
    least_ms = float(rtts_ms.min()) if len(rtts_ms) else handshake_ms
    mss_bytes = _least(data.mss_bytes, acks.mss_bytes)
    windows = _windows_bytes(data, acks)
    states = _states(data, acks) if has_clock else []
    quantiles = np.quantile(rtts_ms, (0.5, 0.95)) if len(rtts_ms) else (None, None)
    return CaptureFigures(
        source=data.source,
        destination=data.destination,
        duration_ms=(end_ns - begin_ns) / MS if has_clock else None,
        packets=len(data.segments),
        data_packets=len(carrying),
        payload_bytes=data.payload_bytes,
        unique_bytes=sent.unique.total_bytes,
        resent_packets=len(sent.resent_at_ns),
        resent_bytes=sent.resent_bytes,
        out_of_order_packets=sent.out_of_order,
        loss_events=_events(sent.resent_at_ns, (_float(quantiles[0]) or least_ms or 0.0) * MS) if has_clock else None,
        rate_bps=_rate_bps(connection, carrying, sent.unique.total_bytes),
        mss_bytes=mss_bytes,
        handshake_ms=handshake_ms,
        rtt_min_ms=None if not len(rtts_ms) else float(rtts_ms.min()),
        rtt_median_ms=_float(quantiles[0]),
        rtt_p95_ms=_float(quantiles[1]),
        rtt_max_ms=None if not len(rtts_ms) else float(rtts_ms.max()),
        rtt_samples=len(rtts_ms),
        outstanding_max_bytes=max((state.outstanding_bytes for state in states), default=None),
        window_min_bytes=min(windows, default=None),
        window_max_bytes=max(windows, default=None),
        zero_window_packets=windows.count(0),
        ack_packets=sum(1 for segment in acks.segments if segment.flags & ACK),
        duplicate_acks=_duplicate_acks(acks),
        sack_packets=sum(1 for segment in acks.segments if segment.sack),
        most_sack_blocks=max((len(segment.sack) for segment in acks.segments), default=0),
        duplicate_sack_packets=sum(1 for segment in acks.segments if _is_duplicate_sack(segment)),
        largest_burst_bytes=_largest_burst_bytes(carrying, (least_ms or 0.0) * BURST_RTTS * MS),
        pauses=_pauses(carrying, states, begin_ns, max(SHORTEST_PAUSE_MS, PAUSE_RTTS * (least_ms or 0.0)), mss_bytes)
        if has_clock
        else (),
        was_reset=any(segment.flags & RST for way in connection.directions for segment in way.segments),
        copies=sum(way.recent.copies for way in connection.directions),
        cut_packets=sum(way.cut_packets for way in connection.directions),
        clock_back_ms=None if connection.clock_back_ns is None else connection.clock_back_ns / MS,
    )


def _rate_bps(connection: TcpConnection, carrying: Sequence[TcpSegment], data_bytes: int) -> float | None:
    """Rate from the first to the last packet with data; None without duration."""
    times_ns = [segment.at_ns for segment in carrying] or [0]
    duration_s = (max(times_ns) - min(times_ns)) / 1e9
    return data_bytes * 8 / duration_s if duration_s > 0 and connection.clock_back_ns is None else None


def captured_figures_of(connection: TcpConnection, parts: Sequence[KeptPart]) -> CaptureFigures:
    """Figures of the direction with more payload in a capture with these parts, empty for all."""
    whole = figures_of(connection)
    if not parts:
        return whole
    data = connection.sender
    opening = of_start(connection, parts)
    way = opening.directions[connection.directions.index(data)]
    start = figures_of(opening, way)
    kept = kept_ranges(connection, data, parts, longest_segment(data))
    carrying = [segment for segment in data.segments if segment.payload_bytes]
    sent = _replayed(carrying, kept)
    progress = max(segment.begin + segment.payload_bytes for segment in carrying) - carrying[0].begin
    return replace(
        whole,
        unique_bytes=kept.total_bytes,
        resent_packets=len(sent.resent_at_ns),
        resent_bytes=sent.resent_bytes,
        out_of_order_packets=sent.out_of_order,
        loss_events=None
        if whole.loss_events is None
        else _events(sent.resent_at_ns, (start.rtt_median_ms or start.handshake_ms or 0.0) * MS),
        rate_bps=_rate_bps(connection, carrying, progress),
        rtt_min_ms=start.rtt_min_ms,
        rtt_median_ms=start.rtt_median_ms,
        rtt_p95_ms=start.rtt_p95_ms,
        rtt_max_ms=start.rtt_max_ms,
        rtt_samples=start.rtt_samples,
        outstanding_max_bytes=start.outstanding_max_bytes,
        largest_burst_bytes=start.largest_burst_bytes,
        pauses=start.pauses,
        captured_ratio=min(1.0, kept.total_bytes / progress),
        start_ms=start.duration_ms,
    )


def _float(value: float | None) -> float | None:
    return None if value is None else float(value)


def _least(*values: int | None) -> int | None:
    return min((value for value in values if value is not None), default=None)


def _replayed(carrying: list[TcpSegment], kept: ByteRanges | None = None) -> _Sent:
    """Count retransmissions and packets out of order within the captured parts."""
    sent = _Sent(ByteRanges(), [])
    for segment in carrying:
        newest = sent.unique.end
        end = segment.begin + segment.payload_bytes
        fresh = sent.unique.add(segment.begin, end)
        if kept is not None and not kept.has(segment.begin):
            continue
        if fresh < segment.payload_bytes:
            sent.resent_at_ns.append(segment.at_ns)
            sent.resent_bytes += segment.payload_bytes - fresh
        elif newest is not None and end <= newest:
            sent.out_of_order += 1
    return sent


def _events(at_ns: list[int], apart_ns: float) -> int:
    return sum(1 for i, at in enumerate(at_ns) if i == 0 or at - at_ns[i - 1] > apart_ns)


def _merged(data: TcpDirection, acks: TcpDirection) -> list[tuple[bool, TcpSegment]]:
    """All segments in time: whether of the data's direction, and the segment."""
    both = [(True, segment) for segment in data.segments] + [(False, segment) for segment in acks.segments]
    return sorted(both, key=lambda item: item[1].at_ns)


def _round_trips_ms(data: TcpDirection, acks: TcpDirection) -> np.ndarray:
    """One RTT for each ACK of a segment sent once (Karn), unless an earlier one was resent meanwhile."""
    waiting: deque[tuple[int, int]] = deque()  # end and time of segments sent once, by their ends
    resent_at_ns, highest, acknowledged = -1, 0, 0
    samples = []
    for is_data, segment in _merged(data, acks):
        if is_data and segment.end > segment.begin:
            if segment.end <= highest:
                resent_at_ns = segment.at_ns
                while waiting and waiting[-1][0] >= segment.begin:
                    waiting.pop()
            else:
                highest = segment.end
                waiting.append((highest, segment.at_ns))
        elif not is_data and segment.ack is not None and segment.ack > acknowledged:
            acknowledged = segment.ack
            while waiting and waiting[0][0] <= acknowledged:
                end, sent_at_ns = waiting.popleft()
                if end == acknowledged and sent_at_ns > resent_at_ns:
                    samples.append((segment.at_ns - sent_at_ns) / MS)
    return np.array(samples)


def _handshake_ms(data: TcpDirection, acks: TcpDirection) -> float | None:
    """From the first SYN to its answer, if each was sent once."""
    syns = [[segment for segment in way.segments if segment.flags & SYN] for way in (data, acks)]
    if any(len(way) != 1 for way in syns):
        return None
    return abs(syns[1][0].at_ns - syns[0][0].at_ns) / MS


def window_scale(data: TcpDirection, acks: TcpDirection) -> int | None:
    """Exponent of the receiver's window scale (RFC 7323); None in a capture without both SYNs."""
    if data.mss_bytes is None or acks.mss_bytes is None:
        return None
    return 0 if data.window_scale is None or acks.window_scale is None else acks.window_scale


def _windows_bytes(data: TcpDirection, acks: TcpDirection) -> list[int]:
    """Windows offered after the SYN; empty without their scale."""
    scale = window_scale(data, acks)
    if scale is None:
        return []
    return [segment.window << scale for segment in acks.segments if not segment.flags & (SYN | RST)]


def _states(data: TcpDirection, acks: TcpDirection) -> list[_State]:
    newest, acknowledged, states = 0, 0, []
    scale, window = window_scale(data, acks), None
    for is_data, segment in _merged(data, acks):
        if is_data:
            newest = max(newest, segment.end)
        elif segment.ack is not None:
            acknowledged = max(acknowledged, segment.ack)
            window = None if scale is None else segment.window << scale
        states.append(_State(segment.at_ns, max(0, newest - acknowledged), window))
    return states


def _duplicate_acks(acks: TcpDirection) -> int:
    """ACKs that repeat the one before, without data (RFC 5681, section 2, except the window)."""
    count, last = 0, None
    for segment in acks.segments:
        if segment.ack is None or segment.end > segment.begin:
            continue
        count += segment.ack == last and bool(segment.sack)
        last = segment.ack
    return count


def _is_duplicate_sack(segment: TcpSegment) -> bool:
    """A first block below the ACK or within the second (RFC 2883)."""
    if not segment.sack or segment.ack is None:
        return False
    (left, right), *others = segment.sack
    return left < segment.ack or any(begin <= left and right <= end for begin, end in others[:1])


def _largest_burst_bytes(carrying: list[TcpSegment], width_ns: float) -> int | None:
    """The most payload sent within a tenth of the least RTT."""
    if not carrying or width_ns <= 0:
        return None
    largest = total = first = 0
    for segment in carrying:
        total += segment.payload_bytes
        while segment.at_ns - carrying[first].at_ns > width_ns:
            total -= carrying[first].payload_bytes
            first += 1
        largest = max(largest, total)
    return largest


def _pauses(
    carrying: list[TcpSegment], states: list[_State], begin_ns: int, shortest_ms: float, mss_bytes: int | None
) -> tuple[DataPause, ...]:
    at_ns = [state.at_ns for state in states]
    pauses = []
    for before, after in itertools.pairwise(carrying):
        if after.at_ns - before.at_ns < shortest_ms * MS:
            continue
        state = states[bisect_right(at_ns, (before.at_ns + after.at_ns) // 2) - 1]
        begin_ms, duration_ms = (before.at_ns - begin_ns) / MS, (after.at_ns - before.at_ns) / MS
        pauses.append(DataPause(begin_ms, duration_ms, state.outstanding_bytes, _waited_for(state, mss_bytes)))
    return tuple(pauses)


def _waited_for(state: _State, mss_bytes: int | None) -> Waited:
    if state.window_bytes is not None and state.window_bytes - state.outstanding_bytes < (mss_bytes or 1):
        return Waited.WINDOW
    if state.outstanding_bytes:
        return Waited.ACKS
    return Waited.UNKNOWN if state.window_bytes is None else Waited.APPLICATION
