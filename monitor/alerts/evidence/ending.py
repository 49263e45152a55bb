"""The end of an incident, by its tracks or else by bursts or tests; None if unknown. Resolution comes later."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from monitor.alerts.detect.rules.catalogue import rule_of
from monitor.alerts.detect.rules.finding import LOSSY, BadBursts, BurstLevel, Effect, Trouble, followed_figure
from monitor.alerts.detect.rules.route_change import ROUTE_CHANGE
from monitor.alerts.evidence import episode
from monitor.alerts.incidents.earlier_times import earlier_times
from monitor.alerts.incidents.own_present import signal_of
from monitor.alerts.incidents.own_track import normal_since, own_track
from monitor.alerts.models import Incident, IncidentPath
from monitor.archive.queries.around import BurstColumns, bursts_around
from monitor.archive.queries.throughput.series import rates_of_paths
from monitor.archive.statements import LONGEST_RAW
from monitor.present.track import Signal

BASELINE = timedelta(hours=1)
MOST_PATHS = 16
JUST_AFTER = timedelta(microseconds=1)


def is_over(incident: Incident) -> bool:
    """Whether an incident is resolved, about to be, or answered again."""
    return incident.closed_at is not None or incident.over_since is not None


def end_of(incident: Incident, rows: Sequence[IncidentPath], now: datetime) -> datetime | None:
    """The end of an incident resolved at `now`: six queries without a track, seven for throughput."""
    ends = [at for row in rows if (at := _by_track(row)) is not None]
    untracked = [row for row in rows if not _has_track(row)]
    if not untracked:
        return max(ends, default=None)
    path_ids = sorted(list(dict.fromkeys(row.path_id for row in untracked))[:MOST_PATHS])
    began_at = incident.began_at or min((row.since for row in rows), default=now)
    since = max(began_at, now - LONGEST_RAW)
    bursts = episode.concatenate_bursts(
        bursts_around(path_ids, since - BASELINE, since), bursts_around(path_ids, since, max(now, since))
    )
    bursts = earlier_times(incident, [row.path for row in untracked], since).usual(bursts)
    ends += [at for row in untracked if (at := _last_of(row, bursts, since)) is not None]
    low = _last_low_test(untracked, since, now)
    return max([*ends, *([] if low is None else [low])], default=None)


def end_of_figures(
    rows: Sequence[IncidentPath], path_ids: Sequence[int], bursts: BurstColumns, since: datetime, until: datetime
) -> tuple[datetime | None, datetime]:
    """When these findings, gravest first, ended (None while any lasts), and until when figures count: the end of the
    gravest rule's trouble."""
    ends = {row: _end_of(row, bursts, since) for row in rows if row.path_id in path_ids}
    worst = [end for row, end in ends.items() if row.rule == rows[0].rule]
    last = max((end for end in worst if end is not None), default=None)
    if last is None or None in worst:
        return None, max(until, since)
    every = [end for end in ends.values() if end is not None]
    is_tracked = any(_has_track(row) for row in ends if row.rule == rows[0].rule)
    is_until = max(last if is_tracked else last + JUST_AFTER, since)
    return max(every) if len(every) == len(ends) else None, is_until


def first_reply(rows: Iterable[IncidentPath]) -> datetime | None:
    """The last of the first replies after these outages, if all have a reply."""
    outages = [track.outage for row in rows if (track := own_track(row)) is not None and track.outage is not None]
    replies_s = [reply.at_s for _, reply in outages if reply is not None]
    return datetime.fromtimestamp(max(replies_s), UTC) if replies_s and len(replies_s) == len(outages) else None


def _end_of(row: IncidentPath, bursts: BurstColumns, since: datetime) -> datetime | None:
    if _has_track(row):
        return _by_track(row)
    end = _last_of(row, bursts, since)
    newest_s = bursts.at_s[bursts.path_id == row.path_id].max(initial=0.0)
    # The first burst after a time without any is good.
    is_good = rule_of(row.rule).effect is Effect.NO_DATA
    is_over = end is not None and (newest_s > end.timestamp() or (is_good and newest_s == end.timestamp()))
    return end if is_over else None


def _has_track(row: IncidentPath) -> bool:
    return signal_of(row) <= Signal.RTT and row.level is not None


def _by_track(row: IncidentPath) -> datetime | None:
    return normal_since(row) if _has_track(row) else None


def _last_low_test(rows: Iterable[IncidentPath], since: datetime, until: datetime) -> datetime | None:
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


def _last_of(row: IncidentPath, bursts: BurstColumns, since: datetime) -> datetime | None:
    rule, figures = rule_of(row.rule), row.figures
    if rule.effect is Effect.NO_DATA:
        return _first_after(row.path_id, figures, bursts)
    by = _by(row)
    return None if by is None else episode.find_end(bursts, row.path_id, since, by, figures)


def _by(row: IncidentPath) -> BadBursts | BurstLevel | None:
    rule, figures = rule_of(row.rule), row.figures
    if rule is ROUTE_CHANGE:
        # Its begin is by traces; its end is that of its effect, which a later trace finds later.
        return BurstLevel(followed_figure(figures) or "median") if "after_ms" in figures else LOSSY
    return rule.began_by


def _first_after(path_id: int, figures: Mapping[str, Any], bursts: BurstColumns) -> datetime | None:
    if "found" not in figures:
        return None
    later = bursts.at_s[bursts.path_id == path_id]
    later = later[later >= datetime.fromisoformat(figures["found"]).timestamp()]
    return datetime.fromtimestamp(float(later.min()), UTC) if len(later) else None
