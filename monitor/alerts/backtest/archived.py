"""Replay the rules on a period of the archive, read-only, with the present mesh.toml.

All stored results count as received at once; raw bursts must still exist.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime

from monitor.alerts.backtest.replay import Alarm, Replay, moments
from monitor.alerts.detect.rules.catalogue import RULES
from monitor.alerts.detect.rules.finding import RuleFinding
from monitor.alerts.detect.sources import STORED
from monitor.alerts.scope import scope_now
from monitor.archive.upkeep.status import span
from probes.commands.own_command import MANAGE

# Interval of live evaluations.
SHORTEST_S = 10.0


class NoBurstsError(Exception):
    """The archive has no data of the period; the message states which period it covers."""


@dataclass(frozen=True, slots=True)
class ArchiveReplay:
    """The result of a replay; a path counts as measured within an hour after each of its bursts."""

    alarms: Sequence[Alarm]
    findings: Sequence[tuple[datetime, RuleFinding]]
    measured_path_s: float
    every_s: float


def replay(
    since: datetime,
    until: datetime,
    rules: Iterable[str] = RULES,
    every_s: float | None = None,
    show: Callable[[datetime], None] = lambda now: None,
) -> ArchiveReplay:
    """Run the rules every `every_s` seconds, by default the shortest ping interval. Raises `NoBurstsError`."""
    scope = scope_now()
    if not scope.pinged:
        raise NoBurstsError(f"no path is measured; apply a mesh.toml with {MANAGE} mesh apply")
    if every_s is None:
        every_s = max(SHORTEST_S, float(min(path.every_s for path in scope.pinged.values())))
    runner = Replay(scope, STORED, rules)
    measured_path_s = 0.0
    for now in moments(since, until, every_s):
        snapshot = runner.at(now)
        measured_path_s += every_s * int((snapshot.recent["bursts"].sum(axis=1) > 0).sum())
        show(now)
    if measured_path_s == 0.0:
        raise NoBurstsError(
            f"no burst was measured from {since:%Y-%m-%d %H:%M} to {until:%Y-%m-%d %H:%M} UTC; {_period_text()}"
        )
    return ArchiveReplay(runner.alarms, runner.findings, measured_path_s, every_s)


def _period_text() -> str:
    kept = span()
    if kept.oldest_at is None or kept.newest_at is None:
        return "the archive is empty"
    return f"the archive has bursts from {kept.oldest_at:%Y-%m-%d %H:%M} to {kept.newest_at:%Y-%m-%d %H:%M} UTC"
