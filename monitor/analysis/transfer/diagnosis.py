"""Diagnose a test: its limit, its phases, and the cost of each loss event."""

from __future__ import annotations

from dataclasses import dataclass

from monitor.analysis.transfer.events import Pause, Recovery, pauses, recoveries
from monitor.analysis.transfer.finding import EvidenceFigure, Verdict
from monitor.analysis.transfer.record import Recording, series
from monitor.analysis.transfer.rfc6349 import Rfc6349, rfc6349
from monitor.analysis.transfer.signs import Signs, read_signs
from monitor.analysis.transfer.start import STEADY_SHARE, start_seconds, wanted_seconds
from monitor.analysis.transfer.verdicts import find, is_enough

JUMBO_BYTES = 9000


@dataclass(frozen=True, slots=True, kw_only=True)
class Diagnosis:
    """Diagnosis of a test. The sentence of an undetermined test is the reason."""

    verdict: Verdict
    sentence: str
    evidence: tuple[EvidenceFigure, ...]
    duration_s: float
    start_s: float
    steady_s: float  # after slow start and the omitted part
    steady_throughput_bps: float | None  # None where the steady part is too short
    too_short: bool  # too small a share of the test after slow start
    wanted_s: float  # length with a tenth of slow start; minimum if that never ended
    recoveries: tuple[Recovery, ...]
    pauses: tuple[Pause, ...]
    signs: Signs | None  # None without a steady part
    path_mtu_bytes: int | None  # minimum seen
    jumbo_frames_pass: bool | None
    rfc6349: Rfc6349 | None


def diagnose(recording: Recording) -> Diagnosis:
    """Diagnose the limit and the phases of a test. Raises `RecordingError` where intervals contradict."""
    if not recording.samples:
        return _without_intervals()
    data = series(recording)
    slow_start_end_s, events = start_seconds(data), recoveries(data)
    start_s = slow_start_end_s - float(data.start_s[0])
    idle = pauses(data, recording.mss_bytes)
    steady_from_s = max(slow_start_end_s, recording.omitted_s)
    signs = read_signs(recording, data, slow_start_end_s, steady_from_s, events, idle)
    duration_s = float(data.end_s[-1] - data.start_s[0])
    finding = find(signs, recording, start_s, duration_s)
    mtu_bytes = min((sample.path_mtu_bytes for sample in recording.samples if sample.path_mtu_bytes), default=None)
    return Diagnosis(
        verdict=finding.verdict,
        sentence=finding.sentence,
        evidence=finding.evidence,
        duration_s=duration_s,
        start_s=start_s,
        steady_s=signs.steady_s,
        steady_throughput_bps=signs.throughput_bps if is_enough(signs) else None,
        too_short=duration_s - start_s < STEADY_SHARE * duration_s,
        wanted_s=wanted_seconds(start_s),
        recoveries=events,
        pauses=idle,
        signs=signs if signs.steady_s > 0.0 else None,
        path_mtu_bytes=mtu_bytes,
        jumbo_frames_pass=_jumbo_frames_pass(mtu_bytes, data.delivered_bytes.sum() > 0.0),
        rfc6349=rfc6349(recording, data),
    )


def _without_intervals() -> Diagnosis:
    return Diagnosis(
        verdict=Verdict.UNDETERMINED,
        sentence="undetermined: the test left no intervals",
        evidence=(),
        duration_s=0.0,
        start_s=0.0,
        steady_s=0.0,
        steady_throughput_bps=None,
        too_short=True,
        wanted_s=0.0,
        recoveries=(),
        pauses=(),
        signs=None,
        path_mtu_bytes=None,
        jumbo_frames_pass=None,
        rfc6349=None,
    )


def _jumbo_frames_pass(mtu_bytes: int | None, delivered: bool) -> bool | None:
    return None if mtu_bytes is None or not delivered else mtu_bytes >= JUMBO_BYTES
