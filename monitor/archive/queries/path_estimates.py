"""Estimate a path's TCP throughput and bottleneck: a forecast from its tests, and the model of `monitor.analysis.tcp`.

Inputs: pings since the last change, the largest window, the measured or best tested capacity, a calibration by tests.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from django.utils import timezone

from monitor.analysis.sketches import RTT_MS, Sketches
from monitor.analysis.tcp import (
    Forecast,
    Loss,
    PathPings,
    Rtt,
    Sign,
    ThroughputEstimate,
    TransferKind,
    TransferSettings,
    estimate,
)
from monitor.archive.periods import cover
from monitor.archive.queries.directions import direction_counts, direction_totals
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
from monitor.archive.queries.throughput.forecasts import (
    TAILS,
    UnansweredPings,
    path_forecast,
    present_pings,
)
from monitor.archive.queries.throughput.series import ThroughputPoint
from monitor.archive.queries.throughput.transfers import backgrounds
from monitor.archive.statements import run_statement, statement
from monitor.mesh.document.entries import ON_DEMAND


@dataclass(frozen=True, slots=True)
class PathEstimate:
    estimate: ThroughputEstimate  # from the model alone
    rtt: Rtt
    loss: Loss
    transfer: TransferSettings
    sender: str | None  # congestion control of the tests; None where not reported
    uncalibrated: ThroughputEstimate | None = None  # estimate without the calibration in use
    calibration: PathCalibration | None = None  # available, used or not; None without qualifying tests
    forecast: Forecast | None = None  # from tests, at `until`; None without tests
    until: datetime | None = None
    pings_since: datetime | None = None  # begin of the pings used; None: the whole period
    is_since_change: bool = False  # whether loss or RTT changed then


def path_estimate(
    summary: PathSummary | None, tests: Sequence[ThroughputPoint], since: datetime, until: datetime
) -> PathEstimate | UnansweredPings | None:
    """Estimate for a path; None without an answered ping, `UnansweredPings` in an outage at the period's end."""
    if summary is None or not summary.rtt_median_ms:
        return None
    present = present_pings(summary.path_id, summary.packet_bytes, until)
    if isinstance(present, UnansweredPings):
        return present
    measured = [
        test for test in tests if test.protocol == "tcp" and test.throughput_bps is not None and test.test != ON_DEMAND
    ]
    days = days_of_tests(since, {summary.path_id: summary.packet_bytes}).get(summary.path_id, [])
    sender, streams = _kind(measured, days)
    background = backgrounds([(summary.path_id, until)])[summary.path_id, until]
    pings_since = None if present is None else present[0].since
    rtt = _round_trip(summary, since, until) if present is None else present[1]
    # Forward loss alone, where counted: acknowledgements are cumulative, so their loss costs little.
    loss = _loss(summary, since, until) if present is None else _present_loss(summary.path_id, present[0], until)
    transfer = TransferSettings(
        window_bytes=max((test.peer_window_bytes for test in measured if test.peer_window_bytes), default=None),
        capacity_bps=background.capacity_bps,
        control=control_of(sender),
        streams=streams,
        is_bbr=is_bbr(sender),
    )
    # A calibration is of the loss of round trips.
    learnt = None if loss.is_forward else calibration(days, sender, streams)
    used = None if learnt is None else learnt.used
    raw = _with_index(estimate(rtt, loss, transfer), summary)
    return PathEstimate(
        raw if used is None else _with_index(estimate(rtt, loss, transfer, calibration=used), summary),
        rtt,
        loss,
        transfer,
        sender,
        uncalibrated=None if used is None else raw,
        calibration=learnt,
        forecast=path_forecast(summary.path_id, summary.packet_bytes, until, sender, _transfer_kind(transfer)),
        until=until,
        pings_since=pings_since,
        is_since_change=present is not None and present[0].is_since_change,
    )


def _present_loss(path_id: int, now: PathPings, until: datetime) -> Loss:
    since = until if now.since is None else now.since
    counted = direction_counts(since, until, [path_id]).get(path_id)
    if counted is None or not counted.sent:
        return Loss.counted(now.lost, now.sent)
    return Loss.counted_forward(counted.forward_lost, counted.sent)


def _loss(summary: PathSummary, since: datetime, until: datetime) -> Loss:
    counted = direction_totals(since, until, [summary.path_id]).get(summary.path_id)
    if counted is None or not counted.sent:
        return Loss.counted(summary.lost, summary.sent)
    return Loss.counted_forward(counted.forward_lost, counted.sent)


def _transfer_kind(transfer: TransferSettings) -> TransferKind:
    return TransferKind(
        control=transfer.control,
        streams=transfer.streams,
        is_bbr=transfer.is_bbr,
        window_bytes=transfer.window_bytes,
        capacity_bps=transfer.capacity_bps,
    )


def _with_index(answer: ThroughputEstimate, summary: PathSummary) -> ThroughputEstimate:
    sign = Sign.AT_LEAST if summary.estimate_is_floor else Sign.ABOUT
    return replace(
        answer,
        reno_index_bps=summary.estimate_bps,
        reno_index_sign=None if summary.estimate_bps is None else sign,
    )


def _kind(tests: Sequence[ThroughputPoint], days: Sequence[DayOfTests]) -> tuple[str | None, int]:
    """Congestion control and streams of the newest test."""
    if tests:
        return tests[-1].congestion_control, tests[-1].streams
    return newest_kind(days) if days else (None, 1)


def _round_trip(summary: PathSummary, since: datetime, until: datetime) -> Rtt:
    median_ms = summary.rtt_median_ms
    assert median_ms is not None
    low_ms, high_ms = _tails(summary, since, until)
    # The median of several hours is weighted from theirs, and sketches are within 1%.
    return Rtt(median_ms, min(low_ms or median_ms, median_ms), max(high_ms or median_ms, median_ms))


def _tails(summary: PathSummary, since: datetime, until: datetime) -> tuple[float | None, float | None]:
    parameters: dict[str, object] = {"packet_bytes": summary.packet_bytes, "path_ids": [summary.path_id]}
    pieces = []
    for number, stretch in enumerate(cover(since, until, timezone.now())):
        parameters |= {f"since_{number}": stretch.since, f"until_{number}": stretch.until}
        pieces.append(statement("piece", tier=stretch.tier, number=str(number), columns="rtt_sketch"))
    _, rows = run_statement("rtt_sketch", {"pieces": "\nUNION ALL\n".join(pieces)}, **parameters)
    [low_ms, high_ms] = Sketches.of_bytes([rows[0][0]]).quantiles(TAILS, RTT_MS)[0].tolist()
    return (None, None) if low_ms != low_ms else (low_ms, high_ms)
