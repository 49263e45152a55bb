"""What a path's own throughput tests say of its loss: the days of the eight weeks before a moment, and a calibration.

In: paths with a packet size each, and the moment before which to look. Only whole days that were over then are asked
for, so that what is tested after it has no part in its calibration. Out: `DayOfTests`s, and a `PathCalibration` for one
kind of transfer. How it is worked out is in `monitor.analysis.tcp.calibration`.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from monitor.analysis import tcp
from monitor.analysis.tcp import Calibration, CongestionControl
from monitor.analysis.transfer import Verdict
from monitor.archive.periods import start_of
from monitor.archive.statements import ask, records
from monitor.mesh.entries import ON_DEMAND

LOOKBACK = timedelta(days=56)
HELD_BY_PATH = (
    Verdict.RANDOM_LOSS,
    Verdict.BOTTLENECK_QUEUE,
    Verdict.POLICER,
    Verdict.REORDERING,
    Verdict.UNDETERMINED,
)
"""What a window, an application or a processor held back says nothing of the path's loss."""


@dataclass(frozen=True, slots=True)
class DayOfTests:
    """A UTC day of a path: the median of its tests with one congestion control and so many streams, and its pings."""

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
    """What was found for one kind of transfer; `found` is None of too few stretches."""

    found: Calibration | None
    stretches: int

    @property
    def used(self) -> Calibration | None:
        """The calibration where it would have helped."""
        return self.found if self.found is not None and self.found.helps else None


def days_of_tests(before: datetime, sizes: Mapping[int, int]) -> dict[int, list[DayOfTests]]:
    """The days of each of these paths, oldest first; `sizes` has the packet size of each."""
    until = start_of("day", before)
    asked = {"path_ids": list(sizes), "sizes": list(sizes.values()), "since": until - LOOKBACK, "until": until}
    found: dict[int, list[DayOfTests]] = defaultdict(list)
    rows = ask("days_of_tests", **asked, on_demand=ON_DEMAND, verdicts=[str(one) for one in HELD_BY_PATH])
    for day in records(DayOfTests, *rows):
        found[day.path_id].append(day)
    return dict(found)


def calibration(days: Iterable[DayOfTests], sender: str | None, streams: int) -> PathCalibration | None:
    """From the days of one path, for transfers of that kind; None where no test of that kind counts, and for BBR."""
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
    """Congestion control and streams of the newest day, the fewest streams where there are several."""
    newest = min(days, key=lambda one: (-one.day.timestamp(), one.streams, one.congestion_control or ""))
    return newest.congestion_control, newest.streams


def control_of(sender: str | None) -> CongestionControl:
    """The model for a congestion control as Linux calls it; CUBIC's where there is none, or none is known."""
    return CongestionControl(sender) if sender in set(CongestionControl) else CongestionControl.CUBIC


def is_bbr(sender: str | None) -> bool:
    """BBR does not go by loss."""
    return sender is not None and sender.startswith("bbr")
