"""Calibrate the throughput estimate by a path's own tests, on whole days of the eight weeks before
(`monitor.analysis.tcp.calibration`)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from monitor.analysis import tcp
from monitor.analysis.tcp import Calibration, CongestionControl
from monitor.analysis.transfer import Verdict
from monitor.archive.periods import start_of
from monitor.archive.statements import records, run_statement
from monitor.mesh.document.entries import ON_DEMAND

LOOKBACK = timedelta(days=56)
# Tests limited by window, application or CPU show nothing about the path's loss.
HELD_BY_PATH = (
    Verdict.RANDOM_LOSS,
    Verdict.LOSS,
    Verdict.BOTTLENECK_QUEUE,
    Verdict.POLICER,
    Verdict.REORDERING,
    Verdict.UNDETERMINED,
)


@dataclass(frozen=True, slots=True)
class DayOfTests:
    """UTC day of a path: median of tests of one kind, and pings."""

    path_id: int
    day: datetime
    congestion_control: str | None
    streams: int
    measured_bps: float
    capacity_bps: float | None
    rtt_ms: float
    lost: int
    sent: int


@dataclass(frozen=True, slots=True)
class PathCalibration:
    """Calibration for a kind of transfer; None with too few days."""

    calibration: Calibration | None
    stretches: int

    @property
    def used(self) -> Calibration | None:
        """Calibration, if it would have improved the estimate."""
        return self.calibration if self.calibration is not None and self.calibration.helps else None


def days_of_tests(before: datetime, sizes: Mapping[int, int]) -> dict[int, list[DayOfTests]]:
    """Days of tests by path, oldest first; `sizes` has packet sizes."""
    until = start_of("day", before)
    parameters = {"path_ids": list(sizes), "sizes": list(sizes.values()), "since": until - LOOKBACK, "until": until}
    days: dict[int, list[DayOfTests]] = defaultdict(list)
    rows = run_statement(
        "days_of_tests", **parameters, on_demand=ON_DEMAND, verdicts=[str(verdict) for verdict in HELD_BY_PATH]
    )
    for day in records(DayOfTests, *rows):
        days[day.path_id].append(day)
    return dict(days)


def calibration(days: Iterable[DayOfTests], sender: str | None, streams: int) -> PathCalibration | None:
    """Calibrate for transfers of this kind; None without such tests, and for BBR."""
    alike = [
        tcp.MeasuredDay(day.rtt_ms, day.lost, day.sent, day.measured_bps, day.capacity_bps)
        for day in days
        if (day.congestion_control, day.streams) == (sender, streams)
    ]
    if not alike or is_bbr(sender):
        return None
    joined = tcp.stretches(alike)
    return PathCalibration(tcp.calibrate(joined, control_of(sender), streams), len(joined))


def newest_kind(days: Sequence[DayOfTests]) -> tuple[str | None, int]:
    """Congestion control and streams of the newest day, preferring fewest streams."""
    newest = min(days, key=lambda day: (-day.day.timestamp(), day.streams, day.congestion_control or ""))
    return newest.congestion_control, newest.streams


def control_of(sender: str | None) -> CongestionControl:
    """Model for a Linux congestion control name; CUBIC's if missing or without model."""
    return CongestionControl(sender) if sender in set(CongestionControl) else CongestionControl.CUBIC


def is_bbr(sender: str | None) -> bool:
    """Whether the sender uses BBR, which does not react to loss."""
    return sender is not None and sender.startswith("bbr")
