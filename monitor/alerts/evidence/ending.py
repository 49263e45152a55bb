"""The end of an incident: of a loss that is over that which its level has, else by the bursts of its paths.

In: the findings of an incident, and raw bursts of their paths. Out: a moment, None where no bursts tell it. An incident
is resolved later than this: its rules wait until they can tell that it is over.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from monitor.alerts.detect import packet_times
from monitor.alerts.detect.packet_times import NO_SPACING, Spacing
from monitor.alerts.detect.rules.catalogue import rule_of
from monitor.alerts.detect.rules.finding import LOSSY, BadBursts, BurstLevel, Effect, Trouble, followed_figure
from monitor.alerts.detect.rules.route_change import ROUTE_CHANGE
from monitor.alerts.evidence import episode
from monitor.alerts.incidents.earlier_times import earlier_times
from monitor.alerts.incidents.finding_level import LevelUnit, level_of
from monitor.alerts.models import Incident, IncidentPath
from monitor.archive.queries.around import BurstColumns, bursts_around
from monitor.archive.queries.throughput.series import rates_of_paths
from monitor.archive.statements import LONGEST_RAW

BASELINE = timedelta(hours=1)
MOST_PATHS = 16
SAME_END_S = 30.0
"""Replies so near to the end of an outage by whole bursts are its end: a burst may have packets that are set aside."""


@dataclass(frozen=True, slots=True)
class IncidentEnd:
    """The end of an incident: its last bad packet, of an outage the first reply after it, which is `answered_by`."""

    at: datetime
    answered_by: datetime | None = None


def is_over(incident: Incident) -> bool:
    """Whether an incident is resolved, waits to be, or has replies again: there is nothing to look for any more."""
    return incident.closed_at is not None or incident.over_since is not None


def last_bad(incident: Incident, rows: Sequence[IncidentPath], now: datetime) -> datetime | None:
    """The end of an incident that is resolved at `now` with these findings: six queries, of throughput seven."""
    path_ids = sorted(list(dict.fromkeys(row.path_id for row in rows))[:MOST_PATHS])
    began_at = incident.began_at or min((row.since for row in rows), default=now)
    since = max(began_at, now - LONGEST_RAW)
    bursts = episode.concatenate_bursts(
        bursts_around(path_ids, since - BASELINE, since), bursts_around(path_ids, since, max(now, since))
    )
    bursts = earlier_times(incident, [row.path for row in rows], since).usual(bursts)
    low = _last_low_test(rows, since, now)
    proven = [at for row in rows if (at := _loss_over_since(row)) is not None]
    end = last_of_rows(rows, bursts, since) or max(proven, default=None)
    if end is None:
        return low
    exact = exact_end(rows, bursts, since, end, packet_times.spacings(path_ids)).at
    return exact if low is None else max(exact, low)


def _last_low_test(rows: Iterable[IncidentPath], since: datetime, until: datetime) -> datetime | None:
    """When the last throughput test began whose rate is nearer to that of a finding than to the one before it."""
    falls = {
        row.path_id: row.figures
        for row in rows
        if rule_of(row.rule).trouble is Trouble.THROUGHPUT and {"before_bps", "after_bps"} <= row.figures.keys()
    }
    if not falls:
        return None
    low = [
        rate.at
        for rate in rates_of_paths(list(falls), since, max(until, since + timedelta(seconds=1)))
        if abs(rate.throughput_bps - falls[rate.path_id]["after_bps"])
        < abs(rate.throughput_bps - falls[rate.path_id]["before_bps"])
    ]
    return max(low, default=None)


def exact_end(
    rows: Iterable[IncidentPath],
    bursts: BurstColumns,
    since: datetime,
    end: datetime,
    spacings: Mapping[int, Spacing],
) -> IncidentEnd:
    """The end by packets: of paths with an outage the first reply that their levels have, as everywhere, else the
    newest bad packet, or just after it where a level has it."""
    rows = list(rows)
    edges = [
        edge
        for row in rows
        if rule_of(row.rule).effect in (Effect.LOSS, Effect.UNREACHABLE)
        and (own := _last_of(row, bursts, since)) is not None
        and (edge := episode.find_outage_end(bursts, row.path_id, own, spacings.get(row.path_id, NO_SPACING)))
    ]
    last = max(edges, key=lambda edge: edge.at_s, default=None)
    if last is None or last.at_s < end.timestamp():  # no outage, or a path has lost packets since
        return IncidentEnd(_last_packet(rows, bursts, since, spacings))
    replies = [
        level.first_reply for row in rows if (level := level_of(row)) is not None and level.first_reply is not None
    ]
    near = [at for at in replies if abs(at.timestamp() - last.latest_s) <= SAME_END_S]
    at = max(near, default=datetime.fromtimestamp(last.latest_s, UTC))
    return IncidentEnd(at, at)


def _last_packet(
    rows: Iterable[IncidentPath], bursts: BurstColumns, since: datetime, spacings: Mapping[int, Spacing]
) -> datetime:
    """The newest bad packet of findings, or the begin of the last bad burst where no single packet is bad; of a loss
    whose level tells since when it is over, that time."""
    ends = []
    for row in rows:
        own, by = _last_of(row, bursts, since), _by(row)
        packet = _loss_over_since(row)
        if packet is None and own is not None and by is not None:
            spacing = spacings.get(row.path_id, NO_SPACING)
            packet = episode.last_bad_packet(bursts, row.path_id, own, by, row.figures, spacing)
        ends += [at for at in (packet or own,) if at is not None]
    return max(ends)


def last_of_rows(rows: Iterable[IncidentPath], bursts: BurstColumns, since: datetime) -> datetime | None:
    """The last bad burst from `since` on of all these findings."""
    ends = [_last_of(row, bursts, since) for row in rows]
    return max((end for end in ends if end is not None), default=None)


def end_of_figures(
    rows: Sequence[IncidentPath], path_ids: Sequence[int], bursts: BurstColumns, since: datetime, until: datetime
) -> tuple[datetime | None, datetime]:
    """The last bad burst of these findings, gravest first, if their paths are normal since; and the end of the figures.

    These end with the last bad burst of the gravest rule: good bursts after it would dilute them."""
    detailed = [row for row in rows if row.path_id in path_ids]
    worst = last_of_rows([row for row in detailed if row.rule == rows[0].rule], bursts, since)
    end = last_of_rows(detailed, bursts, since)
    if worst is None or end is None or not _have_recovered(detailed, bursts, worst):
        return None, max(until, since)
    is_over = _have_recovered(detailed, bursts, end)
    return end if is_over else None, max(worst + timedelta(microseconds=1), since)


def _have_recovered(rows: Sequence[IncidentPath], bursts: BurstColumns, end: datetime) -> bool:
    """Whether each path has good bursts after the last bad burst; the first after a time without any is good."""
    for row in rows:
        newest_s = bursts.at_s[bursts.path_id == row.path_id].max(initial=0.0)
        is_good = rule_of(row.rule).effect is Effect.NO_DATA
        if newest_s < end.timestamp() or (newest_s == end.timestamp() and not is_good):
            return False
    return bool(rows)


def _last_of(row: IncidentPath, bursts: BurstColumns, since: datetime) -> datetime | None:
    rule, figures, over_since = rule_of(row.rule), row.figures, _loss_over_since(row)
    if over_since is not None:
        bursts = bursts.where(bursts.at_s < over_since.timestamp())
    if rule.effect is Effect.NO_DATA:
        return _first_after(row.path_id, figures, bursts)
    by = _by(row)
    return None if by is None else episode.find_end(bursts, row.path_id, since, by, figures)


def _loss_over_since(row: IncidentPath) -> datetime | None:
    """Since when the loss of a finding is over; None while it goes on, and of other findings."""
    level = level_of(row)
    return level.over_since if level is not None and level.unit is LevelUnit.LOSS_RATIO else None


def _by(row: IncidentPath) -> BadBursts | BurstLevel | None:
    """The bursts that show when a finding ended."""
    rule, figures = rule_of(row.rule), row.figures
    if rule is ROUTE_CHANGE:
        # Its begin is by traces; its end is that of its effect, which a later trace finds later.
        return BurstLevel(followed_figure(figures) or "median") if "after_ms" in figures else LOSSY
    return rule.began_by


def _first_after(path_id: int, figures: Mapping[str, Any], bursts: BurstColumns) -> datetime | None:
    """The first burst after a time without any."""
    if "found" not in figures:
        return None
    later = bursts.at_s[bursts.path_id == path_id]
    later = later[later >= datetime.fromisoformat(figures["found"]).timestamp()]
    return datetime.fromtimestamp(float(later.min()), UTC) if len(later) else None
