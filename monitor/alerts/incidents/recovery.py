"""Which findings of an open incident are back to normal, since when, and up to when there are measurements.

In: an incident with its paths and their levels. Out: findings, paths and moments. A path whose agent delivers nothing
has no present level. Where the reverse path shows that the RTT is normal again, that is said of both: their round trips
cross the same links.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime

from monitor.alerts.detect.rules.by_direction import DIRECTION
from monitor.alerts.detect.rules.catalogue import rule_of
from monitor.alerts.detect.rules.finding import Effect
from monitor.alerts.detect.troubles import LOSS_EFFECTS
from monitor.alerts.incidents.finding_level import (
    FindingLevel,
    LevelUnit,
    is_normal_again,
    level_of,
    loss_over_since,
)
from monitor.alerts.incidents.gravest import active_findings, ended_outage, of_gravest_rule
from monitor.alerts.models import Incident, IncidentPath
from monitor.analysis.changes.ended_loss import ENDED_SHARE, CleanRun

LIKELY_NATS = 1.6
"""Of a probability of one in five."""


def is_without_loss(row: IncidentPath, level: FindingLevel) -> bool:
    """Whether a finding of loss is over, and nothing has been lost since."""
    return rule_of(row.rule).effect is Effect.LOSS and level.is_ended and level.now == 0.0


def is_back_to_normal(incident: Incident) -> bool:
    """Whether all findings of an open incident are normal by now, and it waits to be resolved. Its paths may have
    another trouble."""
    return incident.closed_at is None and all(map(_is_back, by_newest(incident, active_findings(incident))))


def replies_again(incident: Incident) -> bool:
    """Whether all paths of an open incident that are not back to normal answer again after an outage, without a loss in
    the few packets since."""
    rows = [row for row in active_findings(incident) if not is_normal_again(row)]
    levels = [level_of(row) for row in rows]
    are_again = [level is not None and level.now == 0.0 and not level.is_stale for level in levels]
    return incident.closed_at is None and bool(rows) and all(are_again) and ended_outage(incident) is not None


def over_since(incident: Incident) -> datetime | None:
    """Since when all paths of an open incident are back to normal, also by those of its findings that ended before the
    others; None while one is not, or where no level tells."""
    if not is_back_to_normal(incident):
        return None
    levels = [level_of(row) for row in by_newest(incident, active_findings(incident))]
    times = [level.recovered_at for level in levels if level is not None and level.recovered_at is not None]
    ended = [at for row in _ended_losses(incident) if (at := loss_over_since(row)) is not None]
    return max([*times, *ended]) if times and len(times) == len(levels) else None


def closed_since_over(incident: Incident) -> set[int]:
    """The paths of an open incident that is over whose findings have ended since: its others still wait for that."""
    over = over_since(incident)
    if over is None:
        return set()
    return {row.path_id for row in incident.paths.all() if row.ended_at is not None and row.ended_at >= over}


def ended_so_far(incident: Incident) -> datetime | None:
    """When an open incident ended that is over, or whose paths all answer again after an outage; else None."""
    if replies_again(incident) and (outage := ended_outage(incident)) is not None:
        return outage.first_reply
    return over_since(incident)


def is_likely_over(incident: Incident) -> bool:
    """Whether the newest packets of all paths of an open incident of loss are likely of after its end, though they may
    not prove it yet."""
    levels = [level_of(row) for row in active_findings(incident)]
    nats = [_clean_nats(level) for level in levels if level is None or not level.is_ended]
    return bool(nats) and min(nats) > 0.0 and sum(nats) >= LIKELY_NATS


def _clean_nats(level: FindingLevel | None) -> float:
    """If half of the worst loss of a path went on, its newest packets would all be answered, or nearly all, with about
    the probability exp(-nats)."""
    if level is None or level.unit is not LevelUnit.LOSS_RATIO or level.unanswered_since is not None:
        return 0.0
    run = CleanRun(level.sent, 0.0, together=level.together) if level.now == 0.0 and level.sent else level.clean
    return 0.0 if run is None else run.nats(ENDED_SHARE * level.peak)


def is_over_by(incident: Incident) -> bool:
    """Whether the time since when it is over is that of the first results after a gap: it may have been over before."""
    over = over_since(incident)
    levels = [level_of(row) for row in by_newest(incident, active_findings(incident))] if over is not None else []
    return any(level is not None and level.recovered_at == over and level.is_back_by for level in levels)


def measured_until(incident: Incident) -> datetime | None:
    """The newest burst of an open incident whose paths have no figure of now; None if one has, or if unknown."""
    rows = [row for row in by_newest(incident, active_findings(incident)) if not _is_back(row)]
    levels = [level_of(row) for row in rows] if incident.closed_at is None else []
    times = [level.newest_at for level in levels if level is not None and level.newest_at is not None]
    return max(times) if times and all(map(_is_overdue, rows)) else None


def bad_until(incident: Incident) -> datetime | None:
    """The newest measurements of an open incident that show it, of a loss its newest run of lost packets; None where
    it goes on now, or where no bursts tell."""
    times = [_bad_until(row) for row in active_findings(incident)]
    known = [at for at in times if at is not None]
    return max(known) if known and len(known) == len(times) else None


def loss_ends_s(incidents: Iterable[Incident]) -> dict[int, float | None]:
    """When the loss of each path of these incidents was over, in seconds since the epoch; None while it lasts."""
    ends: dict[int, float | None] = {}
    for row in (row for incident in incidents for row in incident.paths.all()):
        if rule_of(row.rule).effect in LOSS_EFFECTS and not (row.is_over and row.ended_at is None):
            level = level_of(row)
            recovered_at = level.recovered_at if level is not None and level.is_ended else None
            end = row.ended_at if row.is_over else recovered_at
            earlier = ends.get(row.path_id, 0.0)
            ends[row.path_id] = None if end is None or earlier is None else max(end.timestamp(), earlier)
    return ends


def unclear_paths(incidents: Iterable[Incident]) -> set[int] | None:
    """The ids of the paths that may have the loss of one of these incidents that goes on, but for those without newer
    data; None where there are more than are listed. Once an incident is over its shares are those of before."""
    lasting = [row for row in incidents if not is_back_to_normal(row) and not replies_again(row)]
    shares = [share for row in lasting for share in row.shares]
    listed = [share.get("unclear_paths", []) for share in shares]
    numbers = [share.get("unclear", 0) - share.get("overdue", 0) for share in shares]
    has_more = any(number > len(ids) for number, ids in zip(numbers, listed, strict=True))
    return None if has_more else {path_id for ids in listed for path_id in ids}


def paths_back_to_normal(incident: Incident) -> set[int]:
    """The paths of an open incident without a finding that is neither over nor back to normal, and without another
    trouble."""
    if incident.closed_at is not None:
        return set()
    rows = incident.paths.all()
    return {row.path_id for row in rows} - paths_not_normal(incident) - paths_with_other_trouble([incident])


def paths_with_other_trouble(incidents: Iterable[Incident]) -> set[int]:
    """The paths of these incidents that have another trouble, while their findings are over or back to normal."""
    levels = ((row.path_id, level_of(row)) for incident in incidents for row in incident.paths.all())
    return {path_id for path_id, level in levels if level is not None and level.has_other_trouble}


def paths_not_normal(incident: Incident) -> set[int]:
    """The paths of an open incident with a finding that lasts and is not back to normal."""
    rows = [row for row in incident.paths.all() if not row.is_over]
    return {row.path_id for row in rows if not is_normal_again(_newer_of_pair(incident, row))}


def by_newest(incident: Incident, rows: Sequence[IncidentPath]) -> list[IncidentPath]:
    """These findings, each once; in place of one without newer data that of the reverse path which is normal again."""
    newest = [_newer_of_pair(incident, row) for row in rows]
    return list({row.pk: row for row in newest}.values())


def stated_findings(incident: Incident) -> list[IncidentPath]:
    """The findings of the gravest rule whose figure a title has, by `by_newest`. Once the loss of all of them is over,
    those that ended earlier are added: the packets since an end stay counted until the incident is resolved."""
    rows = by_newest(incident, of_gravest_rule(incident))
    levels = [level_of(row) for row in rows] if incident.closed_at is None else []
    # A level of before is no part of a figure that waits for newer data.
    if not levels or any(level is None or not level.is_ended or level.is_stale for level in levels):
        return rows
    ended = [row for row in _ended_losses(incident) if row.rule == rows[0].rule]
    return list({row.pk: row for row in [*rows, *ended]}.values())


def _ended_losses(incident: Incident) -> list[IncidentPath]:
    """The findings of loss of an open incident that ended before others of it, by a proof; of each path and rule the
    newest, unless that lasts again."""
    rows = sorted(incident.paths.all(), key=lambda row: (not row.is_over, row.ended_at or incident.opened_at))
    newest = {(row.path_id, row.rule): row for row in rows}
    return [row for row in newest.values() if row.is_over and loss_over_since(row) is not None]


def without_newer_data(incident: Incident) -> list[IncidentPath]:
    """The findings of an open incident that its figure does not have: only their reverse paths tell them to be back to
    normal, or their newer bursts are overdue while others of the same rule have theirs."""
    rows = [] if incident.closed_at is not None else active_findings(incident)
    current = {row.rule for row in rows if not _is_overdue(row) and not _is_back(row)}
    return [
        row
        for row in rows
        if _newer_of_pair(incident, row) is not row or (row.rule in current and _is_overdue(row) and not _is_back(row))
    ]


def _bad_until(row: IncidentPath) -> datetime | None:
    level = level_of(row)
    if level is None or level.unanswered_since is not None:
        return None
    if is_normal_again(row):
        return level.recovered_at
    return level.newest_at if level.clean is None else datetime.fromtimestamp(level.clean.since_s, UTC)


def _is_back(row: IncidentPath) -> bool:
    """Whether a finding is back to normal: not by the last replies of a path that does not answer any more."""
    level = level_of(row)
    return is_normal_again(row) and (level is None or not level.is_silent)


def _is_overdue(row: IncidentPath) -> bool:
    """Whether the newest burst of a finding is too old for a figure of now."""
    level = level_of(row)
    return level is not None and level.newest_at is not None and (level.now is None or level.is_stale)


def _newer_of_pair(incident: Incident, row: IncidentPath) -> IncidentPath:
    level = level_of(row)
    is_silent = level is not None and level.now is None and level.unit is LevelUnit.MILLISECONDS
    if not is_silent or row.is_over or DIRECTION in row.figures:
        return row
    ends = (row.path.destination_id, row.path.source_id)
    reverse = [
        other
        for other in incident.paths.all()
        if other.rule == row.rule and (other.path.source_id, other.path.destination_id) == ends
        if _is_back(other) and DIRECTION not in other.figures
    ]
    return reverse[0] if reverse else row
