"""The present and the worst figure of findings while they last, copied from the tracks of their paths.

In: lasting incidents, the present of their paths, the snapshot with the newest tests and responses. Out: the stored
`FindingLevel` of each finding, and the severity of incidents that have worsened.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import msgspec
import numpy as np
from django.db import transaction

from monitor.alerts.detect.damage import CRITICAL_TESTS, severity_of
from monitor.alerts.detect.rules.catalogue import rule_of
from monitor.alerts.detect.rules.finding import Trouble
from monitor.alerts.detect.rules.request_response import newest_latency_ms
from monitor.alerts.detect.shares import Share, shares_as_json
from monitor.alerts.detect.snapshot import Key, Snapshot
from monitor.alerts.history import add_severity
from monitor.alerts.incidents.finding_level import FindingLevel, LevelUnit, at_detection, level_of
from monitor.alerts.incidents.gravest import gravest_first
from monitor.alerts.incidents.own_present import CALM, own_present, signal_of, track_of
from monitor.alerts.models import Incident, IncidentPath, Severity
from monitor.analysis.changes.present import LostPackets, summed
from monitor.analysis.segments.delay_segments import DelaySegment
from monitor.analysis.segments.loss_segments import LossSegment
from monitor.analysis.segments.stretches import CLEAN, DEAD
from monitor.mesh.document.alert_rules import RuleSettings
from monitor.present import words
from monitor.present.read import PresentPath
from monitor.present.track import Condition, Signal, Track

SEVERE_S = 300.0
"""The mean of a loss of so long raises the severity; of a shorter time all of its interval: few packets vary more."""

Settings = Mapping[str, Mapping[int, RuleSettings]]


def set_shares(incident: Incident, shares: Sequence[Share]) -> None:
    """Store how many other paths are bad now; no query where that is unchanged."""
    stored = shares_as_json(shares)
    if stored != incident.shares:
        Incident.objects.filter(pk=incident.pk, closed_at=None, shares=incident.shares).update(shares=stored)


def update_levels(
    lasting: Sequence[Incident], present: Mapping[int, PresentPath], snapshot: Snapshot, settings: Settings
) -> None:
    """Store the present levels of all findings that last, and raise the severity of incidents that have worsened."""
    changed = []
    for incident in lasting:
        for row in incident.paths.all():
            if row.is_over:
                continue
            level = _level(row, present.get(row.path_id), snapshot)
            stored = None if level is None else msgspec.to_builtins(level)
            if stored != row.level:
                row.level = stored
                changed.append(row)
    IncidentPath.objects.bulk_update(changed, ["level"])
    for incident in lasting:
        _raise_severity(incident, own_present(incident, present), settings, snapshot)


def end_before(lasting: Sequence[Incident], moved: Collection[Key], present: Mapping[int, PresentPath]) -> None:
    """Store for findings that move to another incident the level of their trouble before: the newest is of that one."""
    changed = []
    for row in (row for incident in lasting for row in incident.paths.all() if not row.is_over):
        track = track_of(row, present.get(row.path_id))
        before = None if track is None else track.before
        if (row.path_id, row.rule) in moved and before is not None:
            row.level = msgspec.to_builtins(_of_track(row, before, level_of(row), is_current=True))
            changed.append(row)
    IncidentPath.objects.bulk_update(changed, ["level"])


def _level(row: IncidentPath, path: PresentPath | None, snapshot: Snapshot) -> FindingLevel | None:
    """The level of a finding now; None if its rule has no figure that changes."""
    if signal_of(row) > Signal.RTT:
        return _of_tests(row, snapshot)
    track = track_of(row, path)
    if track is None or track.now is None:
        return level_of(row)
    return _of_track(row, track, level_of(row), is_current=path is None or _is_current(path))


def _is_current(path: PresentPath) -> bool:
    """Whether the newest results of a path are of now."""
    pinged = path.track(Signal.LOSS)
    return pinged is None or pinged.condition not in (Condition.OVERDUE, Condition.OWN_TESTS, Condition.NOT_PERMITTED)


def _of_track(row: IncidentPath, track: Track, before: FindingLevel | None, *, is_current: bool) -> FindingLevel:
    """The level by the newest segment; the peak is that of the trouble, and of what was stored of a longer one."""
    now, newest_at = track.now, _time(track.newest_s)
    assert now is not None
    added_s = row.added_at.timestamp()
    peaks = [peak for segment in track.trouble if (peak := _worst(segment)) is not None]
    stored = at_detection(row.figures) if before is None else before.peak
    peak = max(peaks) if peaks else stored or 0.0
    ended_s = None if track.end is None else track.end.at_s
    is_over = is_current and track.condition in CALM and ended_s is not None
    clean_s = [segment.since.at_s for segment in track.segments[:-1] if segment.state == CLEAN]
    level = FindingLevel(
        unit=LevelUnit.MILLISECONDS,
        now=None,
        peak=peak,
        since=_time(now.since.at_s),
        newest_at=newest_at,
        over_since=_time(ended_s) if is_over and ended_s is not None else None,
        has_relapsed=now.state != CLEAN and any(at_s > added_s for at_s in clean_s),
    )
    if isinstance(now, DelaySegment):
        return replace(level, now=now.median_ms if is_current else None)
    outage = [place for place, of in enumerate(track.segments) if of.state == DEAD]
    last, following = (track.segments[outage[-1]], track.segments[outage[-1] + 1 :]) if outage else (None, ())
    return replace(
        level,
        unit=LevelUnit.LOSS_RATIO,
        now=now.lost.ratio if is_current and now.lost.sent else None,
        sent=now.lost.sent,
        together=now.lost.together,
        last_reply=None if last is None else _time(last.since.at_s),
        first_reply=_time(following[0].since.at_s) if following else None,
    )


def _worst(segment: LossSegment | DelaySegment) -> float | None:
    if isinstance(segment, DelaySegment):
        return segment.worst_ms
    return segment.lost.ratio if segment.lost.sent else None


def _of_tests(row: IncidentPath, snapshot: Snapshot) -> FindingLevel | None:
    """The level by the newest test or response; over since the first that is nearer to the figure before."""
    figures: Mapping[str, Any] = row.figures
    if rule_of(row.rule).trouble is Trouble.RESPONSES:
        unit, before = LevelUnit.MILLISECONDS, "before_ms"
        now = newest_latency_ms(snapshot.responses, row.path_id, figures)
    elif rule_of(row.rule).trouble.needs_tests and "after_bps" in figures and row.path_id in snapshot.test_rows:
        newest_bps = float(snapshot.tests_bps[snapshot.test_rows[row.path_id], -1])
        unit, now, before = LevelUnit.BITS_PER_SECOND, None if np.isnan(newest_bps) else newest_bps, "before_bps"
    else:
        return None
    stored, fired = level_of(row), at_detection(figures)
    if now is None or fired is None:
        return stored
    worst = min if unit is LevelUnit.BITS_PER_SECOND else max
    is_back = before in figures and abs(now - float(figures[before])) < abs(now - fired)
    was_back = None if stored is None else stored.over_since
    return FindingLevel(
        unit,
        now,
        worst(now, fired if stored is None else stored.peak),
        newest_at=snapshot.now,
        over_since=(was_back or snapshot.now) if is_back else None,
    )


def _raise_severity(incident: Incident, own: Sequence[PresentPath], settings: Settings, snapshot: Snapshot) -> None:
    """Raise the severity to that of the worst damage of its findings now. It does not fall while the incident lasts."""
    worst, of = incident.severity, None
    together = _pooled(own)
    for row in gravest_first(incident.paths.all()):
        level, rule = level_of(row), settings.get(row.rule, {}).get(row.path_id)
        if row.is_over or level is None or rule is None or level.over_since is not None:
            continue
        if level.unit is LevelUnit.LOSS_RATIO:
            for counts in (together, level.counts):
                ratio = None if counts is None else _least_ratio(counts, level)
                severity = severity_of(rule, ratio)
                if counts is not None and Severity(severity).rank > Severity(worst).rank:
                    worst, of = severity, f"{row.path}: loss {words.lost_text(counts)}"
        else:
            severity = _by_tests(row, level, rule, snapshot)
            if Severity(severity).rank > Severity(worst).rank:
                worst, of = severity, f"{row.path}: {rule_of(row.rule).words} {level.peak_text}"
    if of is None:
        return
    with transaction.atomic():
        raised = Incident.objects.filter(pk=incident.pk, closed_at__isnull=True, severity=incident.severity)
        if raised.update(severity=worst, has_grown=incident.told_at is not None):
            add_severity(incident, worst, of, snapshot.now)
            incident.severity = worst


def _pooled(own: Sequence[PresentPath]) -> LostPackets | None:
    """The loss of all paths in trouble together."""
    tracks = [path.track(Signal.LOSS) for path in own if path.condition.is_trouble]
    losses = [track.now.lost for track in tracks if track is not None and isinstance(track.now, LossSegment)]
    losses = [lost for lost in losses if lost.sent]
    return summed(losses) if len(losses) > 1 else None


def _least_ratio(lost: LostPackets, level: FindingLevel) -> float:
    """The least loss by its interval; of SEVERE_S or longer its mean, which varies less."""
    return lost.ratio if (level.window_s or 0.0) >= SEVERE_S else lost.interval[0]


def _by_tests(row: IncidentPath, level: FindingLevel, rule: RuleSettings, snapshot: Snapshot) -> str:
    if level.unit is LevelUnit.BITS_PER_SECOND and row.figures.get("before_bps"):
        newest_bps = snapshot.tests_bps[snapshot.test_rows[row.path_id], -CRITICAL_TESTS:]
        return severity_of(rule, None, float(newest_bps.max()) / float(row.figures["before_bps"]))  # NaN is not below
    return rule.severity


def _time(at_s: float) -> datetime:
    return datetime.fromtimestamp(at_s, UTC)
