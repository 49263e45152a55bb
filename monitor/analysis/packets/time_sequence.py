"""The time-sequence plot of a TCP connection, as in tcptrace, with at most some thousand marks. Seconds count from the
connection's first packet, bytes from the first of the data."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeVar

from monitor.analysis.packets.connections import RST, SYN, TcpConnection, TcpDirection, TcpSegment
from monitor.analysis.packets.figures import window_scale
from monitor.analysis.packets.kept import KeptPart, kept_ranges, longest_segment
from monitor.analysis.packets.ranges import ByteRanges

NS = 1e9
# Steps of time within which data, ACKs and windows are drawn as one mark.
STEPS = 300
# Of retransmissions, of SACK blocks, of zero windows: beyond that every nth is drawn.
MOST_MARKS = 300
# Of new data and its gaps: several hundred, unless packets are missing.
MOST_FRESH = 3000

Mark = TypeVar("Mark")


@dataclass(frozen=True, slots=True)
class SentRange:
    """Bytes [begin, end) that were sent between two times."""

    begin_s: float
    end_s: float
    begin: int
    end: int


@dataclass(frozen=True, slots=True)
class AckPoint:
    """Acknowledged and permitted bytes."""

    at_s: float
    ack: int
    limit: int | None  # end of the receiver's window; None if its scale was not captured


@dataclass(frozen=True, slots=True)
class SackBlock:
    """Bytes [begin, end) that the receiver reported beyond a hole."""

    at_s: float
    begin: int
    end: int


@dataclass(frozen=True, slots=True)
class TimeSequence:
    """Data, ACKs, windows and SACK blocks of the plot."""

    duration_s: float
    fresh: tuple[SentRange, ...]  # sent for the first time
    resent: tuple[SentRange, ...]  # retransmissions
    late: tuple[SentRange, ...]  # below the highest byte, not captured before
    acks: tuple[AckPoint, ...]
    sacks: tuple[SackBlock, ...]
    zero_windows: tuple[AckPoint, ...]
    missing: tuple[SentRange, ...] = ()  # bytes with their packets missing in the capture


def time_sequence(connection: TcpConnection, parts: Sequence[KeptPart] = ()) -> TimeSequence:
    """The plot of the direction with more payload; without parts the capture has all packets."""
    data = connection.sender
    acks = connection.other(data)
    times_ns = [segment.at_ns for way in connection.directions for segment in way.segments]
    begin_ns, end_ns = min(times_ns), max(times_ns)
    step_ns = max(1, (end_ns - begin_ns) // STEPS)
    kept = kept_ranges(connection, data, parts, longest_segment(data)) if parts else None
    fresh, resent, late = _sorted_data(data, begin_ns, kept)
    points = _ack_points(data, acks, begin_ns)
    zero = [point for point in points if point.limit == point.ack]
    return TimeSequence(
        duration_s=(end_ns - begin_ns) / NS,
        fresh=_every_nth(_joined(fresh, step_ns / NS), MOST_FRESH),
        resent=_every_nth(_joined(resent, step_ns / NS)),
        late=_every_nth(_joined(late, step_ns / NS)),
        acks=tuple({int(point.at_s * NS) // step_ns: point for point in points}.values()),
        sacks=_every_nth(_sack_blocks(acks, begin_ns, step_ns)),
        zero_windows=_every_nth(zero),
        missing=()
        if kept is None
        else _every_nth(_missing(fresh, kept_ranges(connection, data, parts, 0)), MOST_FRESH),
    )


def _missing(fresh: list[SentRange], kept: ByteRanges) -> tuple[SentRange, ...]:
    return tuple(
        SentRange(before.end_s, after.begin_s, before.end, after.begin)
        for before, after in itertools.pairwise(fresh)
        if after.begin > before.end and not kept.has((before.end + after.begin) // 2)
    )


def _sorted_data(
    data: TcpDirection, begin_ns: int, kept: ByteRanges | None
) -> tuple[list[SentRange], list[SentRange], list[SentRange]]:
    seen = ByteRanges()
    fresh: list[SentRange] = []
    resent: list[SentRange] = []
    late: list[SentRange] = []
    for segment in data.segments:
        if not segment.payload_bytes:
            continue
        highest, end = seen.end, segment.begin + segment.payload_bytes
        added = seen.add(segment.begin, end)
        at_s = (segment.at_ns - begin_ns) / NS
        is_old = highest is not None and end <= highest
        if is_old and kept is not None and not kept.has(segment.begin):
            continue
        kind = resent if added < segment.payload_bytes else late if is_old else fresh
        kind.append(SentRange(at_s, at_s, segment.begin, end))
    return fresh, resent, late


def _joined(ranges: Sequence[SentRange], step_s: float) -> list[SentRange]:
    joined: list[SentRange] = []
    for sent in ranges:
        last = joined[-1] if joined else None
        if last is not None and last.end == sent.begin and 0 <= sent.begin_s - last.begin_s < step_s:
            joined[-1] = SentRange(last.begin_s, sent.end_s, last.begin, sent.end)
        else:
            joined.append(sent)
    return joined


def _ack_points(data: TcpDirection, acks: TcpDirection, begin_ns: int) -> list[AckPoint]:
    scale = window_scale(data, acks)
    return [
        AckPoint(
            (segment.at_ns - begin_ns) / NS,
            segment.ack,
            None if scale is None else segment.ack + (segment.window << scale),
        )
        for segment in acks.segments
        if segment.ack is not None and not segment.flags & (SYN | RST)
    ]


def _sack_blocks(acks: TcpDirection, begin_ns: int, step_ns: int) -> list[SackBlock]:
    """The blocks of the last ACK with any, for each time step."""
    newest: dict[int, TcpSegment] = {}
    for segment in acks.segments:
        if segment.sack:
            newest[(segment.at_ns - begin_ns) // step_ns] = segment
    return [
        SackBlock((segment.at_ns - begin_ns) / NS, begin, end)
        for segment in newest.values()
        for begin, end in segment.sack
        if end > begin
    ]


def _every_nth(marks: Sequence[Mark], most: int = MOST_MARKS) -> tuple[Mark, ...]:
    return tuple(marks[:: -(-len(marks) // most) or 1])
