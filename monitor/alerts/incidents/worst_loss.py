"""The worst loss of a path in an incident, and of all its paths together; and which present levels go together.

In: the findings of a lasting incident with their present levels. Out: packets of the worst stretch between two changes,
in the level of the finding and in `Incident.worst_loss`; and the worst loss of any incident as a ratio. Another stretch
takes its place only if it is higher for certain, or of more packets and not certainly lower: of many noisy figures the
highest is too high.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

import msgspec

from monitor.alerts.detect.rules.catalogue import rule_of
from monitor.alerts.detect.rules.finding import Effect
from monitor.alerts.incidents.finding_level import FindingLevel, at_detection, is_normal_again, level_of, worst_loss
from monitor.alerts.incidents.gravest import of_gravest_rule
from monitor.alerts.models import Incident, IncidentPath
from monitor.analysis.changes.present import LostPackets, PresentLoss, pooled, worse

SAME_TIME = timedelta(minutes=2)
"""Paths whose data ended so near to each other have a figure together: the agent of all has stopped."""


def newest_levels(levels: Sequence[FindingLevel]) -> list[FindingLevel]:
    """Those of now; where newer bursts of all are overdue, those about as new as the newest. The figure of an earlier
    time is no part of a later one."""
    current = [level for level in levels if level.now is not None and not level.is_stale]
    newest = max((level.newest_at for level in levels if level.newest_at is not None), default=None)
    if current or newest is None:
        return current or list(levels)
    return [level for level in levels if level.newest_at is None or newest - level.newest_at <= SAME_TIME]


def worst_of(
    row: IncidentPath,
    before: FindingLevel | None,
    present: PresentLoss,
    began_at: datetime | None,
    outage: LostPackets | None = None,
) -> LostPackets:
    """The worst loss with the present stretch, and with an outage that has ended. Where the worst was the stretch that
    has ended, it is known now where it ended, without the packets since. Those by which the finding fired count where
    its window has none from before the onset of the incident: an earlier loss is no part of it."""
    is_since_onset = began_at is None or row.since >= began_at
    worst = before.worst if before is not None else _at_detection(row.figures) if is_since_onset else None
    if present.ended is not None and (before is None or before.worst == before.stretch):
        worst = present.ended
    worst = worse(worst, present.stretch)
    return worst if outage is None or not outage.sent else worse(worst, outage)


def worst_of_all(incident: Incident) -> dict[str, Any] | None:
    """The worst loss of all paths together that lose now by the gravest rule, as the title has them, to be stored in
    `Incident.worst_loss`."""
    rows = [row for row in of_gravest_rule(incident) if not row.is_over and not is_normal_again(row)]
    levels = newest_levels([of for row in rows if (of := level_of(row)) is not None and of.now is not None])
    before, lossy = worst_loss(incident), [level.stretch for level in levels if level.stretch is not None]
    if before is None or len(incident.path_ids) == 1:
        lossy = [level.worst for level in levels if level.worst is not None]
        before = None
    if not lossy:
        return incident.worst_loss
    stored: dict[str, Any] = msgspec.to_builtins(worse(before, pooled(lossy)))
    return stored


def loss_of_all(incident: Incident) -> LostPackets | None:
    """The loss now of all paths together that lose by the gravest rule, as the title has it; None of fewer than two."""
    rows = [row for row in of_gravest_rule(incident) if not row.is_over and not is_normal_again(row)]
    levels = [level for row in rows if (level := level_of(row)) is not None and not level.is_stale]
    counts = [level.counts for level in levels if level.counts is not None]
    return pooled(counts) if len(counts) > 1 else None


def worst_ratio(incident: Incident) -> float:
    """The worst loss of an incident by its gravest rule, 1 while paths do not answer; 0 where that is of no loss."""
    rows = of_gravest_rule(incident)
    effect = rule_of(rows[0].rule).effect if rows else None
    if effect is Effect.UNREACHABLE:
        return 1.0
    if effect is not Effect.LOSS:
        return 0.0
    together = worst_loss(incident)
    if together is not None:
        return together.ratio
    return max((at_detection(row.figures) or 0.0) if (level := level_of(row)) is None else level.peak for row in rows)


def _at_detection(figures: Mapping[str, Any]) -> LostPackets | None:
    """The packets by which a finding fired, if it counted any."""
    if not figures.get("sent") or "lost" not in figures:
        return None
    return LostPackets(figures["sent"], figures["lost"], figures.get("together", 1.0))
