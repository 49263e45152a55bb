"""The level of a finding: its figure now and at its worst, as `IncidentPath.level` stores it.

In: a finding of an incident, and its stored level. Out: a `FindingLevel`, and whether it is normal again. It is copied
from the track of its path at each evaluation (`levels`), so that it outlives the track.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any

import msgspec

from monitor.alerts.detect.damage import loss_ratio
from monitor.alerts.detect.rules.catalogue import rule_of
from monitor.alerts.detect.rules.finding import Effect
from monitor.alerts.models import IncidentPath
from monitor.analysis import figures as shown
from monitor.analysis.changes.present import LostPackets


class LevelUnit(StrEnum):
    """Units of levels."""

    LOSS_RATIO = "loss_ratio"
    MILLISECONDS = "ms"
    BITS_PER_SECOND = "bps"


@dataclass(frozen=True, slots=True)
class FindingLevel:
    """A figure now and at its worst; `now` is None without newer data.

    It is of the time from `since` to `newest_at`. `sent` packets are those of a loss, which varies `together` times
    more than independent losses. `last_reply` and `first_reply` are those before and after the newest outage of the
    path. `over_since` is since when it is normal again; `has_relapsed`: it was normal again since the finding, and is
    bad once more.
    """

    unit: LevelUnit
    now: float | None
    peak: float
    since: datetime | None = None
    newest_at: datetime | None = None
    sent: float | None = None
    together: float = 1.0
    last_reply: datetime | None = None
    first_reply: datetime | None = None
    over_since: datetime | None = None
    has_relapsed: bool = False

    @property
    def counts(self) -> LostPackets | None:
        """The packets of a loss."""
        return (
            None if not self.sent or self.now is None else LostPackets(self.sent, self.now * self.sent, self.together)
        )

    @property
    def interval(self) -> tuple[float, float] | None:
        """The interval of a loss, as `LostPackets.interval`."""
        return None if self.counts is None else self.counts.interval

    @property
    def window_s(self) -> float | None:
        """The length of the time that the figure is of."""
        known = self.since is not None and self.newest_at is not None and self.now is not None
        return (self.newest_at - self.since).total_seconds() if known and self.newest_at and self.since else None

    @property
    def is_dead(self) -> bool:
        """Whether the path does not answer."""
        return self.last_reply is not None and self.first_reply is None

    @property
    def is_revived(self) -> bool:
        """Whether the path has answered without loss since its outage."""
        return self.first_reply is not None and (self.over_since is not None or self.has_relapsed)

    @property
    def peak_text(self) -> str:
        if self.unit is LevelUnit.LOSS_RATIO:
            return shown.percent(self.peak)
        return (shown.milliseconds if self.unit is LevelUnit.MILLISECONDS else shown.bit_rate)(self.peak)


def level_of(row: IncidentPath) -> FindingLevel | None:
    """The stored level of a finding."""
    return None if row.level is None else msgspec.convert(row.level, FindingLevel)


def is_normal_again(row: IncidentPath) -> bool:
    """Whether the finding is over by its track, though its incident may last."""
    level = level_of(row)
    return level is not None and level.over_since is not None


def is_outage(row: IncidentPath) -> bool:
    """Whether the path of a finding of loss has, or had, no reply."""
    level = level_of(row)
    return rule_of(row.rule).effect is Effect.UNREACHABLE or (level is not None and level.last_reply is not None)


def is_bad_now(row: IncidentPath) -> bool:
    """Whether the path of a finding may be called bad: not while newer results are overdue, nor once it is over."""
    level = level_of(row)
    return level is None or (level.now is not None and level.over_since is None)


def at_detection(figures: Mapping[str, Any]) -> float | None:
    """The figure with which a finding fired, in the unit of its level."""
    lost = loss_ratio(figures)
    if lost is not None:
        return lost
    if "unanswered_until" in figures:
        return 1.0
    return next((float(figures[name]) for name in ("ratio", "after_ms", "after_bps") if name in figures), None)
