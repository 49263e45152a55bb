"""The level of a finding: its figure now and at its worst, as `IncidentPath.level` stores it.

In: a finding of an incident. Out: its stored `FindingLevel`, whether that is normal again, and the figure with which
the finding fired. `monitor.alerts.incidents.levels` measures it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any

import msgspec

from monitor.alerts.detect.damage import loss_ratio
from monitor.alerts.detect.packet_times import EndedOutage
from monitor.alerts.models import Incident, IncidentPath
from monitor.analysis import figures as shown
from monitor.analysis.changes.present import ENDED_NATS, CleanRun, LostPackets

LONGEST_NOW_S = 240.0
"""Four cycles of a minute: what a longer time tells may be over."""
NOISE = 0.02
"""Share of a peak within which a median of a few bursts, or a rate, is not below it."""
SAME_END_S = 20.0
"""Two cycles of ten seconds: of a loss that ends on several paths, the last lost packets are as near."""


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
    the last figure, also where there is none now.
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
        where it takes longer to tell it: `in the last 9 min`."""
        if self.has_changed and self.since is not None:
            return self.since_text
        return "now" if self.is_of_now else f"in the last {shown.duration(self.window_s or 0.0)}"

    @property
    def is_of_now(self) -> bool:
        """Whether the figure is of so short a time that it may be called that of now."""
        return (self.window_s or 0.0) <= LONGEST_NOW_S

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
    """Whether the present loss is certainly below half of that at detection, or the RTT or the throughput
    is nearer to that before."""
    return is_normal(level_of(row), row)


def is_normal(level: FindingLevel | None, row: IncidentPath) -> bool:
    """As `is_normal_again`, of this level of the finding."""
    detected = at_detection(row.figures)
    if level is None or level.now is None or detected is None or level.unanswered_since is not None:
        return False
    if level.unit is LevelUnit.LOSS_RATIO:
        return level.interval is not None and level.interval[1] < detected / 2.0
    names = {LevelUnit.MILLISECONDS: "before_ms", LevelUnit.BITS_PER_SECOND: "before_bps"}
    before = row.figures.get(names.get(level.unit, ""))
    return before is not None and abs(level.now - before) < abs(level.now - detected)


def is_bad_now(row: IncidentPath, now: datetime) -> bool:
    """Whether the path of a finding may be called bad: not without newer measurements, nor without a present loss."""
    level = level_of(row)
    if level is None or level.unanswered_since is not None:
        return True
    is_newer = level.newest_at is None or (now - level.newest_at).total_seconds() <= LONGEST_NOW_S
    return level.now is not None and is_newer and not is_clean(level)


def without_ended(levels: Sequence[FindingLevel | None], now: datetime) -> list[FindingLevel | None]:
    """These levels of an incident, with the loss of the newest packets, which is none, where these prove that a loss
    has ended: those of its path, or of all paths together where all ended at the same time. A mean over both sides of
    the end was never true."""
    lossy = [of for of in levels if of is not None and of.unit is LevelUnit.LOSS_RATIO and of.now]
    clean = [of.clean for of in lossy if of.clean is not None]
    begins_s = [run.since_s for run in clean]
    end_together = len(clean) == len(lossy) > 0 and max(begins_s) - min(begins_s) <= SAME_END_S
    is_proven = end_together and sum(run.nats for run in clean) >= ENDED_NATS
    return [
        level
        if level is None or level.clean is None or not (is_proven or level.clean.nats >= ENDED_NATS)
        else replace(
            level,
            now=0.0,
            sent=round(level.clean.sent),
            window_s=now.timestamp() - level.clean.since_s,
            since=datetime.fromtimestamp(level.clean.since_s, UTC),
        )
        for level in levels
    ]


def not_sliding(level: FindingLevel | None, before: FindingLevel | None) -> FindingLevel | None:
    """The level, without a loss since the time that it had before if there was none since then."""
    if not is_clean(level) or not is_clean(before) or level is None or before is None or level.since is None:
        return level
    return level if before.since is None else replace(level, since=min(level.since, before.since))


def is_clean(level: FindingLevel | None) -> bool:
    """Whether the present loss is none."""
    return level is not None and level.unit is LevelUnit.LOSS_RATIO and level.now == 0.0


def at_detection(figures: Mapping[str, Any]) -> float | None:
    """The figure with which a finding fired, in the unit of its level."""
    lost = loss_ratio(figures)
    if lost is not None:
        return lost
    if "unanswered_until" in figures:
        return 1.0
    return next((float(figures[name]) for name in ("ratio", "after_ms", "after_bps") if name in figures), None)
