"""Packets lost between captures at both ends of a transfer, by direction. Data is compared by bytes, as ends cut and
join segments (TSO, GRO), ACKs one by one; only bytes acknowledged in both count."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum

from monitor.analysis.packets.connections import FIN, RST, SYN, TcpConnection, TcpDirection, TcpSegment
from monitor.analysis.packets.kept import KeptPart, highest_ack, kept_ranges, longest_segment
from monitor.analysis.packets.ranges import ByteRanges

USUAL_MSS_BYTES = 1448


class LostWhere(StrEnum):
    NOWHERE = "nowhere"
    DATA = "data"
    ACKS = "acks"
    BOTH = "both"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class CaptureLosses:
    """Losses between both captures; `where` is unknown where they do not fit together."""

    where: LostWhere
    sent_bytes: int = 0  # left the sender, including retransmissions
    lost_bytes: int = 0
    lost_packets: int = 0  # lost_bytes as packets of the MSS
    needless_bytes: int = 0  # sent again though they had arrived
    sent_acks: int = 0
    lost_acks: int = 0
    reason: str | None = None  # of an unknown direction
    compared_ratio: float | None = None  # of the acknowledged bytes; None for complete captures


@dataclass(slots=True)
class _Sums:
    acknowledged_bytes: int = 0
    compared_bytes: int = 0
    sent_bytes: int = 0
    arrived_bytes: int = 0
    fresh_bytes: int = 0
    sent_acks: int = 0
    lost_acks: int = 0


def lost_between(
    at_sender: Sequence[TcpConnection],
    at_receiver: Sequence[TcpConnection],
    sender_parts: Sequence[KeptPart] = (),
    receiver_parts: Sequence[KeptPart] = (),
) -> CaptureLosses:
    """Compare the connections in both captures, matched by first sequence numbers; no parts: complete captures."""
    far = {_key(connection): connection for connection in at_receiver}
    # Each is compared once: any number of connections may claim the same first numbers.
    pairs = [(near, far.pop(key)) for near in at_sender if (key := _key(near)) in far and None not in key]
    if not pairs:
        return CaptureLosses(LostWhere.UNKNOWN, reason="the captures have no connection in common")
    sums = _Sums()
    for near, other in pairs:
        _compare(near, other, sums, sender_parts, receiver_parts)
    if not sums.sent_bytes:
        return CaptureLosses(LostWhere.UNKNOWN, reason="no data was acknowledged in both captures")
    if sums.arrived_bytes > sums.sent_bytes:
        return CaptureLosses(LostWhere.UNKNOWN, reason="the capture at the sender has less data than the receiver's")
    lost = sums.sent_bytes - sums.arrived_bytes
    mss = min((way.mss_bytes for near, _ in pairs for way in near.directions if way.mss_bytes), default=USUAL_MSS_BYTES)
    return CaptureLosses(
        where=_where(lost, sums.lost_acks),
        sent_bytes=sums.sent_bytes,
        lost_bytes=lost,
        lost_packets=math.ceil(lost / mss),
        needless_bytes=max(0, sums.arrived_bytes - sums.fresh_bytes),
        sent_acks=sums.sent_acks,
        lost_acks=sums.lost_acks,
        compared_ratio=sums.compared_bytes / sums.acknowledged_bytes if sender_parts or receiver_parts else None,
    )


def _where(lost_bytes: int, lost_acks: int) -> LostWhere:
    if lost_bytes and lost_acks:
        return LostWhere.BOTH
    if lost_bytes:
        return LostWhere.DATA
    return LostWhere.ACKS if lost_acks else LostWhere.NOWHERE


def _key(connection: TcpConnection) -> tuple[int | None, int | None]:
    data = connection.sender
    return data.first, connection.other(data).first


def _compare(
    near: TcpConnection,
    far: TcpConnection,
    sums: _Sums,
    near_parts: Sequence[KeptPart],
    far_parts: Sequence[KeptPart],
) -> None:
    sent, arrived = near.sender, far.sender
    acks_sent, acks_arrived = far.other(arrived), near.other(sent)
    margin = longest_segment(sent, arrived)
    compared = kept_ranges(near, sent, near_parts, margin).intersection(kept_ranges(far, arrived, far_parts, margin))
    sums.acknowledged_bytes += max(highest_ack(acks_sent), highest_ack(acks_arrived))
    sums.compared_bytes += compared.total_bytes
    sums.sent_bytes += _bytes_within(sent, compared)
    sums.arrived_bytes += _bytes_within(arrived, compared)
    ranges = ByteRanges()
    for segment in arrived.segments:
        ranges.add(segment.begin, segment.begin + segment.payload_bytes)
    sums.fresh_bytes += ranges.intersection(compared).total_bytes
    left = Counter(_pure_acks(acks_sent, compared))
    sums.sent_acks += left.total()
    sums.lost_acks += (left - Counter(_pure_acks(acks_arrived, compared))).total()


def _bytes_within(data: TcpDirection, compared: ByteRanges) -> int:
    return sum(
        compared.within(segment.begin, segment.begin + segment.payload_bytes)
        for segment in data.segments
        if segment.payload_bytes
    )


def _pure_acks(acks: TcpDirection, compared: ByteRanges) -> Iterable[tuple[int, int, tuple[tuple[int, int], ...]]]:
    """Number, window and SACK blocks of ACKs of these ranges without data."""
    for segment in acks.segments:
        if segment.ack is not None and compared.has(segment.ack) and _is_pure(segment):
            yield segment.ack, segment.window, segment.sack


def _is_pure(segment: TcpSegment) -> bool:
    return segment.begin == segment.end and not segment.flags & (SYN | FIN | RST)
