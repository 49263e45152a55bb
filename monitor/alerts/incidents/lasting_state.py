"""The state of lasting incidents, as the grouping of new findings needs it, and findings that move to another incident.

In: a lasting incident with its paths and their levels as last measured. Out: `LastingIncident`; when the packets of new
findings were lost, by a query only where a trouble before them has ended; since when paths were normal in other
incidents; when paths ceased to answer, and answered again; changed rows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import numpy as np
from django.db.models import Q

from monitor.alerts.detect import packet_times
from monitor.alerts.detect.causes import CauseGroup
from monitor.alerts.detect.packet_times import BurstsKey, EndedOutage, PathBursts, bursts_by_key
from monitor.alerts.detect.rules.catalogue import rule_of
from monitor.alerts.detect.rules.finding import Effect, RuleFinding
from monitor.alerts.detect.rules.reach import FIRST_REPLY
from monitor.alerts.detect.silence import paths_without_newer_data, silent_since
from monitor.alerts.detect.snapshot import Key, Snapshot
from monitor.alerts.detect.troubles import LOSS_EFFECTS, LastingIncident, lasting_keys
from monitor.alerts.incidents import lifecycle
from monitor.alerts.incidents.finding_level import FindingLevel, LevelUnit, is_normal_again, level_of
from monitor.alerts.models import Incident, IncidentPath
from monitor.archive.queries.for_alerts import newest_bursts

REJUDGED_FOR = timedelta(minutes=15)
"""After its newest finding: by then the paths of a cause have alarmed, or are known not to be affected."""
LEAST_OUTAGE_RATIO = 0.9
LATELY_CUT = timedelta(minutes=10)
"""An outage is detected within this time."""
SAME_CYCLE = timedelta(minutes=1)
"""Before the onset: the bursts of several paths that an outage cuts do not begin together."""
SETTLED = timedelta(minutes=2)
"""After the first reply of an outage: by then the other bursts of its cycle have been delivered."""


def of_incident(incident: Incident, now: datetime) -> LastingIncident:
    """The state of a lasting incident by its findings that are not over."""
    rows = [row for row in incident.paths.all() if not row.is_over]
    recovered_s, relapsed, last_answered_s = {}, set(), {}
    for row in rows:
        level = level_of(row)
        if _is_outage(row) and (last_reply := _last_answer(row, level)) is not None:
            last_answered_s[_key(row)] = last_reply.timestamp()
        if level is None or level.recovered_at is None:
            continue
        if is_normal_again(row):
            recovered_s[_key(row)] = level.recovered_at.timestamp()
        elif _is_loss(row):
            relapsed.add(_key(row))
    losses = sum(map(_is_loss, rows))
    return LastingIncident(
        incident.cause,
        frozenset(map(_key, rows)),
        min((row.since for row in rows), default=None),
        recovered_s,
        frozenset(relapsed),
        frozenset(_key(row) for row in rows if _is_outage(row)),
        last_answered_s,
        {_key(row): row.added_at.timestamp() for row in rows if _is_loss(row) and not _is_outage(row)},
        frozenset(row.path_id for row in incident.paths.all() if row.is_over),
        tuple(map(_as_finding, rows)),
        may_be_narrower=2 * losses > len(rows) and now - max(row.added_at for row in rows) <= REJUDGED_FOR,
    )


def lost_at_s(findings: Sequence[RuleFinding], lasting: Sequence[LastingIncident], now: datetime) -> dict[int, float]:
    """When the packets of new findings of loss were lost, in seconds since the epoch: the median, by path. Empty where
    no finding of a lasting incident is back to normal, and none is an outage."""
    already = lasting_keys(lasting)
    lossy = [finding for finding in findings if rule_of(finding.rule).effect in LOSS_EFFECTS]
    since_s = {finding.path_id: finding.since.timestamp() for finding in lossy if finding.key not in already}
    if not since_s or not any(incident.recovered_s or incident.cut_s for incident in lasting):
        return {}
    columns = newest_bursts(list(since_s), list(since_s.values()), now)
    medians_s = {}
    for path_id in since_s:
        is_own = columns["path_id"] == path_id
        lost = (columns["sent"] - columns["received"])[is_own].cumsum()
        if len(lost) and lost[-1] > 0:
            medians_s[path_id] = float(columns["at_s"][is_own][np.searchsorted(lost, lost[-1] / 2.0)])
    return medians_s


def cut_s(findings: Sequence[RuleFinding], lasting: Sequence[LastingIncident], snapshot: Snapshot) -> dict[int, float]:
    """When the paths of new findings of loss last answered before an outage that lasts or has just ended, in seconds
    since the epoch. Empty where no partial loss lasts that might be taken for a part of it; else three queries."""
    already = lasting_keys(lasting)
    new = [finding for finding in findings if finding.key not in already]
    lossy = {finding.path_id for finding in new if rule_of(finding.rule).effect in LOSS_EFFECTS}
    if not lossy or not any(incident.detected_s for incident in lasting):
        return {}
    silent = {path_id: at for path_id in lossy if (at := silent_since(path_id, snapshot)) is not None}
    lossy -= silent.keys()
    columns = newest_bursts(list(lossy), [(snapshot.now - LATELY_CUT).timestamp()] * len(lossy), snapshot.now)
    bursts = bursts_by_key(columns, "")
    whole_lost = {path_id: at for (path_id, _), of_path in bursts.items() if (at := of_path.whole_lost_at) is not None}
    replies = silent | packet_times.last_replies_before_runs(whole_lost, snapshot.now)
    return {path_id: at.timestamp() for path_id, at in replies.items()}


def onsets_s(findings: Sequence[RuleFinding], lasting: Sequence[Incident], snapshot: Snapshot) -> dict[int, float]:
    """When the loss of each path with a finding began, in seconds since the epoch: of a new one its first burst with a
    lost packet. Empty where all paths have newer data; else a query, none without a new finding."""
    if not paths_without_newer_data(snapshot):
        return {}
    at_s = {
        row.path_id: incident.began_at.timestamp()
        for incident in lasting
        if incident.began_at is not None
        for row in incident.paths.all()
        if not row.is_over
    }
    since_s = {
        finding.path_id: finding.since.timestamp()
        for finding in findings
        if rule_of(finding.rule).effect in LOSS_EFFECTS and finding.path_id not in at_s
    }
    columns = newest_bursts(list(since_s), list(since_s.values()), snapshot.now) if since_s else {}
    for (path_id, _), bursts in bursts_by_key(columns, "").items() if since_s else ():
        lossy_s = bursts.at_s[bursts.sent > bursts.received]
        at_s |= {path_id: float(lossy_s[0])} if len(lossy_s) else {}
    return at_s


def settled_at(rows: Sequence[IncidentPath], since: datetime) -> dict[Key, datetime]:
    """Since when the path of each of these findings of an incident was back to normal in others that lasted until
    `since` or longer: what was bad before is part of those. A query."""
    own = {row.incident_id for row in rows}
    recent = Q(is_over=False) | Q(ended_at__gte=since)
    others = IncidentPath.objects.filter(recent, path__in={row.path_id for row in rows}).exclude(incident__in=own)
    settled: dict[Key, datetime] = {}
    recovered = [(other, level.recovered_at) for other in others if (level := level_of(other)) is not None]
    for row in rows:
        for other, at in recovered:
            is_alike = other.path_id == row.path_id and (other.rule == row.rule or (_is_loss(other) and _is_loss(row)))
            if is_alike and at is not None and at < row.added_at:
                settled[_key(row)] = max(settled.get(_key(row), at), at)
    return settled


def move_away(lasting: Sequence[Incident], group: CauseGroup, now: datetime) -> None:
    """End the findings that move to this group in the incidents from which they come. Those that were never part of
    its cause leave it altogether."""
    for incident in lasting:
        # An incident that has just been narrowed has its new name in the group, and its old here.
        rows = [row for row in incident.paths.all() if not row.is_over and _key(row) in group.moved]
        if not rows:
            continue
        was_part = group.moved[_key(rows[0])] == incident.cause
        reasons = {_key(row): f"{row.path}: part of {group.label}" for row in rows}
        ended = lifecycle.end_findings(incident.pk, reasons, now)
        if not was_part:
            IncidentPath.objects.filter(pk__in=ended).delete()
        for row in rows:
            row.is_over = row.pk in ended


def is_of_loss(row: IncidentPath, snapshot: Snapshot) -> bool:
    """Whether a finding is about loss, on a path that is measured."""
    return rule_of(row.rule).effect in (Effect.LOSS, Effect.UNREACHABLE) and row.path_id in snapshot.rows


def last_replies(lasting: Sequence[Incident], snapshot: Snapshot) -> dict[int, datetime]:
    """When the last packet with a reply was sent on each path that has ceased to answer: two queries, none where no
    path has."""
    silent = {
        row.path_id: since
        for row in _losses(lasting, snapshot)
        if (level := level_of(row)) is None or level.unanswered_since is None
        if (since := silent_since(row.path_id, snapshot)) is not None
    }
    return packet_times.last_replies(silent)


def ended_outages(
    lasting: Sequence[Incident], snapshot: Snapshot, bursts: Mapping[BurstsKey, PathBursts]
) -> dict[int, EndedOutage]:
    """The outages that have ended since the levels were measured last, or lately: two queries, none where none has;
    three more for paths of which only the last burst with a reply is known, and two for paths without an outage that
    have lost a burst as a whole since the onset of their incident."""
    replies = _last_replies(
        [row for row in _losses(lasting, snapshot) if silent_since(row.path_id, snapshot) is None], snapshot.now
    )
    short = {
        row.path_id: lost_at
        for incident in lasting
        for row in _losses([incident], snapshot)
        if row.path_id not in replies
        and ((level := level_of(row)) is None or level.ended_outage is None)
        and (own := bursts.get((row.path_id, ""))) is not None
        and (lost_at := own.whole_lost_at) is not None
        and lost_at >= (incident.began_at or row.since) - SAME_CYCLE
        and silent_since(row.path_id, snapshot) is None
    }
    replies |= packet_times.last_replies_before_runs(short, snapshot.now)
    return packet_times.ended_outages(replies, snapshot.now)


def figures_at_end(row: IncidentPath) -> Mapping[str, Any]:
    """The figures of a finding, with the first reply after its outage where its level has one."""
    level = level_of(row)
    if level is None or level.ended_outage is None:
        return row.figures
    return {**row.figures, FIRST_REPLY: level.ended_outage.first_reply.isoformat()}


def with_last_reply(row: IncidentPath, level: FindingLevel, replies: Mapping[int, datetime]) -> FindingLevel:
    """The level with the last reply by its packet, not by its burst."""
    if level.unanswered_since is None or row.path_id not in replies:
        return level
    return replace(level, unanswered_since=replies[row.path_id])


def _losses(lasting: Sequence[Incident], snapshot: Snapshot) -> list[IncidentPath]:
    return [
        row for incident in lasting for row in incident.paths.all() if not row.is_over and is_of_loss(row, snapshot)
    ]


def _last_replies(rows: Sequence[IncidentPath], now: datetime) -> dict[int, datetime]:
    """The last reply on each path that did not answer when the levels of these findings were measured last, or shortly
    before: by the packets of any of its findings, else by those of the last burst with a reply."""
    replies: dict[int, datetime] = {}
    bursts: dict[int, datetime] = {}
    for row in rows:
        level = level_of(row)
        outage = None if level is None else level.ended_outage
        if level is None or (outage is not None and now - outage.first_reply > SETTLED):
            continue
        last_reply = level.unanswered_since if outage is None else outage.last_reply
        if last_reply is not None:
            replies[row.path_id] = max(last_reply, replies.get(row.path_id, last_reply))
        elif rule_of(row.rule).effect is Effect.UNREACHABLE:
            bursts[row.path_id] = row.since
    bursts = {path_id: at for path_id, at in bursts.items() if path_id not in replies}
    return bursts | packet_times.last_replies(bursts) | replies


def _key(row: IncidentPath) -> Key:
    return row.path_id, row.rule


def _is_loss(row: IncidentPath) -> bool:
    return rule_of(row.rule).effect in LOSS_EFFECTS


def _is_outage(row: IncidentPath) -> bool:
    """Whether the path has, or had, no reply."""
    level = level_of(row)
    if rule_of(row.rule).effect is Effect.UNREACHABLE:
        return True
    is_loss = level is not None and level.unit is LevelUnit.LOSS_RATIO
    return is_loss and level is not None and (level.unanswered_since is not None or level.peak >= LEAST_OUTAGE_RATIO)


def _last_answer(row: IncidentPath, level: FindingLevel | None) -> datetime | None:
    """The last reply before the outage of a finding."""
    if level is not None and level.unanswered_since is not None:
        return level.unanswered_since
    if level is not None and level.ended_outage is not None:
        return level.ended_outage.last_reply
    return row.since if rule_of(row.rule).effect is Effect.UNREACHABLE else None


def _as_finding(row: IncidentPath) -> RuleFinding:
    return RuleFinding(row.rule, row.path_id, str(row.path), row.sentence, row.since, row.figures)
