"""The level of a finding: its figure now and at its worst, as `IncidentPath.level` stores it.

In: a finding of an incident. Out: its stored `FindingLevel`, whether that is normal again, and the figure with which
the finding fired. `monitor.alerts.incidents.levels` measures it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any

import msgspec

from monitor.alerts.detect.damage import loss_ratio
from monitor.alerts.detect.packet_times import EndedOutage
from monitor.alerts.models import Incident, IncidentPath
from monitor.analysis import figures as shown
from monitor.analysis.changes.ended_loss import CleanRun
from monitor.analysis.changes.present import LostPackets

LONGEST_NOW_S = 240.0
"""Four cycles of a minute: what a longer time tells may be over."""
NOISE = 0.02
"""Share of a peak within which a median of a few bursts, or a rate, is not below it."""


class LevelUnit(StrEnum):
    """Units of levels."""

    LOSS_RATIO = "loss_ratio"
    MILLISECONDS = "ms"
    BITS_PER_SECOND = "bps"


@dataclass(frozen=True, slots=True)
class FindingLevel:
    """A figure now and at its worst; `now` is None without measurements. `since` is the first burst that it is of.

    `sent` packets are those of the loss now, which varies `together` times more than independent losses; `window_s` is
    the time before the evaluation in which they began, or the bursts of the RTT. `began_at` is the onset of a loss or
    its last change; `has_changed`: it changed since its detection, and the window begins with that change. `stretch`
    are the packets since then, `worst` those of the worst such stretch, whose loss is the `peak`. `unanswered_since` is
    the last reply of a path that lost its newest cycles as a whole; None while it answers. `ended_outage` is the last
    such time, if the path answers again: the present is since then. `clean` are the newest packets, without a loss.
    `recovered_at` is since when it was last back to normal, also if it is bad again. `newest_at` is the newest burst of
    the last figure, also where there is none now. `is_ended`: a loss is over since `recovered_at`, as its packets prove
    (`loss_end`); packets that a healthy path loses too leave it so. `is_stale`: newer bursts are overdue, so the figure
    is that of `newest_at`, not of now.
    """

    unit: LevelUnit
    now: float | None
    peak: float
    sent: int | None = None
    window_s: float | None = None
    has_changed: bool = False
    unanswered_since: datetime | None = None
    together: float = 1.0
    began_at: datetime | None = None
    since: datetime | None = None
    recovered_at: datetime | None = None
    stretch: LostPackets | None = None
    worst: LostPackets | None = None
    ended_outage: EndedOutage | None = None
    clean: CleanRun | None = None
    newest_at: datetime | None = None
    is_ended: bool = False
    is_stale: bool = False

    @property
    def now_text(self) -> str:
        """The figure now; of a loss with the digits that its packets prove, else its interval: `4 to 7%`."""
        if self.now is None:
            return shown.NO_DATA
        return self._text(self.now) if self.counts is None else self.counts.text

    @property
    def counts(self) -> LostPackets | None:
        """The packets of the loss now."""
        return None if not self.sent or self.lost is None else LostPackets(self.sent, self.lost, self.together)

    @property
    def when_text(self) -> str:
        """The present: `now`, or where the loss has changed the time of its first packets: `since 10:05:10 UTC`, or
        where it takes longer to tell it: `in the last 9 min`; `as of 10:05:10 UTC` where newer bursts are overdue."""
        if self.is_stale:
            return self.as_of_text
        if self.has_changed and self.since is not None:
            return self.since_text
        return "now" if self.is_of_now else f"in the last {shown.duration(self.window_s or 0.0)}"

    @property
    def is_of_now(self) -> bool:
        """Whether the figure is of so short a time that it may be called that of now."""
        return not self.is_stale and (self.window_s or 0.0) <= LONGEST_NOW_S

    @property
    def as_of_text(self) -> str:
        """The newest burst, of a figure that is not of now."""
        return "" if self.newest_at is None else f"as of {self.newest_at:%H:%M:%S} UTC"

    @property
    def since_text(self) -> str:
        """A time, not an age: a page is read later than the rules are evaluated."""
        return "now" if self.since is None else f"since {self.since:%H:%M:%S} UTC"

    @property
    def lost(self) -> int | None:
        return None if self.now is None or self.sent is None else round(self.now * self.sent)

    @property
    def interval(self) -> tuple[float, float] | None:
        """The interval of the loss now, as `LostPackets.interval`."""
        return None if self.counts is None else self.counts.interval

    @property
    def peak_text(self) -> str:
        return self._text(self.peak) if self.worst is None else self.worst.text

    @property
    def is_below_peak(self) -> bool:
        """Whether the figure now is not the worst; of a loss, whether the packets prove that."""
        if self.worst is None or self.counts is None:
            return self.now is not None and not self._is_near_peak
        return self.worst.is_above(self.counts)

    @property
    def is_at_peak(self) -> bool:
        """Whether the figure now may be the worst; of a loss, whether the worst is within its interval."""
        if self.interval is None:
            return self._is_near_peak
        return not self.is_below_peak and self.interval[0] <= self.peak <= self.interval[1]

    @property
    def _is_near_peak(self) -> bool:
        return self.now is not None and abs(self.now - self.peak) <= NOISE * abs(self.peak)

    def _text(self, value: float) -> str:
        if self.unit is LevelUnit.LOSS_RATIO:
            return shown.percent(value)
        return shown.milliseconds(value) if self.unit is LevelUnit.MILLISECONDS else shown.bit_rate(value)


def level_of(row: IncidentPath) -> FindingLevel | None:
    """The stored level of a finding."""
    return None if row.level is None else msgspec.convert(row.level, FindingLevel)


def worst_loss(incident: Incident) -> LostPackets | None:
    """The stored worst loss of the paths of an incident together."""
    return None if incident.worst_loss is None else msgspec.convert(incident.worst_loss, LostPackets)


def is_normal_again(row: IncidentPath) -> bool:
    """Whether the loss is over, or the RTT or the throughput is nearer to that before."""
    return is_normal(level_of(row), row)


def is_normal(level: FindingLevel | None, row: IncidentPath) -> bool:
    """As `is_normal_again`, of this level of the finding."""
    detected = at_detection(row.figures)
    if level is None or level.now is None or detected is None or level.unanswered_since is not None:
        return False
    if level.unit is LevelUnit.LOSS_RATIO:
        return level.is_ended
    names = {LevelUnit.MILLISECONDS: "before_ms", LevelUnit.BITS_PER_SECOND: "before_bps"}
    before = row.figures.get(names.get(level.unit, ""))
    return before is not None and abs(level.now - before) < abs(level.now - detected)


def is_bad_now(row: IncidentPath) -> bool:
    """Whether the path of a finding may be called bad: not while newer measurements are overdue, nor once its loss is
    over."""
    level = level_of(row)
    if level is None or level.unanswered_since is not None:
        return True
    return level.now is not None and not level.is_stale and not level.is_ended


def is_clean(level: FindingLevel | None) -> bool:
    """Whether a loss is over, and nothing has been lost since."""
    return level is not None and level.is_ended and level.now == 0.0


def at_detection(figures: Mapping[str, Any]) -> float | None:
    """The figure with which a finding fired, in the unit of its level."""
    lost = loss_ratio(figures)
    if lost is not None:
        return lost
    if "unanswered_until" in figures:
        return 1.0
    return next((float(figures[name]) for name in ("ratio", "after_ms", "after_bps") if name in figures), None)
