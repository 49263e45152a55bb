"""The state of lasting incidents, as the grouping of new findings needs it, and findings that move to another incident.

In: a lasting incident with its paths and their levels as last measured. Out: `LastingIncident`; when the packets of new
findings were lost, by a query only where a trouble before them has ended; since when paths were normal in other
incidents; when paths ceased to answer, and answered again; changed rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta

import numpy as np

from monitor.alerts.detect import packet_times
from monitor.alerts.detect.causes import CauseGroup
from monitor.alerts.detect.packet_times import bursts_by_key
from monitor.alerts.detect.rules.catalogue import rule_of
from monitor.alerts.detect.rules.finding import Effect, RuleFinding
from monitor.alerts.detect.silence import paths_without_newer_data, silent_since
from monitor.alerts.detect.snapshot import Key, Snapshot
from monitor.alerts.detect.troubles import LOSS_EFFECTS, LastingIncident, lasting_keys
from monitor.alerts.incidents import lifecycle
from monitor.alerts.incidents.finding_level import FindingLevel, is_outage, level_of
from monitor.alerts.models import Incident, IncidentPath
from monitor.archive.queries.for_alerts import newest_bursts

REJUDGED_FOR = timedelta(minutes=15)
"""After its newest finding: by then the paths of a cause have alarmed, or are known not to be affected."""
LATELY_CUT = timedelta(minutes=10)
"""An outage is detected within this time."""


def of_incident(incident: Incident, now: datetime) -> LastingIncident:
    """The state of a lasting incident by its findings that are not over."""
    rows = [row for row in incident.paths.all() if not row.is_over]
    recovered_s, relapsed, last_answered_s = {}, set(), {}
    for row in rows:
        level = level_of(row)
        if is_outage(row):
            last_answered_s[_key(row)] = (_last_answer(row, level) or row.since).timestamp()
        if level is None:
            continue
        if level.over_since is not None:
            recovered_s[_key(row)] = level.over_since.timestamp()
        elif level.has_relapsed and _is_loss(row):
            relapsed.add(_key(row))
    losses = sum(map(_is_loss, rows))
    return LastingIncident(
        incident.cause,
        frozenset(map(_key, rows)),
        min((row.since for row in rows), default=None),
        recovered_s,
        frozenset(relapsed),
        frozenset(_key(row) for row in rows if is_outage(row)),
        last_answered_s,
        {_key(row): row.added_at.timestamp() for row in rows if _is_loss(row) and not is_outage(row)},
        frozenset(row.path_id for row in incident.paths.all() if row.is_over),
        tuple(map(as_finding, rows)),
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


def _key(row: IncidentPath) -> Key:
    return row.path_id, row.rule


def _is_loss(row: IncidentPath) -> bool:
    return rule_of(row.rule).effect in LOSS_EFFECTS


def _last_answer(row: IncidentPath, level: FindingLevel | None) -> datetime | None:
    """The last reply before the outage of a finding."""
    if level is not None and level.last_reply is not None:
        return level.last_reply
    return row.since if rule_of(row.rule).effect is Effect.UNREACHABLE else None


def as_finding(row: IncidentPath) -> RuleFinding:
    """The finding as its rule made it."""
    return RuleFinding(row.rule, row.path_id, str(row.path), row.sentence, row.since, row.figures)
