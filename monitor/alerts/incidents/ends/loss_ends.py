"""The end of a loss by its packets: just after the newest lost one. Titles, cells and the resolved incident all have it
from here.

In: the levels of an incident's findings, of which some are over by whole bursts (`finding_level.with_ends`). Out: those
levels since the newest lost packet of their path; once all of an incident between two hosts is over, of both paths, and
of the STAMP packets in the direction that it names. A STAMP cycle tells how many of its packets were lost, not which:
its end is that of its last packet.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime

import numpy as np

from monitor.alerts.detect.packet_times import (
    NO_SPACING,
    SAME_S,
    BurstsKey,
    PathBursts,
    Spacing,
    bursts_by_key,
    spacings,
)
from monitor.alerts.detect.rules.by_direction import DIRECTION
from monitor.alerts.detect.snapshot import Snapshot
from monitor.alerts.incidents.finding_level import FindingLevel, LevelUnit, level_of
from monitor.alerts.models import Incident, IncidentPath
from monitor.analysis.loss import LEAST_UNANSWERED
from monitor.archive.queries.around import BurstColumns, bursts_around
from monitor.archive.queries.for_alerts import DIRECTIONS, newest_directions
from monitor.mesh.queries import stamp_parameters

Levels = list[FindingLevel | None]

AFTER_S = 2 * SAME_S
"""After the newest lost packet: its burst, which may have begun with it, is not of the time since."""


def with_exact_ends(
    incident: Incident,
    rows: Sequence[IncidentPath],
    levels: Levels,
    snapshot: Snapshot,
    bursts: Mapping[BurstsKey, PathBursts],
) -> Levels:
    """The levels with the ends of losses that are over since this evaluation: two queries of pings, two more where
    STAMP packets count; none where no loss has just ended."""
    begins_s = {
        number: begin_s
        for number, (row, level) in enumerate(zip(rows, levels, strict=True))
        if _has_just_ended(row, level) and (begin_s := _newest_lossy_s(row, level, bursts)) is not None
    }
    if not begins_s:
        return levels
    pair = _pair(incident, rows, snapshot) if all(map(_is_clean, levels)) else ()
    path_ids = sorted({rows[number].path_id for number in begins_s} | {*pair})
    of_pings, has_stamp = spacings(path_ids), bool(incident.toward) or any(_way(rows[number]) for number in begins_s)
    of_stamp = spacings(path_ids, stamp_parameters) if has_stamp else {}
    longest_s = max((of.longest_s for of in (*of_pings.values(), *of_stamp.values())), default=0.0)
    since = datetime.fromtimestamp(min(begins_s.values()) - longest_s, UTC)
    columns = bursts_around(path_ids, since, snapshot.now)

    def newest_s(path_id: int, before_s: float = np.inf) -> float | None:
        own = columns.where((columns.path_id == path_id) & (columns.at_s < before_s - SAME_S))
        return last_lost_s(own, of_pings.get(path_id, NO_SPACING))

    exact, lost_s = list(levels), [at_s for path_id in pair if (at_s := newest_s(path_id)) is not None]
    for number, begin_s in begins_s.items():
        row, level = rows[number], levels[number]
        if level is None or level.recovered_at is None:
            continue
        last_s = begin_s + of_stamp.get(row.path_id, NO_SPACING).longest_s
        own_s = last_s if _way(row) else newest_s(row.path_id, level.recovered_at.timestamp())
        if own_s is not None:
            exact[number] = _since(row, level, own_s, bursts, snapshot.now)
            lost_s.append(own_s)
    if not pair or not lost_s:
        return exact
    if incident.toward:
        lost_s += _lost_by_stamp_s(pair, since, snapshot.now, of_stamp)
    last_s = max(lost_s)
    for number, (row, level) in enumerate(zip(rows, exact, strict=True)):
        if level is None or level.recovered_at is None:
            continue
        # An outage that has ended later, with its first reply, is not over before it.
        if number in begins_s or level.recovered_at.timestamp() < last_s:
            exact[number] = _since(row, level, last_s, bursts, snapshot.now)
    return exact


def last_lost_s(bursts: BurstColumns, spacing: Spacing) -> float | None:
    """When the newest lost packet of these bursts of a path was sent; None without any."""
    number = np.arange(bursts.rtts_ms.shape[1])
    was_sent = (number < bursts.sent[:, np.newaxis]) & (bursts.during_test == 0)[:, np.newaxis]
    burst, packet = np.nonzero(was_sent & np.isnan(bursts.rtts_ms))
    return float((bursts.at_s[burst] + packet * spacing.least_s).max()) if len(burst) else None


def _is_clean(level: FindingLevel | None) -> bool:
    """Whether a loss is over, and nothing has been lost since."""
    return level is not None and level.is_ended and level.now == 0.0


def _has_just_ended(row: IncidentPath, level: FindingLevel | None) -> bool:
    """Whether a partial loss is over since this evaluation: an outage ended with its first reply."""
    if level is None or level.unit is not LevelUnit.LOSS_RATIO or not level.is_ended or level.recovered_at is None:
        return False
    before, outage = level_of(row), level.ended_outage
    is_of_outage = outage is not None and abs((level.recovered_at - outage.first_reply).total_seconds()) < SAME_S
    return not is_of_outage and (before is None or not before.is_ended)


def _way(row: IncidentPath) -> str:
    way: str = row.figures.get(DIRECTION, "")
    return way


def _newest_lossy_s(
    row: IncidentPath, level: FindingLevel | None, bursts: Mapping[BurstsKey, PathBursts]
) -> float | None:
    """The begin of the newest burst with a lost packet before the end of a loss; None after an outage, in which it was
    lost as a whole."""
    own = bursts.get((row.path_id, _way(row)))
    if own is None or level is None or level.recovered_at is None:
        return None
    lossy = np.flatnonzero((own.sent > own.received) & (own.at_s < level.recovered_at.timestamp() - SAME_S))
    if not len(lossy) or (own.received[lossy[-1]] == 0 and own.sent[lossy[-1]] >= LEAST_UNANSWERED):
        return None
    return float(own.at_s[lossy[-1]])


def _lost_by_stamp_s(
    pair: Sequence[int], since: datetime, now: datetime, spacing: Mapping[int, Spacing]
) -> list[float]:
    """When the newest cycles with lost packets in the direction of the first path were over, at the latest."""
    columns, ends_s = newest_directions(pair, [since.timestamp()] * len(pair), now), []
    for path_id, way in zip(pair, DIRECTIONS, strict=False):
        own = bursts_by_key(columns, way).get((path_id, way))
        if own is not None and (own.sent > own.received).any():
            ends_s.append(float(own.at_s[own.sent > own.received].max()) + spacing.get(path_id, NO_SPACING).longest_s)
    return ends_s


def _since(
    row: IncidentPath,
    level: FindingLevel,
    lost_s: float,
    bursts: Mapping[BurstsKey, PathBursts],
    now: datetime,
) -> FindingLevel:
    """The level of the bursts that began after this packet was lost."""
    ended_at = datetime.fromtimestamp(lost_s + AFTER_S, UTC)
    own = bursts.get((row.path_id, _way(row)))
    later = None if own is None else own.since(lost_s + AFTER_S).counts(level.together)
    level = replace(level, since=ended_at, recovered_at=ended_at, window_s=(now - ended_at).total_seconds())
    return (
        replace(level, now=0.0, sent=None) if later is None else replace(level, now=later.ratio, sent=round(later.sent))
    )


def _pair(incident: Incident, rows: Sequence[IncidentPath], snapshot: Snapshot) -> tuple[int, ...]:
    """The path in the direction that an incident between two hosts names, and its reverse, or both paths between them
    where it names none; empty of any other incident."""
    by_ends = {(path.source, path.destination): path_id for path_id, path in snapshot.paths.items()}
    own = {row.path_id for row in rows}
    source, arrow, destination = incident.toward.partition(" → ")
    if not arrow:
        first = snapshot.paths.get(min(own, default=0))
        source, destination = ("", "") if first is None or len(own) < 2 else (first.source, first.destination)
    both = (by_ends.get((source, destination)), by_ends.get((destination, source)))
    pair = () if both[0] is None else tuple(path_id for path_id in both if path_id is not None)
    return pair if own <= {*pair} else ()
