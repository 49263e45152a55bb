"""Input of a diagnosis: a TCP test's `Recording`, and its arrays by sender interval. Missing values are None or NaN."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from monitor.arrays import Bools, Floats

# A congestion window of at least this share of the peer's window: the peer's window is the limit.
WINDOW_USED = 0.95


class RecordingError(ValueError):
    """A recording that contradicts itself; the message says where."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SenderInterval:
    start_s: float
    end_s: float
    sent_bytes: int
    retransmits: int | None = None
    cwnd_bytes: int | None = None  # sum over the streams
    peer_window_bytes: int | None = None  # sum over the streams
    rtt_ms: float | None = None  # mean over the streams, at the end
    rtt_variation_ms: float | None = None  # rttvar (RFC 6298): mean deviation of the RTT
    path_mtu_bytes: int | None = None


@dataclass(frozen=True, slots=True)
class ReceiverInterval:
    """Bytes read by the receiver in an interval of its own."""

    start_s: float
    end_s: float
    received_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TcpInfo:
    """Counters of the sender's kernel (TCP_INFO, as in `ss -ti`); times are means over the streams."""

    age_s: float | None = None  # of the connection
    busy_s: float | None = None  # with something to send
    peer_window_limited_s: float | None = None  # rwnd_limited: part of busy_s with a full peer window
    send_buffer_limited_s: float | None = None  # sndbuf_limited: part of busy_s with a full send buffer
    duplicates: int | None = None  # retransmitted but already received, all streams (dsack_dups, RFC 2883)


@dataclass(frozen=True, slots=True)
class CoreUse:
    number: int
    busy_ratio: float
    softirq_ratio: float  # software interrupts (network)


@dataclass(frozen=True, slots=True, kw_only=True)
class HostState:
    sysctls: Mapping[str, str] = field(default_factory=dict)
    interface: str | None = None
    mtu_bytes: int | None = None
    queue_discipline: str | None = None
    tx_queue_packets: int | None = None
    cpu_governor: str | None = None
    cores: tuple[CoreUse, ...] = ()
    tool_core: int | None = None  # of the tool's busiest thread
    tool_ratio: float | None = None  # share of the time in which that thread ran
    queue_drops: int | None = None  # by the interface's queue discipline, in the test
    speed_bps: float | None = None

    @property
    def tool_core_use(self) -> CoreUse | None:
        return next((core for core in self.cores if core.number == self.tool_core), None)


@dataclass(frozen=True, slots=True)
class TrainsResult:
    """The path's newest policer test before the transfer."""

    verdict: str  # policer, shaper, link or no_limit
    sustained_bps: float | None
    burst_bytes: float | None
    age_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Recording:
    samples: tuple[SenderInterval, ...]
    arrivals: tuple[ReceiverInterval, ...] = ()
    omitted_s: float = 0.0  # first part, outside of the tool's figures
    streams: int = 1
    mss_bytes: int = 1448
    congestion_control: str | None = None
    asked_bps: float | None = None  # requested rate
    idle_rtt_ms: float | None = None  # of a ping without the load
    capacity_bps: float | None = None
    promised_bps: float | None = None
    delivered_bytes: int | None = None  # total received or acknowledged
    earlier_bps: float | None = None  # median of the path's earlier tests
    sender_cpu_ratio: float | None = None  # share of time the tool's process ran or waited to
    receiver_cpu_ratio: float | None = None  # share of time the tool's process ran or waited to
    kernel: TcpInfo | None = None
    sender_host: HostState | None = None
    receiver_host: HostState | None = None
    has_thread_per_stream: bool | None = None  # of the tool
    window_bytes: int | None = None  # socket buffer set by the test; None if by the system
    trains: TrainsResult | None = None  # of a policer test; None without a recent one
    ends: tuple[str, str] | None = None  # addresses of sender and receiver

    @property
    def known_capacity_bps(self) -> float | None:
        """The measured rate of the path, else the least of promise and interfaces."""
        if self.capacity_bps is not None:
            return self.capacity_bps
        speeds = (host.speed_bps for host in (self.sender_host, self.receiver_host) if host is not None)
        return min((bps for bps in (self.promised_bps, *speeds) if bps), default=None)

    @property
    def usual_bps(self) -> float | None:
        """The rate of the earlier tests, or else the capacity."""
        return self.capacity_bps if self.earlier_bps is None else self.earlier_bps

    def cpu_ratio(self, end: str) -> float | None:
        return self.sender_cpu_ratio if end == "sender" else self.receiver_cpu_ratio

    def host(self, end: str) -> HostState | None:
        return self.sender_host if end == "sender" else self.receiver_host


def is_bbr(recording: Recording) -> bool:
    """Whether the sender's congestion control is BBR, with a start that does not end with a loss."""
    return (recording.congestion_control or "").startswith("bbr")


@dataclass(frozen=True, slots=True)
class IntervalSeries:
    """A recording as arrays over its intervals."""

    start_s: Floats
    end_s: Floats
    sent_bytes: Floats
    delivered_bytes: Floats  # arrived, or else written, less the remaining send buffer
    retransmits: Floats
    cwnd_bytes: Floats
    peer_window_bytes: Floats
    rtt_ms: Floats
    rtt_variation_ms: Floats
    base_rtt_ms: float
    arrivals_known: bool
    losses_known: bool
    total_delivered_bytes: float  # including arrivals after the last interval

    @property
    def width_s(self) -> Floats:
        return self.end_s - self.start_s

    @property
    def delivered_bps(self) -> Floats:
        return self.delivered_bytes * 8.0 / self.width_s

    @property
    def lossy(self) -> Bools:
        return self.retransmits > 0

    @property
    def base_rtt_s(self) -> float:
        """Base RTT, 0 where unknown."""
        return 0.0 if np.isnan(self.base_rtt_ms) else self.base_rtt_ms / 1000.0


def series(recording: Recording) -> IntervalSeries:
    """The arrays of a recording. Raises `RecordingError` where intervals overlap or have no length."""
    samples = recording.samples
    start_s, end_s = _array([sample.start_s for sample in samples]), _array([sample.end_s for sample in samples])
    _check_times(start_s, end_s)
    sent_bytes = _array([sample.sent_bytes for sample in samples])
    delivered_bytes = (
        _arrived_bytes(recording.arrivals, start_s, end_s)
        if recording.arrivals
        else _without_backlog(sent_bytes, recording.delivered_bytes)
    )
    arrived_bytes = float(sum(arrival.received_bytes for arrival in recording.arrivals))
    rtt_ms = _array([sample.rtt_ms for sample in samples])
    return IntervalSeries(
        start_s=start_s,
        end_s=end_s,
        sent_bytes=sent_bytes,
        delivered_bytes=delivered_bytes,
        retransmits=np.nan_to_num(_array([sample.retransmits for sample in samples])),
        cwnd_bytes=_array([sample.cwnd_bytes for sample in samples]),
        peer_window_bytes=_array([sample.peer_window_bytes for sample in samples]),
        rtt_ms=rtt_ms,
        rtt_variation_ms=_array([sample.rtt_variation_ms for sample in samples]),
        base_rtt_ms=_least(np.append(rtt_ms, _array([recording.idle_rtt_ms]))),
        arrivals_known=bool(recording.arrivals),
        losses_known=any(sample.retransmits is not None for sample in samples),
        total_delivered_bytes=arrived_bytes if recording.arrivals else float(delivered_bytes.sum()),
    )


def _check_times(start_s: Floats, end_s: Floats) -> None:
    empty = np.flatnonzero(end_s <= start_s)
    if empty.size:
        raise RecordingError(f"interval number {empty[0] + 1} ends at {end_s[empty[0]]:g} s, not after its start")
    overlapping = np.flatnonzero(start_s[1:] < end_s[:-1] - 1e-6)
    if overlapping.size:
        raise RecordingError(f"interval number {overlapping[0] + 2} starts before the previous interval ends")


def _arrived_bytes(arrivals: tuple[ReceiverInterval, ...], start_s: Floats, end_s: Floats) -> Floats:
    times_s = _array([arrivals[0].start_s, *(arrival.end_s for arrival in arrivals)])
    total_bytes = np.concatenate([[0.0], np.cumsum([arrival.received_bytes for arrival in arrivals])])
    until_end: Floats = np.interp(end_s, times_s, total_bytes)
    until_start: Floats = np.interp(start_s, times_s, total_bytes)
    return until_end - until_start


def _without_backlog(sent_bytes: Floats, delivered_bytes: int | None) -> Floats:
    """Leave out the first bytes, filling the send buffer."""
    if delivered_bytes is None:
        return sent_bytes
    backlog_bytes = max(0.0, float(sent_bytes.sum()) - delivered_bytes)
    until_end = np.maximum(0.0, np.concatenate([[0.0], np.cumsum(sent_bytes)]) - backlog_bytes)
    return np.diff(until_end)


def _array(values: Sequence[float | None]) -> Floats:
    return np.array([np.nan if value is None else value for value in values], dtype=np.float64)


def _least(values: Floats) -> float:
    defined = values[~np.isnan(values)]
    return float(defined.min()) if defined.size else float("nan")
