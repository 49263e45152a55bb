"""The level of a finding: its figure now and at its worst, as `IncidentPath.level` stores it.

In: a finding of an incident. Out: its stored `FindingLevel`, whether that is normal again, and the figure with which
the finding fired; with the end of a loss, which is proven once (`monitor.analysis.changes.ended_loss`) and kept until
another is proven: a packet lost by chance does not take it away. `monitor.alerts.incidents.levels` measures.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any

import msgspec
import numpy as np

from monitor.alerts.detect.damage import loss_ratio
from monitor.alerts.detect.packet_times import SAME_S, EndedOutage, PathBursts
from monitor.alerts.detect.rules.by_direction import DIRECTION
from monitor.alerts.models import Incident, IncidentPath
from monitor.analysis import figures as shown
from monitor.analysis.changes.ended_loss import (
    ENDED_SHARE,
    OWN_NATS,
    CleanRun,
    end_is_proven,
    loss_again,
    usual_ratio,
)
from monitor.analysis.changes.present import LostPackets

LONGEST_NOW_S = 240.0
"""Four cycles of a minute: what a longer time tells may be over."""
NOISE = 0.02
"""Share of a peak within which a median of a few bursts, or a rate, is not below it."""

PAIR_END_S = 60.0
"""The last lost packets of both paths of a pair are as near: of the links that both cross few packets are lost."""
AFTER_OUTAGE_RATIO = 0.25
"""Of an outage without a loss found before it: 14 packets, all answered, exclude so much and prove its end."""

LONGEST_S = 3600.0
"""The packets since an end are counted for so long."""


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
    the last figure, also where there is none now. `is_ended`: a loss is over since `recovered_at`, by a proof; packets
    that a healthy path loses too leave it so. `is_stale`: newer bursts are overdue, so the figure is that of
    `newest_at`, not of now. `is_back_by`: no results tell since when before `recovered_at`. `is_silent`: the newest
    burst of the path was lost as a whole; `has_other_trouble`: so it was, or the path has another incident or a loss.
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
    is_back_by: bool = False
    is_silent: bool = False
    has_other_trouble: bool = False

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


def loss_over_since(row: IncidentPath) -> datetime | None:
    """Since when the loss of a finding is over by a proof; None while it goes on, and of other findings."""
    level = level_of(row)
    return level.recovered_at if level is not None and level.is_ended else None


def at_detection(figures: Mapping[str, Any]) -> float | None:
    """The figure with which a finding fired, in the unit of its level."""
    lost = loss_ratio(figures)
    if lost is not None:
        return lost
    if "unanswered_until" in figures:
        return 1.0
    return next((float(figures[name]) for name in ("ratio", "after_ms", "after_bps") if name in figures), None)


def ended_s(row: IncidentPath, now: datetime) -> float:
    """How long ago the loss of a finding ended, LONGEST_S at most; 0 where it goes on."""
    level = level_of(row)
    if level is None or not level.is_ended or level.recovered_at is None:
        return 0.0
    return min((now - level.recovered_at).total_seconds() + SAME_S, LONGEST_S)


def with_ends(
    rows: Sequence[IncidentPath],
    levels: Sequence[FindingLevel | None],
    bursts: Sequence[PathBursts | None],
    now: datetime,
) -> list[FindingLevel | None]:
    """These levels of the findings of an incident, those of a loss that is over with its end."""
    bursts = [_since_outage(level, own) for level, own in zip(levels, bursts, strict=True)]
    merged = list(map(_after_end, rows, levels, bursts, [now] * len(rows)))
    lasting = [
        number
        for number, level in enumerate(merged)
        if level is not None and is_partial(level) and level.now and not level.is_ended
    ]
    before_ratios = [_ratio_before(rows[number], _level(merged, number)) for number in lasting]
    proven = end_is_proven([_level(merged, number).clean for number in lasting], before_ratios)
    for number, is_proven in zip(lasting, proven, strict=True):
        level, own = _level(merged, number), bursts[number]
        begin_s = level.clean.since_s if is_proven and level.clean is not None else None
        merged[number] = level if own is None else _ended(rows[number], level, own, begin_s, now)
    merged = [
        level if level is None or own is None else _ended(row, level, own, None, now)
        for row, level, own in zip(rows, merged, bursts, strict=True)
    ]
    reverse = [_ended_reverse(rows, merged, number) for number in range(len(rows))]
    return [
        level if other is None or level is None or own is None else _ended_with(row, level, own, other, now)
        for row, level, own, other in zip(rows, merged, bursts, reverse, strict=True)
    ]


def _ended_reverse(
    rows: Sequence[IncidentPath], levels: Sequence[FindingLevel | None], number: int
) -> FindingLevel | None:
    """The level of the reverse path of a finding of round trips that lasts, where its loss is over."""
    row, level = rows[number], levels[number]
    if level is None or level.is_ended or not is_partial(level) or DIRECTION in row.figures:
        return None
    ends = row.path.destination_id, row.path.source_id
    return next(
        (
            other
            for of, other in zip(rows, levels, strict=True)
            if other is not None and other.is_ended and DIRECTION not in of.figures
            if (of.path.source_id, of.path.destination_id) == ends
        ),
        None,
    )


def _ended_with(
    row: IncidentPath, level: FindingLevel, bursts: PathBursts, reverse: FindingLevel, now: datetime
) -> FindingLevel:
    """The level with its end where its loss ended with that of the reverse path: the round trips of both cross the same
    links, so that the packets of both prove it."""
    clean = level.clean
    if clean is None or reverse.recovered_at is None:
        return level
    if abs(clean.since_s - reverse.recovered_at.timestamp()) > PAIR_END_S:
        return level
    is_proven = clean.nats(ENDED_SHARE * _ratio_before(row, level)) >= OWN_NATS
    return _ended(row, level, bursts, clean.since_s, now) if is_proven else level


def _since_outage(level: FindingLevel | None, bursts: PathBursts | None) -> PathBursts | None:
    """The bursts, without the packets that an outage lost."""
    outage = None if level is None else level.ended_outage
    return bursts if bursts is None or outage is None else bursts.after(outage)


def _level(levels: Sequence[FindingLevel | None], number: int) -> FindingLevel:
    level = levels[number]
    assert level is not None
    return level


def is_partial(level: FindingLevel) -> bool:
    """Whether a level is of a loss with some replies."""
    is_loss = level.unit is LevelUnit.LOSS_RATIO and level.now is not None
    return is_loss and level.unanswered_since is None and level.stretch is not None


def _after_end(
    row: IncidentPath, level: FindingLevel | None, bursts: PathBursts | None, now: datetime
) -> FindingLevel | None:
    """The level of the packets since an end that was proven before, or of a new loss since."""
    before = level_of(row)
    if level is None or before is None or bursts is None or not is_partial(level):
        return level
    if not before.is_ended or before.recovered_at is None:
        return level
    since = bursts.since(before.recovered_at.timestamp() - SAME_S)
    if not since.sent.sum():
        nothing = _of(level, LostPackets(0.0, 0.0), before.recovered_at, now)
        return replace(nothing, recovered_at=before.recovered_at, is_ended=True)
    first = _again(row, level, since)
    if first is None:
        return since_end(level, since, before.recovered_at, now)
    again = since.part(first)
    counts = again.counts(level.together)
    assert counts is not None
    begin = _time(again.at_s[0])
    return replace(
        _of(level, counts, begin, now), began_at=begin, has_changed=True, stretch=counts, clean=None, is_ended=False
    )


def _ended(
    row: IncidentPath, level: FindingLevel, bursts: PathBursts, begin_s: float | None, now: datetime
) -> FindingLevel:
    """The level with its end at `begin_s`, else at the last change where the packets since prove that it was one."""
    if level.is_ended or not is_partial(level):
        return level
    if begin_s is None:
        stretch, loss_ratio = level.stretch, _ratio_before(row, level)
        if stretch is None or not level.has_changed:
            return level
        # A change to no loss at all was proven as such.
        below_ratio = (ENDED_SHARE if stretch.lost else 1.0) * loss_ratio
        if not stretch.lost and level.ended_outage is not None and row.added_at >= level.ended_outage.last_reply:
            below_ratio = max(below_ratio, AFTER_OUTAGE_RATIO)
        if stretch.interval[1] >= below_ratio:
            return level
        if stretch.ratio > usual_ratio(loss_ratio, row.figures.get("threshold_ratio")) or level.since is None:
            return level
        begin_s = _after_last_loss(bursts.since(level.since.timestamp() - SAME_S), ENDED_SHARE * loss_ratio, level)
    since = bursts.since(begin_s - SAME_S)
    if not since.sent.sum() or _again(row, level, since) is not None:
        return level
    return since_end(level, since, _time(begin_s), now)


def _after_last_loss(since: PathBursts, below_ratio: float, level: FindingLevel) -> float:
    """The begin of these bursts, or of those after the last lost packet if they prove the end by themselves: the change
    may have been within a burst."""
    lossy = np.flatnonzero(since.sent > since.received)
    first = int(lossy[-1]) + 1 if len(lossy) else 0
    clean = since.part(first).counts(level.together)
    is_proven = clean is not None and clean.interval[1] < below_ratio
    return float(since.at_s[first if is_proven else 0])


def since_end(level: FindingLevel, since: PathBursts, ended_at: datetime, now: datetime) -> FindingLevel:
    counts = since.counts(level.together)
    assert counts is not None
    is_since_end = (now - ended_at).total_seconds() < LONGEST_S
    begin = ended_at if is_since_end else max(_time(since.at_s[0]), ended_at)
    return replace(_of(level, counts, begin, now), recovered_at=ended_at, is_ended=True)


def _of(level: FindingLevel, counts: LostPackets, begin: datetime, now: datetime) -> FindingLevel:
    window_s = (now - begin).total_seconds()
    ratio = counts.ratio if counts.sent else 0.0
    return replace(level, now=ratio, sent=round(counts.sent), since=begin, window_s=window_s)


def _again(row: IncidentPath, level: FindingLevel, since: PathBursts) -> int | None:
    usual = usual_ratio(_ratio_before(row, level), row.figures.get("threshold_ratio"))
    return loss_again(since.sent, since.received, usual, level.together)


def _ratio_before(row: IncidentPath, level: FindingLevel) -> float:
    """The loss before its end, as it was detected or at its worst, whichever is less."""
    detected = at_detection(row.figures)
    worst = level.peak if level.worst is None else level.worst.ratio
    return worst if detected is None else min(detected, worst)


def _time(at_s: float | np.float64) -> datetime:
    return datetime.fromtimestamp(float(at_s), UTC)
