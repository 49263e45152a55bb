"""Messages of a throughput test.

Interval columns have equal length; counts are summed over streams, RTTs averaged. Seconds count from the transfer's
start. An unreported column is None.
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
# The most that iperf3 accepts.
MAX_STREAMS = 128
# Rates over time of a stream, and of all streams of a test where each has more than the least.
LEAST_STEPS, MOST_STEPS, MOST_STEPS_OF_ALL = 8, 40, 640

MOST_CAPTURED_PACKETS = 20_000
# Of a capture's headers, compressed.
MOST_CAPTURE_BYTES = 512 * 1024
MOST_CAPTURED_PARTS = 8
MOST_STRETCH_BYTES = 1 << 20


class ThroughputSpec(msgspec.Struct, frozen=True, kw_only=True):
    """A memory-to-memory transfer to `address`, where the peer listens on `port`; with `reverse`, data flow back.

    Unset fields are left out of the JSON.
    """

    address: str
    family: Literal[4, 6] = 4
    source: str | None = None
    port: int = 5201
    protocol: Protocol = "tcp"
    duration_s: int = 10
    omit_s: int = 0
    streams: int = 1
    rate_bps: int | None = None  # limit of all streams together
    window_bytes: int | None = None  # socket buffer of both ends; None for the system's default
    congestion_control: str | None = None
    mss_bytes: int | None = None
    reverse: bool = False
    one_time_key: str | None = None  # secret shared by the two ends, for tests within an hour
    peer_iperf3: str | None = None  # peer's version, such as `3.12`: authentication padding depends on it
    last_port: int | msgspec.UnsetType = msgspec.UNSET  # a public server listens from `port` to here
    pacing_bps: int | msgspec.UnsetType = msgspec.UNSET  # by the kernel (fq or TCP timers), all streams together
    zero_copy: bool | msgspec.UnsetType = msgspec.UNSET  # send by sendfile(2)
    capture_packets: int | msgspec.UnsetType = msgspec.UNSET  # TCP headers kept at both ends; 0 if this end forbids
    block_bytes: int | msgspec.UnsetType = msgspec.UNSET  # length of each write; for UDP of a datagram

    @property
    def ports(self) -> range:
        return range(self.port, (self.port if isinstance(self.last_port, msgspec.UnsetType) else self.last_port) + 1)

    @property
    def length_s(self) -> float:
        """Seconds of load, including the omitted part."""
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
    """CPU use of the tool at either end, as a share of a single CPU; several threads exceed 1."""

    total_ratio: Amount
    user_ratio: Amount
    system_ratio: Amount
    wanted_ratio: Amount | None = None  # busiest thread's time running or runnable, by the kernel; None if unsampled


class KernelCounts(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """TCP_INFO of the sender's streams, as `ss -ti` shows it too, sampled last before the end of the test.

    Times and RTTs are means over the streams, the rest are sums.
    """

    age_s: Amount
    busy_s: Amount  # with unacknowledged or unsent data, limited times included
    peer_window_limited_s: Amount
    send_buffer_limited_s: Amount
    resent_bytes: LargeCount
    duplicates: LargeCount  # retransmitted segments that the peer had (RFC 2883)
    reordering_seen: LargeCount
    acknowledged_bytes: LargeCount | None = None  # all streams; None from older agents
    delivery_rate_bps: Amount | None = None
    rtt_min_ms: Amount | None = None
    segment_bytes: PositiveCount | None = None  # payload of sent segments (`tcpi_snd_mss`); None from older agents


class UdpCounts(msgspec.Struct, frozen=True, kw_only=True):
    """Datagrams of a UDP test, and their jitter (RFC 3550)."""

    packets: LargeCount
    lost_packets: LargeCount
    out_of_order: LargeCount | None
    jitter_ms: Amount


class StreamResult(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A stream of a TCP test, without the omitted part; unreported values are None.

    RTTs and the congestion window are the sender's.
    """

    throughput_bps: Amount
    duration_s: Seconds
    sent_bytes: LargeCount | None = None
    received_bytes: LargeCount | None = None
    retransmits: LargeCount | None = None
    rtt_min_ms: Amount | None = None
    rtt_mean_ms: Amount | None = None
    rtt_max_ms: Amount | None = None
    cwnd_max_bytes: LargeCount | None = None
    # over about equal parts; number bounded by that of streams
    steps_bps: Annotated[tuple[LargeCount, ...], Meta(max_length=MOST_STEPS)] = ()


class CapturedPart(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Captured packets up to a time, from where the part before ends."""

    # sequence numbers or ACKs in the first `kept_bytes` of each; None for all
    period_bytes: Annotated[int, Meta(ge=MOST_STRETCH_BYTES, le=1 << 30)] | None = None
    kept_bytes: Annotated[int, Meta(ge=1, le=MOST_STRETCH_BYTES)] | None = None
    until_ns: LargeCount | None = None  # Unix time by the capture's clock; None up to the end


class CapturedHeaders(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """TCP headers of a test at one end."""

    pcap_zlib: Annotated[bytes, Meta(max_length=MOST_CAPTURE_BYTES)] = b""  # pcap, compressed with zlib
    packets: Annotated[int, Meta(ge=0, le=MOST_CAPTURED_PACKETS)] = 0
    left_out_packets: LargeCount = 0  # approximate missing packets; without `parts`, after the last
    reason: Text | None = None  # why there are none
    parts: Annotated[tuple[CapturedPart, ...], Meta(max_length=MOST_CAPTURED_PARTS)] = ()  # which packets are kept


class Transfer(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Details of a transfer; an end that did not report has None."""

    sent: SentIntervals | None = None
    received: ReceivedIntervals | None = None
    omitted_s: Seconds = 0.0  # first part, left out of the tool's figures
    # requested or reported; segments may be shorter (`KernelCounts.segment_bytes`)
    mss_bytes: PositiveCount | None = None
    sender_cpu: CpuUse | None = None
    receiver_cpu: CpuUse | None = None
    kernel: KernelCounts | None = None
    udp: UdpCounts | None = None
    # by connection; empty for UDP and older agents
    streams: Annotated[tuple[StreamResult, ...], Meta(max_length=MAX_STREAMS)] = ()
    sender_metrics: TcpMetrics | None = None  # cached by its kernel for the other end, before the test
    receiver_metrics: TcpMetrics | None = None
    sender_load: HostLoad | None = None
    receiver_load: HostLoad | None = None
    window_bytes: PositiveCount | None = None  # socket buffer that the test set
    block_bytes: PositiveCount | None = None  # length of the tool's writes
    began_at: Moment | None = None  # sender's streams connected, by its clock; None if unknown


class ThroughputRun(msgspec.Struct, frozen=True, kw_only=True, gc=False, tag="throughput", tag_field="kind"):
    """Result of a throughput test; figures are None unless the outcome is `measured`."""

    target: str
    address: str | None
    family: Literal[4, 6]
    started_at: Moment
    outcome: Outcome
    protocol: Protocol = "tcp"
    reverse: bool = False
    streams: PositiveSmallCount = 1
    asked_bps: Amount | None = None  # rate limit given to the sender
    duration_s: Amount | None = None
    throughput_bps: Amount | None = None  # mean at the receiver without the omitted part
    sent_bytes: LargeCount | None = None
    received_bytes: LargeCount | None = None
    retransmits: Count | None = None
    rtt_mean_ms: Amount | None = None
    congestion_control: Text | None = None
    tool: Text | None = None
    transfer: Transfer | None = None
    inventory: HostInventory | msgspec.UnsetType = msgspec.UNSET  # of the host that connected, as `capture`
    capture: CapturedHeaders | msgspec.UnsetType = msgspec.UNSET
    detail: Text | None = None

    @property
    def is_reported_by_destination(self) -> bool:
        """Whether the receiver's agent delivers it: with `reverse`, the receiver connects."""
        return self.reverse


class ServerReport(msgspec.Struct, frozen=True, kw_only=True, gc=False, tag="served", tag_field="kind"):
    """Report of the listening end on a slot, beside the `ThroughputRun` of the end that connected.

    Host fields are the listening host's.
    """

    needs_slot: ClassVar[bool] = True

    family: Literal[4, 6]
    started_at: Moment
    outcome: Outcome  # `measured` if it served the test, `missed` if no client connected
    detail: Text
    sends: bool = False  # the listening end sent the data, as with `reverse`
    wanted_ratio: Amount | None = None  # as in `CpuUse`
    kernel: KernelCounts | None = None  # only if it `sends`
    inventory: HostInventory | msgspec.UnsetType = msgspec.UNSET
    metrics: TcpMetrics | msgspec.UnsetType = msgspec.UNSET
    load: HostLoad | msgspec.UnsetType = msgspec.UNSET
    capture: CapturedHeaders | msgspec.UnsetType = msgspec.UNSET

    @property
    def is_reported_by_destination(self) -> bool:
        """Whether the receiver's agent delivers it, as the listening end."""
        return not self.sends


def merge_server_report(transfer: Transfer, served: ServerReport) -> Transfer:
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
    return msgspec.structs.replace(transfer, **{"sender_metrics" if of_sender else "receiver_metrics": metrics})


def not_measured(spec: ThroughputSpec, started_at: datetime, outcome: Outcome, detail: str) -> ThroughputRun:
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
