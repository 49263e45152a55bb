"""The bytes of a transfer that a capture has completely: its start, and stretches of it.

Takes a connection and the `KeptPart`s of its capture (`probes.transfers.spec.CapturedPart`); returns ranges of bytes,
up to the highest ACK of each part.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from monitor.analysis.packets.connections import TcpConnection, TcpDirection
from monitor.analysis.packets.ranges import ByteRanges


@dataclass(frozen=True, slots=True)
class KeptPart:
    period_bytes: int | None  # of sequence numbers; None for all
    kept_bytes: int | None  # at the start of each period; None for all
    until_ns: int | None  # None for the end


def kept_ranges(
    connection: TcpConnection, data: TcpDirection, parts: Sequence[KeptPart], margin_bytes: int
) -> ByteRanges:
    """Captured ranges of a direction; everything without parts. A stretch begins `margin_bytes` (the longest segment)
    later, as an earlier segment is missing."""
    acks = connection.other(data)
    ranges = ByteRanges()
    for part in parts or (KeptPart(None, None, None),):
        highest = highest_ack(acks, part.until_ns)
        if part.period_bytes is None or part.kept_bytes is None:
            ranges.add(0, highest)
            continue
        for begin in _stretches_with_data(data, part.period_bytes):
            ranges.add(max(0, begin + margin_bytes), min(begin + part.kept_bytes, highest))
    return ranges


def _stretches_with_data(data: TcpDirection, period_bytes: int) -> list[int]:
    """First byte of each period in which a captured segment begins."""
    # A few packets may jump over any number of periods; a period that was acknowledged has data in the capture.
    first = data.first or 0
    periods = {(segment.begin + first) // period_bytes for segment in data.segments if segment.payload_bytes}
    return [period * period_bytes - first for period in sorted(periods)]


def highest_ack(acks: TcpDirection, until_ns: int | None = None) -> int:
    times = (
        segment.ack
        for segment in acks.segments
        if segment.ack is not None and (until_ns is None or segment.at_ns <= until_ns)
    )
    return max(times, default=0)


def longest_segment(*directions: TcpDirection) -> int:
    return max((segment.payload_bytes for way in directions for segment in way.segments), default=0)


def of_start(connection: TcpConnection, parts: Sequence[KeptPart]) -> TcpConnection:
    """The connection up to the time from which packets are missing."""
    if not parts or parts[0].until_ns is None:
        return connection
    until_ns = parts[0].until_ns
    first, second = (_up_to(way, until_ns) for way in connection.directions)
    return replace(connection, directions=(first, second))


def _up_to(way: TcpDirection, until_ns: int) -> TcpDirection:
    return replace(way, segments=[segment for segment in way.segments if segment.at_ns <= until_ns])
