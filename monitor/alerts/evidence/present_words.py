"""The present figure of a finding in words: of now, since a change, since its end, or as of its newest burst.

In: a finding of an incident with its level. Out: a clause for the headlines in `monitor.alerts.evidence.words`.
"""

from __future__ import annotations

from monitor.alerts.incidents.finding_level import FindingLevel, LevelUnit, is_normal_again
from monitor.alerts.incidents.recovery import is_without_loss
from monitor.alerts.models import IncidentPath
from monitor.analysis import figures as shown


def present_text(words: str, row: IncidentPath, level: FindingLevel) -> str:
    """The present figure: `loss 20% now`, `no loss since 10:05:10 UTC`, `loss over since 10:05:10 UTC (1 of 210 packets
    lost)`, `RTT back to 20.1 ms since 10:05:10 UTC`."""
    if is_without_loss(row, level):
        return f"no {words} {level.since_text}{proven_text(level)}{_as_of(level)}"
    if level.is_ended and level.recovered_at is not None:
        later = "" if level.since is None or level.since <= level.recovered_at else f" {level.since_text}"
        return f"{words} over since {level.recovered_at:%H:%M:%S} UTC ({few_lost(level)}{later}){_as_of(level)}"
    if level.unit is not LevelUnit.LOSS_RATIO and is_normal_again(row):
        return f"{words} back to {level.now_text}{_recovered(level)}{_as_of(level)}"
    return f"{words} {level.now_text} {level.when_text}"


def _as_of(level: FindingLevel) -> str:
    return f", {level.as_of_text}" if level.is_stale else ""


def _recovered(level: FindingLevel) -> str:
    """Since when a figure of bursts is back to normal; a test or a transaction has no such time."""
    if level.recovered_at is None or level.since is None:
        return ""
    return f" since {level.recovered_at:%H:%M:%S} UTC"


def no_newer_data(level: FindingLevel) -> str:
    return f", no newer data{'' if level.newest_at is None else f' since {level.newest_at:%H:%M:%S} UTC'}"


def few_lost(level: FindingLevel) -> str:
    """The packets lost after an end, by chance: `1 of 210 packets lost`."""
    return f"{shown.count(level.lost or 0)} of {shown.count(level.sent or 0)} packets lost"


def proven_text(level: FindingLevel) -> str:
    return "" if level.counts is None else f" ({level.now_text})"
