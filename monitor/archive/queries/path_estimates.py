"""Expected TCP throughput of a path and its bottleneck, from the path's measurements over a period.

In: the path's summary and its throughput tests of the period. Out: a `ThroughputEstimate` of `monitor.analysis.tcp`
with its inputs:

  - RTT and loss are the pings', bursts during throughput tests excluded;
  - the window is the largest that the receiver granted to a stream in the tests of the period;
  - the capacity is that of `monitor.archive.queries.throughput.transfers.backgrounds`: measured, and at least that of
    the best test;
  - congestion control and streams are those of the newest test, or of those before the period. BBR does not react to
    loss, so its loss is taken as zero;
  - the loss is calibrated by tests of that kind in the eight weeks before the period, where that would have helped.
On-demand tests are excluded, except that a faster on-demand test raises the capacity.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from monitor.analysis.sketches import RTT_MS, Sketches
from monitor.analysis.tcp import Loss, Rtt, ThroughputEstimate, TransferSettings, estimate
from monitor.archive.periods import cover
from monitor.archive.queries.paths import PathSummary
from monitor.archive.queries.throughput.calibrations import (
    DayOfTests,
    PathCalibration,
    calibration,
    control_of,
    days_of_tests,
    is_bbr,
    newest_kind,
)
from monitor.archive.queries.throughput.series import ThroughputPoint
from monitor.archive.queries.throughput.transfers import backgrounds
from monitor.archive.statements import run_statement, statement
from monitor.mesh.document.entries import ON_DEMAND

TAILS = (0.1, 0.9)
"""RTT percentiles; the 80% interval lies between them."""


@dataclass(frozen=True, slots=True)
class PathEstimate:
    """An estimate with its inputs. `sender` is the congestion control of the tests, None where no test reports it;
    where it has no model, that of `transfer` differs.

    `estimate` is the answer; where a calibration is used, `uncalibrated` is the answer without it. `calibration` is the
    available calibration, used or not; None where no test before the period qualifies.
    """

    estimate: ThroughputEstimate
    rtt: Rtt
    loss: Loss
    transfer: TransferSettings
    sender: str | None
    uncalibrated: ThroughputEstimate | None = None
    calibration: PathCalibration | None = None


def path_estimate(
    summary: PathSummary | None, tests: Sequence[ThroughputPoint], since: datetime, until: datetime
) -> PathEstimate | None:
    """Estimate for a path; None where no ping was answered in the period."""
    if summary is None or not summary.rtt_median_ms:
        return None
    measured = [
        test for test in tests if test.protocol == "tcp" and test.throughput_bps is not None and test.test != ON_DEMAND
    ]
    days = days_of_tests(since, {summary.path_id: summary.packet_bytes}).get(summary.path_id, [])
    sender, streams = _kind(measured, days)
    background = backgrounds([(summary.path_id, until)])[summary.path_id, until]
    rtt = _round_trip(summary, since, until)
    loss = Loss(0.0) if is_bbr(sender) else Loss.counted(summary.lost, summary.sent)
    transfer = TransferSettings(
        window_bytes=max((test.peer_window_bytes for test in measured if test.peer_window_bytes), default=None),
        capacity_bps=background.capacity_bps,
        control=control_of(sender),
        streams=streams,
    )
    learnt = calibration(days, sender, streams)
    raw, used = estimate(rtt, loss, transfer), None if learnt is None else learnt.used
    if used is None:
        return PathEstimate(raw, rtt, loss, transfer, sender, calibration=learnt)
    answer = estimate(rtt, loss, transfer, calibration=used)
    return PathEstimate(answer, rtt, loss, transfer, sender, uncalibrated=raw, calibration=learnt)


def _kind(tests: Sequence[ThroughputPoint], days: Sequence[DayOfTests]) -> tuple[str | None, int]:
    """Congestion control and streams of the newest test, from before the period where it has none."""
    if tests:
        return tests[-1].congestion_control, tests[-1].streams
    return newest_kind(days) if days else (None, 1)


def _round_trip(summary: PathSummary, since: datetime, until: datetime) -> Rtt:
    """Median RTT as on the path page, with the tails of all RTTs of the period."""
    median_ms = summary.rtt_median_ms
    assert median_ms is not None
    low_ms, high_ms = _tails(summary, since, until)
    # The median of several hours is weighted from theirs, and sketches are within 1%.
    return Rtt(median_ms, min(low_ms or median_ms, median_ms), max(high_ms or median_ms, median_ms))


def _tails(summary: PathSummary, since: datetime, until: datetime) -> tuple[float | None, float | None]:
    parameters: dict[str, object] = {"packet_bytes": summary.packet_bytes, "path_ids": [summary.path_id]}
    pieces = []
    for number, stretch in enumerate(cover(since, until)):
        parameters |= {f"since_{number}": stretch.since, f"until_{number}": stretch.until}
        pieces.append(statement("piece", tier=stretch.tier, number=str(number), columns="rtt_sketch"))
    _, rows = run_statement("rtt_sketch", {"pieces": "\nUNION ALL\n".join(pieces)}, **parameters)
    [low_ms, high_ms] = Sketches.of_bytes([rows[0][0]]).quantiles(TAILS, RTT_MS)[0].tolist()
    return (None, None) if low_ms != low_ms else (low_ms, high_ms)
