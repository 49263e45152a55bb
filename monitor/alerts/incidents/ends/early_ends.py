"""The end of a loss before its incident opens, by its packets since the onset.

In: the levels of the findings of a pending incident, and the bursts of their paths. Out: the levels, those of a loss
that is over with its end. The loss of so young an incident is one stretch, from the onset to the last lost packet: that
of the window in which it was detected has clean packets from before it, and its last change is none.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime

from monitor.alerts.detect.packet_times import SAME_S, PathBursts
from monitor.alerts.incidents.finding_level import FindingLevel, is_partial, since_end
from monitor.alerts.models import Incident
from monitor.analysis.changes.ended_loss import clean_run, end_is_proven


def with_early_ends(
    incident: Incident, levels: Sequence[FindingLevel | None], bursts: Sequence[PathBursts | None], now: datetime
) -> list[FindingLevel | None]:
    """The levels of a pending incident with the ends that its packets since the onset prove; others as they are."""
    with_ends = list(levels)
    if not incident.is_pending or incident.began_at is None:
        return with_ends
    since_s = incident.began_at.timestamp() - SAME_S
    lasting = [
        (number, level, own.since(since_s))
        for number, (level, own) in enumerate(zip(levels, bursts, strict=True))
        if level is not None and own is not None and is_partial(level) and not level.is_ended
    ]
    runs = [clean_run(own.at_s, own.sent, own.received, level.together) for _, level, own in lasting]
    proven = end_is_proven(runs, [0.0 if run is None else run.before_ratio for run in runs])
    for (number, level, own), run, is_proven in zip(lasting, runs, proven, strict=True):
        if run is not None and is_proven:
            ended_at = datetime.fromtimestamp(run.since_s, UTC)
            with_ends[number] = since_end(level, own.since(run.since_s - SAME_S), ended_at, now)
    return with_ends
