"""The figure of an incident now: its loss of all paths together, at its worst, and the present figure in words.

In: the findings of a rule about loss that are not over, and all of the incident. Out: a `FindingLevel` of all of them,
and in words the paths that are worse for certain. The worst of several equal losses would be too high by chance.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime

from monitor.alerts.incidents.finding_level import FindingLevel, LevelUnit, is_normal_again, level_of, worst_loss
from monitor.alerts.incidents.recovery import is_without_loss
from monitor.alerts.incidents.worst_loss import newest_levels
from monitor.alerts.models import Incident, IncidentPath
from monitor.analysis import binomial
from monitor.analysis import figures as shown
from monitor.analysis.changes.present import pooled, summed

PathLevel = tuple[IncidentPath, FindingLevel]

CERTAINTY = 0.975
"""That the loss of a path is above that of all together; of several paths, for all of them."""
NONE_LOST_NATS = 3.0
"""Of 5%: it is told as a fact beside the loss, whose end takes a proof."""


def with_worst(incident: Incident, level: FindingLevel) -> FindingLevel:
    """The level with the worst loss of the paths of the incident together."""
    worst = worst_loss(incident)
    if level.unit is not LevelUnit.LOSS_RATIO or worst is None:
        return level
    return replace(level, peak=worst.ratio, worst=worst)


def worst_of_rows(rows: Sequence[IncidentPath], *, is_open: bool) -> tuple[IncidentPath, FindingLevel | None]:
    """The finding of a rule with the worst peak, in an open incident of those not back to normal if there are any; of
    an open loss with the worst present level, and the level of all these paths together. The first finding where none
    has a level."""
    by_level = _levels(rows)
    if not by_level:
        return rows[0], None
    unit = by_level[0][1].unit
    if is_open:
        by_level = present_levels(rows)
    if unit is LevelUnit.LOSS_RATIO and is_open:
        row, level = max(by_level, key=lambda pair: (-1.0 if pair[1].now is None else pair[1].now, pair[1].peak))
        return row, of_all(level, by_level)
    falls = unit is LevelUnit.BITS_PER_SECOND
    return max(by_level, key=lambda pair: -pair[1].peak if falls else pair[1].peak)


def _levels(rows: Sequence[IncidentPath]) -> list[PathLevel]:
    return [(row, level) for row in rows if (level := level_of(row)) is not None]


def present_levels(rows: Sequence[IncidentPath]) -> list[PathLevel]:
    """The findings with levels that are not back to normal, or all if they all are: of those the newest."""
    by_level = _levels(rows)
    by_level = [(row, level) for row, level in by_level if not is_normal_again(row)] or by_level
    newest = newest_levels([level for _, level in by_level])
    return [(row, level) for row, level in by_level if level in newest]


def of_all(level: FindingLevel, every: Sequence[PathLevel]) -> FindingLevel:
    """The mean of the present losses of all these paths, of about the same time (`newest_levels`); `level` itself where
    they count no packets."""
    counted = [of for _, of in every if of.counts is not None]
    if len(counted) < 2:
        return counted[0] if counted else level
    counts = [of.counts for of in counted if of.counts is not None]
    together = summed(counts) if all(of.is_ended for of in counted) else pooled(counts)
    windows_s = [of.window_s for of in counted if of.window_s is not None]
    begins = [of.since for of in counted if of.since is not None]
    recovered = [of.recovered_at for of in counted if of.recovered_at is not None]
    newest = [of.newest_at for of in counted if of.newest_at is not None]
    return replace(
        level,
        newest_at=max(newest, default=level.newest_at),
        is_stale=all(of.is_stale for of in counted),
        now=together.ratio,
        sent=round(together.sent),
        window_s=(max if together.lost else min)(windows_s, default=None),
        has_changed=all(of.has_changed for of in counted),
        together=together.together,
        unanswered_since=None,
        since=(min if together.lost and not level.is_ended else max)(begins, default=None),
        recovered_at=max(recovered, default=None),
    )


def worse_text(all_paths: FindingLevel, every: Sequence[PathLevel]) -> str:
    """The paths that do not answer, else the path that loses more for certain: ` (25% on slac → cern)`; else empty."""
    silent = [row for row, level in every if level.unanswered_since is not None]
    if silent:
        where = str(silent[0].path) if len(silent) == 1 else f"{len(silent)} paths"
        return f" (no reply on {where})" if len(silent) < len(every) else ""
    counted = [(row, level) for row, level in every if level.counts is not None and level.now is not None]
    if len(counted) < 2 or all_paths.now is None:
        return ""
    row, worst = max(counted, key=lambda pair: pair[1].now or 0.0)
    lost, sent = (worst.lost or 0) / worst.together, (worst.sent or 0) / worst.together
    certainty = 1.0 - (1.0 - CERTAINTY) / len(counted)
    if float(binomial.lower_bound(lost, sent, certainty)) <= all_paths.now:
        return ""
    return f" ({worst.now_text} on {row.path})" if worst.now_text != all_paths.now_text else ""


def none_lost_text(rows: Sequence[IncidentPath]) -> str:
    """`, none lost since 10:05:10 UTC` of a loss that is not over for certain; empty where packets are lost."""
    since = none_lost_since(rows)
    return "" if since is None else f", none lost since {since:%H:%M:%S} UTC"


def none_lost_since(rows: Sequence[IncidentPath]) -> datetime | None:
    """Since when none was lost of a loss that is not over for certain: on none of the paths on which it goes on, with
    so many packets that this has a chance of 5% at the loss before."""
    levels = [level for row in rows if (level := level_of(row)) is not None and level.unit is LevelUnit.LOSS_RATIO]
    going_on = [level for level in levels if not level.is_ended]
    runs = [level.clean for level in going_on if level.clean is not None and not level.is_stale]
    is_clean = [not run.lost and run.nats(run.before_ratio) >= NONE_LOST_NATS for run in runs]
    if not runs or len(runs) < len(going_on) or not all(is_clean):
        return None
    return datetime.fromtimestamp(max(run.since_s for run in runs), UTC)


def present_text(words: str, row: IncidentPath, level: FindingLevel, *, is_whole: bool = False) -> str:
    """The present figure: `loss 20% now`, `no loss since 10:05:10 UTC`, `loss over since 10:05:10 UTC (1 of 210 packets
    lost)`, `RTT back to 20.1 ms since 10:05:10 UTC`, `by` where there are no results of just before. The time of a
    figure that is of the `is_whole` incident is left out where that is too long for a figure of now."""
    if is_without_loss(row, level):
        return f"no {words} {level.since_text}{proven_text(level)}{_as_of(level)}"
    if level.is_ended and level.recovered_at is not None:
        later = "" if level.since is None or level.since <= level.recovered_at else f" {level.since_text}"
        return f"{words} over since {level.recovered_at:%H:%M:%S} UTC ({few_lost(level)}{later}){_as_of(level)}"
    if level.unit is not LevelUnit.LOSS_RATIO and is_normal_again(row) and not level.is_silent:
        return f"{words} back to {level.now_text}{_recovered(level)}{_as_of(level)}"
    is_of_part = level.is_of_now or level.is_stale or level.has_changed or not is_whole
    return f"{words} {level.now_text}{f' {level.when_text}' if is_of_part else ''}"


def _as_of(level: FindingLevel) -> str:
    return f", {level.as_of_text}" if level.is_stale else ""


def _recovered(level: FindingLevel) -> str:
    """Since when a figure of bursts is back to normal; a test or a transaction has no such time."""
    if level.recovered_at is None or level.since is None:
        return ""
    return f" {'by' if level.is_back_by else 'since'} {level.recovered_at:%H:%M:%S} UTC"


def no_newer_data(level: FindingLevel) -> str:
    return f", no newer data{'' if level.newest_at is None else f' since {level.newest_at:%H:%M:%S} UTC'}"


def few_lost(level: FindingLevel) -> str:
    """The packets lost after an end, by chance: `1 of 210 packets lost`."""
    return f"{shown.count(level.lost or 0)} of {shown.count(level.sent or 0)} packets lost"


def proven_text(level: FindingLevel) -> str:
    return "" if level.counts is None else f" ({level.now_text})"
