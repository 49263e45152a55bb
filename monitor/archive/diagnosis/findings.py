"""What a throughput test says about the transfer, from what its agent delivered.

In: a `ThroughputRun`, and the `Background` of its path. Out: what is stored of the answer: verdict, sentence, steady
rate, and `Findings` beside them. How the limit is told is in `monitor.analysis.transfer`; here its input is put
together. No database.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from datetime import datetime

from monitor.analysis.transfer import (
    Arrival,
    Diagnosis,
    Figure,
    KernelCounts,
    Pause,
    Recording,
    RecordingError,
    Recovery,
    Rfc6349,
    Sample,
    Verdict,
    diagnose,
)
from probes.throughput.spec import CpuUse, ReceivedIntervals, SentIntervals, ThroughputRun, Transfer

SHORTEST_S = 0.001
"""Of an interval: what moved in less is no rate."""

USUAL_MSS_BYTES = 1448
"""Of Ethernet with TCP's time stamps, where the tool does not say."""


@dataclass(frozen=True, slots=True)
class Background:
    """What was known of a path when a test of it began; None is not known. `capacity_bps` is of the whole path."""

    path_id: int
    at: datetime
    idle_rtt_ms: float | None = None
    capacity_bps: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Findings:
    """What is kept of a `monitor.analysis.transfer.Diagnosis` beside its verdict, sentence and steady rate.

    Round trips are medians of the steady part, `idle_rtt_ms` the least known, the ping's included.
    `peer_window_bytes` is the largest window that the receiver gave to one stream.
    """

    evidence: tuple[Figure, ...] = ()
    duration_s: float
    start_s: float
    too_short: bool
    wanted_s: float
    recoveries: tuple[Recovery, ...] = ()
    pauses: tuple[Pause, ...] = ()
    idle_rtt_ms: float | None = None
    loaded_rtt_ms: float | None = None
    peer_window_bytes: float | None = None
    path_mtu_bytes: int | None = None
    jumbo_frames_pass: bool | None = None
    rfc6349: Rfc6349 | None = None

    @property
    def lost_s(self) -> float:
        """What the recoveries cost in all."""
        return sum(one.lost_s for one in self.recoveries)


@dataclass(frozen=True, slots=True, kw_only=True)
class Told:
    """What a test says, as it is stored. `steady_bps` is None where too little of it was steady."""

    verdict: Verdict
    sentence: str
    steady_bps: float | None
    steady_s: float
    findings: Findings | None

    @classmethod
    def not_possible(cls, reason: str) -> Told:
        """Where a test cannot be diagnosed."""
        sentence = f"undetermined: it cannot be diagnosed: {reason}"
        return cls(verdict=Verdict.UNDETERMINED, sentence=sentence, steady_bps=None, steady_s=0.0, findings=None)


def told(run: ThroughputRun, background: Background) -> Told | None:
    """What a test says; None where it carried nothing over TCP whose intervals are known."""
    if run.protocol != "tcp" or run.transfer is None or run.transfer.sent is None:
        return None
    try:
        found = diagnose(recording(run, background))
    except RecordingError as error:
        return Told.not_possible(f"its intervals contradict each other: {error}")
    return Told(
        verdict=found.verdict,
        sentence=found.sentence,
        steady_bps=found.steady_throughput_bps,
        steady_s=found.steady_s,
        findings=_findings(found, run),
    )


def recording(run: ThroughputRun, background: Background) -> Recording:
    """A delivered test as the analysis takes it."""
    transfer = Transfer() if run.transfer is None else run.transfer
    kernel = transfer.kernel
    return Recording(
        samples=() if transfer.sent is None else _samples(transfer.sent),
        arrivals=() if transfer.received is None else _arrivals(transfer.received),
        omitted_s=transfer.omitted_s,
        streams=run.streams,
        mss_bytes=transfer.mss_bytes or USUAL_MSS_BYTES,
        congestion_control=run.congestion_control,
        asked_bps=run.asked_bps,
        idle_rtt_ms=min(
            (one for one in (background.idle_rtt_ms, None if kernel is None else kernel.rtt_min_ms) if one is not None),
            default=None,
        ),
        capacity_bps=background.capacity_bps,
        sender_cpu_ratio=_cpu_ratio(transfer.sender_cpu),
        receiver_cpu_ratio=_cpu_ratio(transfer.receiver_cpu),
        kernel=None
        if kernel is None
        else KernelCounts(
            age_s=kernel.age_s,
            busy_s=kernel.busy_s,
            peer_window_limited_s=kernel.peer_window_limited_s,
            send_buffer_limited_s=kernel.send_buffer_limited_s,
            duplicates=kernel.duplicates,
        ),
    )


def _samples(sent: SentIntervals) -> tuple[Sample, ...]:
    """Intervals of no length, which a tool may report at its end, are left out."""
    columns = {
        "sent_bytes": sent.sent_bytes,
        "retransmits": sent.retransmits,
        "cwnd_bytes": sent.cwnd_bytes,
        "peer_window_bytes": sent.peer_window_bytes,
        "rtt_ms": sent.rtt_ms,
        "path_mtu_bytes": sent.path_mtu_bytes,
    }
    known = {name: column for name, column in columns.items() if column is not None}
    return tuple(
        Sample(start_s=start_s, end_s=end_s, **{name: column[place] for name, column in known.items()})  # type: ignore[arg-type]
        for place, (start_s, end_s) in enumerate(itertools.pairwise((0.0, *sent.end_s)))
        if end_s - start_s >= SHORTEST_S
    )


def _arrivals(received: ReceivedIntervals) -> tuple[Arrival, ...]:
    return tuple(
        Arrival(start_s, end_s, moved)
        for (start_s, end_s), moved in zip(
            itertools.pairwise((0.0, *received.end_s)), received.received_bytes, strict=True
        )
        if end_s - start_s >= SHORTEST_S
    )


def _cpu_ratio(use: CpuUse | None) -> float | None:
    """The tool counts what it got, its system also what it waited for: the larger of them."""
    return None if use is None else max(use.total_ratio, use.wanted_ratio or 0.0)


def _findings(found: Diagnosis, run: ThroughputRun) -> Findings:
    sent = None if run.transfer is None else run.transfer.sent
    windows = None if sent is None else sent.peer_window_bytes
    return Findings(
        evidence=tuple(figure for figure in found.evidence if math.isfinite(figure.value)),
        duration_s=found.duration_s,
        start_s=found.start_s,
        too_short=found.too_short,
        wanted_s=found.wanted_s,
        recoveries=found.recoveries,
        pauses=found.pauses,
        idle_rtt_ms=None if found.signs is None else _known(found.signs.base_rtt_ms),
        loaded_rtt_ms=None if found.signs is None else _known(found.signs.rtt_ms),
        peer_window_bytes=max(windows) / run.streams if windows else None,
        path_mtu_bytes=found.path_mtu_bytes,
        jumbo_frames_pass=found.jumbo_frames_pass,
        rfc6349=found.rfc6349,
    )


def _known(value: float) -> float | None:
    return None if math.isnan(value) else value
