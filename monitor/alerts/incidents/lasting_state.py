"""The state of lasting incidents for grouping new findings."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta

from monitor.alerts.detect.causes import CauseGroup
from monitor.alerts.detect.rules.catalogue import rule_of
from monitor.alerts.detect.rules.finding import RuleFinding
from monitor.alerts.detect.silence import paths_without_newer_data
from monitor.alerts.detect.snapshot import Key, Snapshot
from monitor.alerts.detect.troubles import LOSS_EFFECTS, LastingIncident, lasting_keys
from monitor.alerts.incidents import lifecycle
from monitor.alerts.incidents.own_track import is_outage, own_track
from monitor.alerts.models import Incident, IncidentPath
from monitor.analysis.segments.stretches import CLEAN, DEAD
from monitor.present.read import PresentPath
from monitor.present.track import Signal, Track

# After the newest finding: by then the paths of a cause have alarmed, or are known not to be affected.
REJUDGED_FOR = timedelta(minutes=15)
# An outage is detected within this time.
LATELY_CUT = timedelta(minutes=10)


def of_incident(incident: Incident, now: datetime) -> LastingIncident:
    """The state of a lasting incident by its findings that are not over."""
    rows = [row for row in incident.paths.all() if not row.is_over]
    recovered_s, relapsed, last_answered_s = {}, set(), {}
    for row in rows:
        track = own_track(row)
        if is_outage(row):
            outage = None if track is None else track.outage
            last_answered_s[_key(row)] = row.since.timestamp() if outage is None else outage[0].at_s
        if track is None:
            continue
        if track.is_over and track.end is not None:
            recovered_s[_key(row)] = track.end.at_s
        elif _is_loss(row) and _has_relapsed(track, row.added_at.timestamp()):
            relapsed.add(_key(row))
    losses = sum(map(_is_loss, rows))
    # Once a path is back, the normal ones tell of the end, not of where the trouble was.
    is_whole = len(rows) == len(incident.paths.all()) and not recovered_s
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
        may_be_narrower=is_whole and 2 * losses > len(rows) and now - max(of.added_at for of in rows) <= REJUDGED_FOR,
    )


def lost_at_s(
    findings: Sequence[RuleFinding], lasting: Sequence[LastingIncident], present: Mapping[int, PresentPath]
) -> dict[int, float]:
    """Begin of the newest loss by path of new findings, in seconds since the epoch; empty if not needed."""
    if not any(incident.recovered_s or incident.cut_s for incident in lasting):
        return {}
    return _begun_s(_new_losses(findings, lasting), present)


def cut_s(
    findings: Sequence[RuleFinding],
    lasting: Sequence[LastingIncident],
    present: Mapping[int, PresentPath],
    now: datetime,
) -> dict[int, float]:
    """Last reply of newly lossy paths before an outage, in seconds since the epoch; empty if not needed."""
    if not any(incident.detected_s for incident in lasting):
        return {}
    since_s = (now - LATELY_CUT).timestamp()
    replied_s: dict[int, float] = {}
    for path_id in _new_losses(findings, lasting):
        track = _lost_track(path_id, present)
        if track is None or track.now is None:
            continue
        ended_s = [begin_s for begin_s, end_s in track.outages if end_s > since_s]
        silent_s = [*ended_s, *([track.now.since.at_s] if track.now.state == DEAD else [])]
        replied_s |= {path_id: silent_s[-1]} if silent_s else {}
    return replied_s


def onsets_s(
    findings: Sequence[RuleFinding],
    lasting: Sequence[Incident],
    snapshot: Snapshot,
    present: Mapping[int, PresentPath],
) -> dict[int, float]:
    """Begin of the loss by path, in seconds since the epoch; empty if all paths have newer data."""
    if not paths_without_newer_data(snapshot):
        return {}
    known = {
        row.path_id: incident.began_at.timestamp()
        for incident in lasting
        if incident.began_at is not None
        for row in incident.paths.all()
        if not row.is_over
    }
    return _begun_s({of.path_id for of in findings if rule_of(of.rule).effect in LOSS_EFFECTS}, present) | known


def _new_losses(findings: Sequence[RuleFinding], lasting: Sequence[LastingIncident]) -> set[int]:
    already = lasting_keys(lasting)
    lossy = (finding for finding in findings if rule_of(finding.rule).effect in LOSS_EFFECTS)
    return {finding.path_id for finding in lossy if finding.key not in already}


def _begun_s(path_ids: Iterable[int], present: Mapping[int, PresentPath]) -> dict[int, float]:
    tracks = {path_id: _lost_track(path_id, present) for path_id in path_ids}
    return {path_id: of.onset.at_s for path_id, of in tracks.items() if of is not None and of.onset is not None}


def _lost_track(path_id: int, present: Mapping[int, PresentPath]) -> Track | None:
    return present[path_id].track(Signal.LOSS) if path_id in present else None


def move_away(lasting: Sequence[Incident], group: CauseGroup, now: datetime) -> None:
    """End findings that move to this group; those never part of the old cause leave it altogether."""
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


def _has_relapsed(track: Track, added_s: float) -> bool:
    clean_s = [segment.since.at_s for segment in track.segments if segment.state == CLEAN]
    return track.now is not None and track.now.state != CLEAN and any(at_s > added_s for at_s in clean_s)


def as_finding(row: IncidentPath) -> RuleFinding:
    return RuleFinding(row.rule, row.path_id, str(row.path), row.sentence, row.since, row.figures)
