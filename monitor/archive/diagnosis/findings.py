"""Diagnose a throughput test: prepare the input of `monitor.analysis.transfer`. No database."""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from datetime import datetime

from monitor.analysis.transfer import (
    CoreUse,
    Diagnosis,
    EvidenceFigure,
    HostState,
    Pause,
    ReceiverInterval,
    Recording,
    RecordingError,
    Recovery,
    Rfc6349,
    SenderInterval,
    TcpInfo,
    TrainsResult,
    Verdict,
    diagnose,
)
from probes.transfers.hosts.spec import HostInventory, HostLoad
from probes.transfers.iperf3.authentication import has_thread_per_stream
from probes.transfers.spec import CpuUse, ReceivedIntervals, SentIntervals, ThroughputRun, Transfer

# Minimum length of an interval; no rate is computed for a shorter interval.
SHORTEST_S = 0.001

# MSS on Ethernet with TCP timestamps, used where the tool does not report it.
USUAL_MSS_BYTES = 1448


@dataclass(frozen=True, slots=True)
class Background:
    """State of a path when a test began; None where unknown."""

    path_id: int
    at: datetime
    idle_rtt_ms: float | None = None
    capacity_bps: float | None = None  # of the whole path, as measured
    earlier_bps: float | None = None  # median throughput of earlier tests of the same kind
    trains_verdict: str | None = None
    trains_bps: float | None = None
    trains_burst_bytes: float | None = None
    trains_age_s: float | None = None
    source_address: str | None = None
    destination_address: str | None = None
    promised_bps: float | None = None  # as promised in mesh.toml


@dataclass(frozen=True, slots=True)
class HostPair:
    """Inventories of a test's hosts; None where not reported."""

    sender: HostInventory | None = None
    receiver: HostInventory | None = None


NO_HOSTS = HostPair()


@dataclass(frozen=True, slots=True, kw_only=True)
class Findings:
    """Part of a `monitor.analysis.transfer.Diagnosis` stored beside its verdict; RTTs are of the steady part."""

    evidence: tuple[EvidenceFigure, ...] = ()
    duration_s: float
    start_s: float
    too_short: bool
    wanted_s: float
    recoveries: tuple[Recovery, ...] = ()
    pauses: tuple[Pause, ...] = ()
    idle_rtt_ms: float | None = None  # minimum of all available RTTs, pings included
    loaded_rtt_ms: float | None = None
    peer_window_bytes: float | None = None  # largest window that the receiver granted to a stream
    path_mtu_bytes: int | None = None
    jumbo_frames_pass: bool | None = None
    rfc6349: Rfc6349 | None = None

    @property
    def lost_s(self) -> float:
        """Total time in recoveries."""
        return sum(recovery.lost_s for recovery in self.recoveries)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunDiagnosis:
    verdict: Verdict
    sentence: str
    steady_bps: float | None  # None where too little of the test was steady
    steady_s: float
    findings: Findings | None

    @classmethod
    def not_possible(cls, reason: str) -> RunDiagnosis:
        """Record why a test cannot be diagnosed."""
        sentence = f"undetermined: cannot be diagnosed: {reason}"
        return cls(verdict=Verdict.UNDETERMINED, sentence=sentence, steady_bps=None, steady_s=0.0, findings=None)


def diagnose_run(run: ThroughputRun, background: Background, hosts: HostPair = NO_HOSTS) -> RunDiagnosis | None:
    """Diagnose a test; None without TCP data or intervals."""
    if run.protocol != "tcp" or run.transfer is None or not (run.transfer.sent or run.transfer.received):
        return None
    try:
        diagnosis = diagnose(recording(run, background, hosts))
    except RecordingError as error:
        return RunDiagnosis.not_possible(f"its intervals contradict each other: {error}")
    return RunDiagnosis(
        verdict=diagnosis.verdict,
        sentence=diagnosis.sentence,
        steady_bps=diagnosis.steady_throughput_bps,
        steady_s=diagnosis.steady_s,
        findings=_findings(diagnosis, run),
    )


def recording(run: ThroughputRun, background: Background, hosts: HostPair = NO_HOSTS) -> Recording:
    """Convert a delivered test to the analysis input."""
    transfer = Transfer() if run.transfer is None else run.transfer
    kernel = transfer.kernel
    arrivals = () if transfer.received is None else _arrivals(transfer.received)
    return Recording(
        samples=_as_sent(arrivals) if transfer.sent is None else _samples(transfer.sent),
        arrivals=arrivals,
        omitted_s=transfer.omitted_s,
        streams=run.streams,
        mss_bytes=segment_bytes(transfer),
        congestion_control=run.congestion_control,
        asked_bps=run.asked_bps,
        idle_rtt_ms=min(
            (
                rtt_ms
                for rtt_ms in (background.idle_rtt_ms, None if kernel is None else kernel.rtt_min_ms)
                if rtt_ms is not None
            ),
            default=None,
        ),
        capacity_bps=background.capacity_bps,
        promised_bps=background.promised_bps,
        delivered_bytes=_delivered_bytes(run, transfer),
        earlier_bps=background.earlier_bps,
        sender_cpu_ratio=_cpu_ratio(transfer.sender_cpu),
        receiver_cpu_ratio=_cpu_ratio(transfer.receiver_cpu),
        kernel=None
        if kernel is None
        else TcpInfo(
            age_s=kernel.age_s,
            busy_s=kernel.busy_s,
            peer_window_limited_s=kernel.peer_window_limited_s,
            send_buffer_limited_s=kernel.send_buffer_limited_s,
            duplicates=kernel.duplicates,
        ),
        sender_host=_host_state(hosts.sender, transfer.sender_load),
        receiver_host=_host_state(hosts.receiver, transfer.receiver_load),
        has_thread_per_stream=has_thread_per_stream(run.tool),
        window_bytes=transfer.window_bytes,
        trains=_trains(background),
        ends=None
        if background.source_address is None or background.destination_address is None
        else (background.source_address, background.destination_address),
    )


def _trains(background: Background) -> TrainsResult | None:
    """Return the path's newest policer test."""
    if background.trains_verdict is None or background.trains_age_s is None:
        return None
    return TrainsResult(
        background.trains_verdict, background.trains_bps, background.trains_burst_bytes, background.trains_age_s
    )


def segment_bytes(transfer: Transfer) -> int:
    """Segment payload from the kernel: routers may clamp the tool's MSS."""
    of_kernel = None if transfer.kernel is None else transfer.kernel.segment_bytes
    return of_kernel or transfer.mss_bytes or USUAL_MSS_BYTES


def _host_state(inventory: HostInventory | None, load: HostLoad | None) -> HostState | None:
    if inventory is None and load is None:
        return None
    settings, during = inventory or HostInventory(), load or HostLoad()
    return HostState(
        sysctls=settings.sysctls,
        interface=settings.interface,
        mtu_bytes=settings.mtu_bytes,
        queue_discipline=settings.queue_discipline,
        tx_queue_packets=settings.tx_queue_packets,
        cpu_governor=settings.cpu_governor,
        cores=tuple(CoreUse(core.number, core.busy_ratio, core.softirq_ratio) for core in during.cores),
        tool_core=during.tool_core,
        tool_ratio=during.tool_ratio,
        queue_drops=during.queue_drops,
        speed_bps=settings.speed_bps,
    )


def _delivered_bytes(run: ThroughputRun, transfer: Transfer) -> int | None:
    """Bytes received or acknowledged, including the omitted part."""
    acknowledged_bytes = None if transfer.kernel is None else transfer.kernel.acknowledged_bytes
    # The kernel's counters are sampled shortly before the end, so the tool's total is better where nothing was omitted.
    if run.received_bytes is None or transfer.sent is None or (transfer.omitted_s and acknowledged_bytes is not None):
        return acknowledged_bytes
    # The tool's total leaves out the omitted part, in which at most the bytes written were received.
    omitted = [end_s <= transfer.omitted_s for end_s in transfer.sent.end_s]
    return run.received_bytes + sum(itertools.compress(transfer.sent.sent_bytes, omitted))


def _samples(sent: SentIntervals) -> tuple[SenderInterval, ...]:
    """Convert the sender's intervals, without zero-length intervals."""
    columns = {
        "sent_bytes": sent.sent_bytes,
        "retransmits": sent.retransmits,
        "cwnd_bytes": sent.cwnd_bytes,
        "peer_window_bytes": sent.peer_window_bytes,
        "rtt_ms": sent.rtt_ms,
        "rtt_variation_ms": sent.rtt_variation_ms,
        "path_mtu_bytes": sent.path_mtu_bytes,
    }
    columns_present = {name: column for name, column in columns.items() if column is not None}
    return tuple(
        SenderInterval(
            start_s=start_s,
            end_s=end_s,
            **{name: column[place] for name, column in columns_present.items()},  # type: ignore[arg-type]
        )
        for place, (start_s, end_s) in enumerate(itertools.pairwise((0.0, *sent.end_s)))
        if end_s - start_s >= SHORTEST_S
    )


def _as_sent(arrivals: tuple[ReceiverInterval, ...]) -> tuple[SenderInterval, ...]:
    """Convert the receiver's intervals: rates only."""
    return tuple(
        SenderInterval(start_s=each.start_s, end_s=each.end_s, sent_bytes=each.received_bytes) for each in arrivals
    )


def _arrivals(received: ReceivedIntervals) -> tuple[ReceiverInterval, ...]:
    return tuple(
        ReceiverInterval(start_s, end_s, moved)
        for (start_s, end_s), moved in zip(
            itertools.pairwise((0.0, *received.end_s)), received.received_bytes, strict=True
        )
        if end_s - start_s >= SHORTEST_S
    )


def _cpu_ratio(use: CpuUse | None) -> float | None:
    """Larger CPU use of tool and system, including waiting."""
    return None if use is None else max(use.total_ratio, use.wanted_ratio or 0.0)


def _findings(diagnosis: Diagnosis, run: ThroughputRun) -> Findings:
    sent = None if run.transfer is None else run.transfer.sent
    windows = None if sent is None else sent.peer_window_bytes
    return Findings(
        evidence=tuple(figure for figure in diagnosis.evidence if math.isfinite(figure.value)),
        duration_s=diagnosis.duration_s,
        start_s=diagnosis.start_s,
        too_short=diagnosis.too_short,
        wanted_s=diagnosis.wanted_s,
        recoveries=diagnosis.recoveries,
        pauses=diagnosis.pauses,
        idle_rtt_ms=None if diagnosis.signs is None else _known(diagnosis.signs.base_rtt_ms),
        loaded_rtt_ms=None if diagnosis.signs is None else _known(diagnosis.signs.rtt_ms),
        peer_window_bytes=max(windows) / run.streams if windows else None,
        path_mtu_bytes=diagnosis.path_mtu_bytes,
        jumbo_frames_pass=diagnosis.jumbo_frames_pass,
        rfc6349=diagnosis.rfc6349,
    )


def _known(value: float) -> float | None:
    return None if math.isnan(value) else value
