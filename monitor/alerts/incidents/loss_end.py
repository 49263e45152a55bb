"""The end of a loss in the levels of an incident's findings: proven once, and kept until another loss is proven.

In: the levels as measured, those stored before, and the newest bursts. Out: the levels; of a loss that is over with
`is_ended`, since when, and the packets since then. A packet lost by chance after the end, on these paths or on the way
back, does not take it away. The proofs are in `monitor.analysis.changes.ended_loss`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime

import numpy as np

from monitor.alerts.detect.packet_times import SAME_S, PathBursts
from monitor.alerts.incidents.finding_level import FindingLevel, LevelUnit, at_detection, level_of
from monitor.alerts.models import IncidentPath
from monitor.analysis.changes.ended_loss import ENDED_SHARE, end_is_proven, loss_again, usual_ratio
from monitor.analysis.changes.present import LostPackets

LONGEST_S = 3600.0
"""The packets since an end are counted for so long."""


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
        if level is not None and _is_partial(level) and level.now and not level.is_ended
    ]
    before_ratios = [_ratio_before(rows[number], _level(merged, number)) for number in lasting]
    proven = end_is_proven([_level(merged, number).clean for number in lasting], before_ratios)
    for number, is_proven in zip(lasting, proven, strict=True):
        level, own = _level(merged, number), bursts[number]
        begin_s = level.clean.since_s if is_proven and level.clean is not None else None
        merged[number] = level if own is None else _ended(rows[number], level, own, begin_s, now)
    return [
        level if level is None or own is None else _ended(row, level, own, None, now)
        for row, level, own in zip(rows, merged, bursts, strict=True)
    ]


def _since_outage(level: FindingLevel | None, bursts: PathBursts | None) -> PathBursts | None:
    """The bursts, without the packets that an outage lost."""
    outage = None if level is None else level.ended_outage
    return bursts if bursts is None or outage is None else bursts.after(outage)


def _level(levels: Sequence[FindingLevel | None], number: int) -> FindingLevel:
    level = levels[number]
    assert level is not None
    return level


def _is_partial(level: FindingLevel) -> bool:
    """Whether a level is of a loss with some replies."""
    is_loss = level.unit is LevelUnit.LOSS_RATIO and level.now is not None
    return is_loss and level.unanswered_since is None and level.stretch is not None


def _after_end(
    row: IncidentPath, level: FindingLevel | None, bursts: PathBursts | None, now: datetime
) -> FindingLevel | None:
    """The level of the packets since an end that was proven before, or of a new loss since."""
    before = level_of(row)
    if level is None or before is None or bursts is None or not _is_partial(level):
        return level
    if not before.is_ended or before.recovered_at is None:
        return level
    since = bursts.since(before.recovered_at.timestamp() - SAME_S)
    if not since.sent.sum():
        nothing = _of(level, LostPackets(0.0, 0.0), before.recovered_at, now)
        return replace(nothing, recovered_at=before.recovered_at, is_ended=True)
    first = _again(row, level, since)
    if first is None:
        return _since_end(level, since, before.recovered_at, now)
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
    if level.is_ended or not _is_partial(level):
        return level
    if begin_s is None:
        stretch, loss_ratio = level.stretch, _ratio_before(row, level)
        if stretch is None or not level.has_changed:
            return level
        # A change to no loss at all was proven as such.
        below_ratio = (ENDED_SHARE if stretch.lost else 1.0) * loss_ratio
        if stretch.interval[1] >= below_ratio:
            return level
        if stretch.ratio > usual_ratio(loss_ratio, row.figures.get("threshold_ratio")) or level.since is None:
            return level
        begin_s = _after_last_loss(bursts.since(level.since.timestamp() - SAME_S), ENDED_SHARE * loss_ratio, level)
    since = bursts.since(begin_s - SAME_S)
    if not since.sent.sum() or _again(row, level, since) is not None:
        return level
    return _since_end(level, since, _time(begin_s), now)


def _after_last_loss(since: PathBursts, below_ratio: float, level: FindingLevel) -> float:
    """The begin of these bursts, or of those after the last lost packet if they prove the end by themselves: the change
    may have been within a burst."""
    lossy = np.flatnonzero(since.sent > since.received)
    first = int(lossy[-1]) + 1 if len(lossy) else 0
    clean = since.part(first).counts(level.together)
    is_proven = clean is not None and clean.interval[1] < below_ratio
    return float(since.at_s[first if is_proven else 0])


def _since_end(level: FindingLevel, since: PathBursts, ended_at: datetime, now: datetime) -> FindingLevel:
    counts = since.counts(level.together)
    assert counts is not None
    # Of an outage's last burst the packets after it.
    begin = max(_time(since.at_s[0]), ended_at) if counts.sent else ended_at
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
