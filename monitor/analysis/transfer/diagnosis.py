"""What a test says: what limited the transfer, how its time was spent, and what was lost to each event.

In: a `Recording`. Out: a `Diagnosis`. How the limit is told from the signs is in `monitor.analysis.transfer.verdicts`.
"""

from __future__ import annotations

from dataclasses import dataclass

from monitor.analysis.transfer.events import Pause, Recovery, pauses, recoveries
from monitor.analysis.transfer.record import Recording, series
from monitor.analysis.transfer.rfc6349 import Rfc6349, rfc6349
from monitor.analysis.transfer.signs import Signs, read_signs
from monitor.analysis.transfer.start import STEADY_SHARE, start_seconds, wanted_seconds
from monitor.analysis.transfer.verdicts import Figure, Verdict, find, is_enough

JUMBO_BYTES = 9000


@dataclass(frozen=True, slots=True, kw_only=True)
class Diagnosis:
    """What a test says. The sentence of an undetermined one is the reason why it cannot be told.

    What is steady comes after slow start, and after the part that the tool was told to omit where that is longer.
    `steady_throughput_bps` is None where too little was steady to say anything of it. `wanted_s` is how long a test
    must be for slow start to be a tenth of it; where that had not ended it is the least, as `too_short` then says for
    certain only that this was not. `signs` are None where there was no steady part. `path_mtu_bytes` is the least that
    was seen.
    """

    verdict: Verdict
    sentence: str
    evidence: tuple[Figure, ...]
    duration_s: float
    start_s: float
    steady_s: float
    steady_throughput_bps: float | None
    too_short: bool
    wanted_s: float
    recoveries: tuple[Recovery, ...]
    pauses: tuple[Pause, ...]
    signs: Signs | None
    path_mtu_bytes: int | None
    jumbo_frames_pass: bool | None
    rfc6349: Rfc6349 | None


def diagnose(recording: Recording) -> Diagnosis:
    """What limited the test, and how its time was spent. Raises `RecordingError` where intervals contradict."""
    if not recording.samples:
        return _without_intervals()
    data = series(recording)
    start_s, events = start_seconds(data) - float(data.start_s[0]), recoveries(data)
    idle = pauses(data, recording.mss_bytes)
    steady_from_s = max(start_s + float(data.start_s[0]), recording.omitted_s)
    signs = read_signs(recording, data, steady_from_s, events, idle)
    duration_s = float(data.end_s[-1] - data.start_s[0])
    finding = find(signs, recording, start_s, duration_s)
    mtu_bytes = min((one.path_mtu_bytes for one in recording.samples if one.path_mtu_bytes), default=None)
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
    """By the path MTU that the sender's kernel used until the end, with data arriving; None where it is not known."""
    return None if mtu_bytes is None or not delivered else mtu_bytes >= JUMBO_BYTES
