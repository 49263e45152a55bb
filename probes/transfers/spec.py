"""The fields of a throughput test: its parameters (`ThroughputSpec`) and its result (`ThroughputRun`).

Intervals are stored as columns of equal length, with counts summed over the streams and RTTs averaged. Seconds count
from the start of the transfer, including the omitted part; an interval begins where the previous interval ends. A
column that the system does not report is None as a whole.
"""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, ClassVar, Literal

import msgspec
from msgspec import Meta

from probes.bounds import (
    MAX_INTERVALS,
    Amount,
    Count,
    LargeCount,
    Moment,
    PositiveCount,
    PositiveSmallCount,
    RttMs,
    Seconds,
    Text,
)
from probes.contract import Outcome
from probes.transfers.hosts.spec import HostInventory, HostLoad, TcpMetrics

Protocol = Literal["tcp", "udp"]
MAX_STREAMS = 128
"""The most that iperf3 accepts."""
LEAST_STEPS, MOST_STEPS, MOST_STEPS_OF_ALL = 8, 40, 640
"""Rates over time of a stream, and of all streams of a test where each has more than the least."""

MOST_CAPTURED_PACKETS = 20_000
MOST_CAPTURE_BYTES = 512 * 1024
"""Of a capture's headers, compressed."""
MOST_CAPTURED_PARTS = 8
MOST_STRETCH_BYTES = 1 << 20


class ThroughputSpec(msgspec.Struct, frozen=True, kw_only=True):
    """A memory-to-memory transfer to `address`, where the peer listens on `port`; with `reverse`, data flow back.

    `rate_bps` limits the rate of all streams together; None is no limit. `window_bytes` is the socket buffer of both
    ends, None for the system's default. `one_time_key` is a secret shared by the two ends, for their tests of an hour.
    `peer_iperf3` is the peer's version of iperf3, such as `3.12`, None if unknown: the padding of iperf3's
    authentication depends on both versions. `pacing_bps` is the rate at which the kernel paces all streams together (by
    the queue discipline fq or TCP's own timers), `zero_copy` sends by sendfile(2). `block_bytes` is the length of each
    write, for UDP that of a datagram. A public server listens on all ports from `port` to `last_port`. Of a TCP test,
    both ends keep the headers of at most `capture_packets` packets; 0 says that the plan asks for it, and that this
    end's limits forbid it. Fields that are not set are left out of the JSON.
    """

    address: str
    family: Literal[4, 6] = 4
    source: str | None = None
    port: int = 5201
    protocol: Protocol = "tcp"
    duration_s: int = 10
    omit_s: int = 0
    streams: int = 1
    rate_bps: int | None = None
    window_bytes: int | None = None
    congestion_control: str | None = None
    mss_bytes: int | None = None
    reverse: bool = False
    one_time_key: str | None = None
    peer_iperf3: str | None = None
    last_port: int | msgspec.UnsetType = msgspec.UNSET
    pacing_bps: int | msgspec.UnsetType = msgspec.UNSET
    zero_copy: bool | msgspec.UnsetType = msgspec.UNSET
    capture_packets: int | msgspec.UnsetType = msgspec.UNSET
    block_bytes: int | msgspec.UnsetType = msgspec.UNSET

    @property
    def ports(self) -> range:
        return range(self.port, (self.port if isinstance(self.last_port, msgspec.UnsetType) else self.last_port) + 1)

    @property
    def length_s(self) -> float:
        """Seconds for which the test loads the path, including the omitted part."""
        return float(self.duration_s + self.omit_s)


EndTimes = Annotated[tuple[Seconds, ...], Meta(min_length=1, max_length=MAX_INTERVALS)]
LargeCounts = Annotated[tuple[LargeCount, ...], Meta(max_length=MAX_INTERVALS)]
Amounts = Annotated[tuple[Amount, ...], Meta(max_length=MAX_INTERVALS)]
RttsMs = Annotated[tuple[RttMs, ...], Meta(max_length=MAX_INTERVALS)]


class SentIntervals(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The sender's intervals. Windows and RTTs are those at the end of each interval; `packets` is for UDP only."""

    end_s: EndTimes
    sent_bytes: LargeCounts
    retransmits: LargeCounts | None = None
    cwnd_bytes: LargeCounts | None = None
    peer_window_bytes: LargeCounts | None = None
    rtt_ms: RttsMs | None = None
    rtt_variation_ms: RttsMs | None = None
    path_mtu_bytes: LargeCounts | None = None
    packets: LargeCounts | None = None


class ReceivedIntervals(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The receiver's intervals, with their own ends; the fields after `received_bytes` are set for UDP only."""

    end_s: EndTimes
    received_bytes: LargeCounts
    packets: LargeCounts | None = None
    lost_packets: Annotated[tuple[int, ...], Meta(max_length=MAX_INTERVALS)] | None = None
    jitter_ms: Amounts | None = None


class CpuUse(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """CPU use of the tool at either end, as a share of a single CPU, as the tool reports it; several threads exceed 1.

    `wanted_ratio` is the share of the time in which its busiest thread ran or was runnable, according to the kernel;
    None if that was not sampled.
    """

    total_ratio: Amount
    user_ratio: Amount
    system_ratio: Amount
    wanted_ratio: Amount | None = None


class KernelCounts(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """TCP_INFO of the sender's streams, as `ss -ti` shows it too, sampled last before the end of the test.

    Times and RTTs are means over the streams, the rest are sums. `busy_s` is the time with unacknowledged or unsent
    data; it includes the time limited by the peer's window and by the send buffer. `duplicates` counts retransmitted
    segments that the peer already had (RFC 2883). `acknowledged_bytes` are those of all streams; `segment_bytes` is the
    payload of the segments sent, whatever MSS was requested (`tcpi_snd_mss`). Both are None from agents that did not
    report them.
    """

    age_s: Amount
    busy_s: Amount
    peer_window_limited_s: Amount
    send_buffer_limited_s: Amount
    resent_bytes: LargeCount
    duplicates: LargeCount
    reordering_seen: LargeCount
    acknowledged_bytes: LargeCount | None = None
    delivery_rate_bps: Amount | None = None
    rtt_min_ms: Amount | None = None
    segment_bytes: PositiveCount | None = None


class UdpCounts(msgspec.Struct, frozen=True, kw_only=True):
    """Datagrams of a UDP test: sent, lost and out of order, and their jitter (RFC 3550)."""

    packets: LargeCount
    lost_packets: LargeCount
    out_of_order: LargeCount | None
    jitter_ms: Amount


class StreamResult(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A stream of a TCP test, without the omitted part. RTTs and the congestion window are the sender's; what its end
    or its system did not report is None. `steps_bps` are its rates over parts of the test of about equal length, from
    several streams on: their number is bounded by that of the streams."""

    throughput_bps: Amount
    duration_s: Seconds
    sent_bytes: LargeCount | None = None
    received_bytes: LargeCount | None = None
    retransmits: LargeCount | None = None
    rtt_min_ms: Amount | None = None
    rtt_mean_ms: Amount | None = None
    rtt_max_ms: Amount | None = None
    cwnd_max_bytes: LargeCount | None = None
    steps_bps: Annotated[tuple[LargeCount, ...], Meta(max_length=MOST_STEPS)] = ()


class CapturedPart(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The packets that a capture has up to a time of its clock, in nanoseconds since 1970, from where the part before
    ends; None up to the end. Those of the first `kept_bytes` of each `period_bytes` of sequence numbers: data by its
    own, ACKs by the number that they acknowledge. All of them where that is None."""

    period_bytes: Annotated[int, Meta(ge=MOST_STRETCH_BYTES, le=1 << 30)] | None = None
    kept_bytes: Annotated[int, Meta(ge=1, le=MOST_STRETCH_BYTES)] | None = None
    until_ns: LargeCount | None = None


class CapturedHeaders(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The headers of a test's TCP packets at one end: pcap, compressed with zlib. Where it has not all packets, about
    `left_out_packets` are missing, and `parts` say which; without parts, those after the last. `reason` says why there
    are none."""

    pcap_zlib: Annotated[bytes, Meta(max_length=MOST_CAPTURE_BYTES)] = b""
    packets: Annotated[int, Meta(ge=0, le=MOST_CAPTURED_PACKETS)] = 0
    left_out_packets: LargeCount = 0
    reason: Text | None = None
    parts: Annotated[tuple[CapturedPart, ...], Meta(max_length=MOST_CAPTURED_PARTS)] = ()


class Transfer(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Details of a transfer. `omitted_s` is the length of the first part, which the tool leaves out of its figures.

    If only the sender or only the receiver reported its intervals, the other's are None. `streams` are in the order of
    their connections; empty for UDP and for agents that did not report them. The TCP metrics are those that
    the kernel of each end had cached of the other before the test; `window_bytes` is the socket buffer that the test
    set, `block_bytes` the length of the tool's writes, `mss_bytes` the MSS that it requested or reported: the segments
    sent may be shorter (`KernelCounts.segment_bytes`). `began_at` is the time at which the sender's streams were
    connected, by its clock; None where its kernel did not tell.
    """

    sent: SentIntervals | None = None
    received: ReceivedIntervals | None = None
    omitted_s: Seconds = 0.0
    mss_bytes: PositiveCount | None = None
    sender_cpu: CpuUse | None = None
    receiver_cpu: CpuUse | None = None
    kernel: KernelCounts | None = None
    udp: UdpCounts | None = None
    streams: Annotated[tuple[StreamResult, ...], Meta(max_length=MAX_STREAMS)] = ()
    sender_metrics: TcpMetrics | None = None
    receiver_metrics: TcpMetrics | None = None
    sender_load: HostLoad | None = None
    receiver_load: HostLoad | None = None
    window_bytes: PositiveCount | None = None
    block_bytes: PositiveCount | None = None
    began_at: Moment | None = None


class ThroughputRun(msgspec.Struct, frozen=True, kw_only=True, gc=False, tag="throughput", tag_field="kind"):
    """Result of a throughput test. `throughput_bps` is the mean rate at the receiver without the omitted part, None
    unless the outcome is `measured`. `asked_bps` is the rate limit that the sender was given; `inventory` and `capture`
    are those of the host that connected."""

    target: str
    address: str | None
    family: Literal[4, 6]
    started_at: Moment
    outcome: Outcome
    protocol: Protocol = "tcp"
    reverse: bool = False
    streams: PositiveSmallCount = 1
    asked_bps: Amount | None = None
    duration_s: Amount | None = None
    throughput_bps: Amount | None = None
    sent_bytes: LargeCount | None = None
    received_bytes: LargeCount | None = None
    retransmits: Count | None = None
    rtt_mean_ms: Amount | None = None
    congestion_control: Text | None = None
    tool: Text | None = None
    transfer: Transfer | None = None
    inventory: HostInventory | msgspec.UnsetType = msgspec.UNSET
    capture: CapturedHeaders | msgspec.UnsetType = msgspec.UNSET
    detail: Text | None = None

    @property
    def is_reported_by_destination(self) -> bool:
        """Whether the destination's agent delivers it: the end that connects does, with `reverse` the receiver."""
        return self.reverse


class ServerReport(msgspec.Struct, frozen=True, kw_only=True, gc=False, tag="served", tag_field="kind"):
    """Report of the listening end on a slot, beside the `ThroughputRun` of the end that connected.

    The outcome is `measured` if it served the test, `missed` if no client connected; `detail` explains it. `sends` is
    true if the listening end sent the data, as with `reverse`; `kernel` is set only then. `wanted_ratio` is as in
    `CpuUse`; `inventory`, `metrics`, `load` and `capture` are those of the listening host.
    """

    needs_slot: ClassVar[bool] = True

    family: Literal[4, 6]
    started_at: Moment
    outcome: Outcome
    detail: Text
    sends: bool = False
    wanted_ratio: Amount | None = None
    kernel: KernelCounts | None = None
    inventory: HostInventory | msgspec.UnsetType = msgspec.UNSET
    metrics: TcpMetrics | msgspec.UnsetType = msgspec.UNSET
    load: HostLoad | msgspec.UnsetType = msgspec.UNSET
    capture: CapturedHeaders | msgspec.UnsetType = msgspec.UNSET

    @property
    def is_reported_by_destination(self) -> bool:
        """Whether the destination's agent delivers it: the listening end does, the receiver unless it sends."""
        return not self.sends


def merge_server_report(transfer: Transfer, served: ServerReport) -> Transfer:
    """Add the figures that only the listening end could sample to a transfer."""
    end = "sender_cpu" if served.sends else "receiver_cpu"
    use: CpuUse | None = getattr(transfer, end)
    if use is not None and served.wanted_ratio is not None:
        transfer = msgspec.structs.replace(
            transfer, **{end: msgspec.structs.replace(use, wanted_ratio=served.wanted_ratio)}
        )
    if served.kernel is not None:
        transfer = msgspec.structs.replace(transfer, kernel=served.kernel)
    if isinstance(served.metrics, TcpMetrics):
        transfer = with_metrics(transfer, served.metrics, of_sender=served.sends)
    if isinstance(served.load, HostLoad):
        end = "sender_load" if served.sends else "receiver_load"
        transfer = msgspec.structs.replace(transfer, **{end: served.load})
    return transfer


def with_metrics(transfer: Transfer, metrics: TcpMetrics | None, *, of_sender: bool) -> Transfer:
    """Add the cached metrics of an end to a transfer."""
    return msgspec.structs.replace(transfer, **{"sender_metrics" if of_sender else "receiver_metrics": metrics})


def not_measured(spec: ThroughputSpec, started_at: datetime, outcome: Outcome, detail: str) -> ThroughputRun:
    """The result of a test that ended in `outcome`, without figures."""
    return ThroughputRun(
        target=spec.address,
        address=None,
        family=spec.family,
        started_at=started_at,
        outcome=outcome,
        protocol=spec.protocol,
        reverse=spec.reverse,
        streams=spec.streams,
        asked_bps=None if spec.rate_bps is None else float(spec.rate_bps),
        detail=detail,
    )
