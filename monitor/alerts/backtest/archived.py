"""The rules on what the archive has of a period: which incidents there would have been. The archive is only read.

In: the period and the rules. Out: what they found, and how many path-weeks were measured meanwhile. Paths and settings
are those of mesh.toml now. What an evaluation of the past cannot know is when results came: all that is stored now
counts as having come at once. Raw bursts must still be kept for the period, and hours and days before it, which say
what was normal.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime

from monitor.alerts.backtest.replay import Alarm, Replay, moments
from monitor.alerts.detect.rules.catalogue import RULES
from monitor.alerts.detect.rules.finding import Finding
from monitor.alerts.detect.sources import StoredThen
from monitor.alerts.evaluate import scope_now
from monitor.archive.upkeep.status import span

SHORTEST_S = 10.0
"""Live evaluations come as often."""


class NothingThereError(Exception):
    """The archive has nothing of the period. The text says what it has."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a replay gave. A path counts in the time in which bursts of it were measured within the hour before."""

    alarms: Sequence[Alarm]
    findings: Sequence[tuple[datetime, Finding]]
    measured_path_s: float
    every_s: float


def replay(
    since: datetime,
    until: datetime,
    rules: Iterable[str] = RULES,
    every_s: float | None = None,
    show: Callable[[datetime], None] = lambda now: None,
) -> Outcome:
    """What the rules find from `since` to `until`, evaluated every so many seconds: unless given, once a cycle of the
    tests. Raises `NothingThereError`."""
    scope = scope_now()
    if not scope.pinged:
        raise NothingThereError("no path is measured; apply a mesh.toml with manage.py mesh apply")
    if every_s is None:
        every_s = max(SHORTEST_S, float(min(path.every_s for path in scope.pinged.values())))
    runner = Replay(scope, StoredThen(), rules)
    measured_path_s = 0.0
    for now in moments(since, until, every_s):
        sweep = runner.at(now)
        measured_path_s += every_s * int((sweep.recent["bursts"].sum(axis=1) > 0).sum())
        show(now)
    if measured_path_s == 0.0:
        raise NothingThereError(
            f"no burst was measured from {since:%Y-%m-%d %H:%M} to {until:%Y-%m-%d %H:%M} UTC; {_there_is()}"
        )
    return Outcome(runner.alarms, runner.found, measured_path_s, every_s)


def _there_is() -> str:
    kept = span()
    if kept.oldest_at is None or kept.newest_at is None:
        return "the archive has no bursts at all"
    return f"the archive has bursts from {kept.oldest_at:%Y-%m-%d %H:%M} to {kept.newest_at:%Y-%m-%d %H:%M} UTC"
