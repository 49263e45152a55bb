"""A throughput test and the report of its listening end within their bounds.

msgspec checks types and ranges while it decodes, `__post_init__` checks relations between fields; both raise msgspec's
`ValidationError`.
"""

from __future__ import annotations

import itertools
from typing import Annotated, ClassVar

from msgspec import Meta

from monitor.archive.columns import LARGEST_INTEGER, LARGEST_SMALLINT
from monitor.archive.ingest.checked.values import MEASURED, Amount, Bigint, Integer, Moment, RoundTrip, Second, Text
from probes.throughput.spec import (
    CpuUse,
    KernelCounts,
    ReceivedIntervals,
    SentIntervals,
    ServerReport,
    ThroughputRun,
    Transfer,
    UdpCounts,
)

MOST_INTERVALS = 4000
Times = Annotated[tuple[Second, ...], Meta(min_length=1, max_length=MOST_INTERVALS)]
Sizes = Annotated[tuple[Bigint, ...], Meta(max_length=MOST_INTERVALS)]
Amounts = Annotated[tuple[Amount, ...], Meta(max_length=MOST_INTERVALS)]
RoundTrips = Annotated[tuple[RoundTrip, ...], Meta(max_length=MOST_INTERVALS)]


class CheckedSent(SentIntervals, frozen=True, kw_only=True, omit_defaults=True):
    """Intervals of the sender, in order, with columns of equal length."""

    end_s: Times
    sent_bytes: Sizes
    retransmits: Sizes | None = None
    cwnd_bytes: Sizes | None = None
    peer_window_bytes: Sizes | None = None
    rtt_ms: RoundTrips | None = None
    rtt_variation_ms: RoundTrips | None = None
    path_mtu_bytes: Sizes | None = None
    packets: Sizes | None = None

    def __post_init__(self) -> None:
        _require_columns(self)


class CheckedReceived(ReceivedIntervals, frozen=True, kw_only=True, omit_defaults=True):
    """Intervals of the receiver, as `CheckedSent`."""

    end_s: Times
    received_bytes: Sizes
    packets: Sizes | None = None
    lost_packets: Annotated[tuple[int, ...], Meta(max_length=MOST_INTERVALS)] | None = None
    jitter_ms: Amounts | None = None

    def __post_init__(self) -> None:
        _require_columns(self)


def _require_columns(intervals: SentIntervals | ReceivedIntervals) -> None:
    """Raises `ValueError` where times run backwards or a column has another length."""
    end_s = intervals.end_s
    if any(later < earlier for earlier, later in itertools.pairwise(end_s)):
        raise ValueError("end_s runs backwards")
    for name in intervals.__struct_fields__:
        column = getattr(intervals, name)
        if column is not None and len(column) != len(end_s):
            raise ValueError(f"{len(column)} values of {name} for {len(end_s)} intervals")


class CheckedCpu(CpuUse, frozen=True, kw_only=True, omit_defaults=True):
    total_ratio: Amount
    user_ratio: Amount
    system_ratio: Amount
    wanted_ratio: Amount | None = None


class CheckedKernel(KernelCounts, frozen=True, kw_only=True, omit_defaults=True):
    age_s: Amount
    busy_s: Amount
    peer_window_limited_s: Amount
    send_buffer_limited_s: Amount
    resent_bytes: Bigint
    duplicates: Bigint
    reordering_seen: Bigint
    delivery_rate_bps: Amount | None = None
    rtt_min_ms: Amount | None = None


class CheckedUdp(UdpCounts, frozen=True, kw_only=True):
    packets: Bigint
    lost_packets: Bigint
    out_of_order: Bigint | None
    jitter_ms: Amount


class CheckedTransfer(Transfer, frozen=True, kw_only=True, omit_defaults=True):
    """Figures of a transfer, each within its bounds."""

    sent: CheckedSent | None = None
    received: CheckedReceived | None = None
    omitted_s: Second = 0.0
    mss_bytes: Annotated[int, Meta(ge=1, le=LARGEST_INTEGER)] | None = None
    sender_cpu: CheckedCpu | None = None
    receiver_cpu: CheckedCpu | None = None
    kernel: CheckedKernel | None = None
    udp: CheckedUdp | None = None


class CheckedRun(ThroughputRun, frozen=True, kw_only=True, gc=False, tag="throughput", tag_field="kind"):
    """A plausible throughput test: has a rate if and only if it was measured."""

    started_at: Moment
    streams: Annotated[int, Meta(ge=1, le=LARGEST_SMALLINT)] = 1
    asked_bps: Amount | None = None
    duration_s: Amount | None = None
    throughput_bps: Amount | None = None
    sent_bytes: Bigint | None = None
    received_bytes: Bigint | None = None
    retransmits: Integer | None = None
    rtt_mean_ms: Amount | None = None
    congestion_control: Text | None = None
    tool: Text | None = None
    transfer: CheckedTransfer | None = None
    detail: Text | None = None

    @property
    def is_told_by_far_end(self) -> bool:
        return self.reverse

    def __post_init__(self) -> None:
        measured = self.outcome is MEASURED
        if measured and self.throughput_bps is None:
            raise ValueError("measured, but without throughput_bps")
        if not measured and self.throughput_bps is not None:
            raise ValueError(f"{self.outcome}, but with throughput_bps {self.throughput_bps}")


class CheckedServerReport(ServerReport, frozen=True, kw_only=True, gc=False, tag="served", tag_field="kind"):
    """A plausible report of the listening end."""

    started_at: Moment
    needs_slot: ClassVar[bool] = True

    detail: Text
    wanted_ratio: Amount | None = None
    kernel: CheckedKernel | None = None

    @property
    def is_told_by_far_end(self) -> bool:
        return not self.sends
