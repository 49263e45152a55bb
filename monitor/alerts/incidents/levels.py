"""Copy path tracks to lasting findings, and raise the severity of incidents that have worsened."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from django.db import transaction

from monitor.alerts.detect.damage import CRITICAL_TESTS, severity_of
from monitor.alerts.detect.rules.by_direction import DIRECTION
from monitor.alerts.detect.rules.catalogue import rule_of
from monitor.alerts.detect.rules.request_response import newest_latency_ms
from monitor.alerts.detect.shares import Share, shares_as_json
from monitor.alerts.detect.snapshot import Key, Snapshot
from monitor.alerts.history import add_severity
from monitor.alerts.incidents.gravest import gravest_first
from monitor.alerts.incidents.own_present import is_rise, own_present, signal_of, track_of
from monitor.alerts.incidents.own_track import at_detection, own_track
from monitor.alerts.models import Incident, IncidentPath, Severity
from monitor.analysis.changes.present import LostPackets, summed
from monitor.analysis.segments.delay_segments import DelaySegment
from monitor.analysis.segments.loss_segments import LossSegment
from monitor.analysis.segments.segment import Moment, RateSegment
from monitor.analysis.segments.stretches import CLEAN
from monitor.mesh.document.alert_rules import RuleSettings
from monitor.present import words
from monitor.present.conditions import UNKNOWN, Condition
from monitor.present.models import copy_of
from monitor.present.read import PresentPath
from monitor.present.track import LOW, AnySegment, Signal, Track

# A loss this long raises the severity by its mean, a shorter loss by its interval: few packets vary more.
SEVERE_S = 300.0

Settings = Mapping[str, Mapping[int, RuleSettings]]


def set_shares(incident: Incident, shares: Sequence[Share]) -> None:
    """Store how many other paths are bad now; no query if unchanged."""
    stored = shares_as_json(shares)
    if stored != incident.shares:
        Incident.objects.filter(pk=incident.pk, closed_at=None, shares=incident.shares).update(shares=stored)


def update_levels(
    lasting: Sequence[Incident], present: Mapping[int, PresentPath], snapshot: Snapshot, settings: Settings
) -> None:
    """Store tracks of all lasting findings, and raise the severity of incidents that have worsened."""
    changed = []
    for row in (row for incident in lasting for row in incident.paths.all() if not row.is_over):
        track = _track(row, present.get(row.path_id), snapshot)
        stored = row.level if track is None else copy_of(track)
        if stored != row.level:
            row.level = stored
            changed.append(row)
    IncidentPath.objects.bulk_update(changed, ["level"])
    for incident in lasting:
        _raise_severity(incident, own_present(incident, present), settings, snapshot)


def end_before(lasting: Sequence[Incident], moved: Collection[Key], present: Mapping[int, PresentPath]) -> None:
    """Store the earlier track of findings that move: the newest trouble is the other incident's."""
    changed = []
    for row in (row for incident in lasting for row in incident.paths.all() if not row.is_over):
        track = track_of(row, present.get(row.path_id))
        before = None if track is None else track.before
        if (row.path_id, row.rule) in moved and before is not None:
            row.level = copy_of(before)
            changed.append(row)
    IncidentPath.objects.bulk_update(changed, ["level"])


def _track(row: IncidentPath, path: PresentPath | None, snapshot: Snapshot) -> Track | None:
    """The finding's present track; None if it is unknown or has no figure."""
    if signal_of(row) > Signal.RTT:
        return _of_round_trips(row, path) if DIRECTION in row.figures else _of_tests(row, snapshot)
    track = track_of(row, path)
    if track is None or path is None or track.now is None:
        return None
    pinged = path.track(Signal.LOSS)
    return track if pinged is None or pinged.condition not in UNKNOWN else replace(track, condition=pinged.condition)


def _of_round_trips(row: IncidentPath, path: PresentPath | None) -> Track | None:
    # The RTT track, if it shows STAMP's rise; pings may differ in route.
    track = None if path is None or not is_rise(row) else path.track(Signal.RTT)
    track = None if track is None else track.without_ended(row.since.timestamp())
    return track if track is not None and track.trouble else None


def _of_tests(row: IncidentPath, snapshot: Snapshot) -> Track | None:
    figures: Mapping[str, Any] = row.figures
    signal, fired = signal_of(row), at_detection(figures)
    if signal is Signal.RESPONSE:
        now, before = newest_latency_ms(snapshot.responses, row.path_id, figures), "before_ms"
    elif rule_of(row.rule).trouble.needs_tests and "after_bps" in figures and row.path_id in snapshot.test_rows:
        newest_bps = float(snapshot.tests_bps[snapshot.test_rows[row.path_id], -1])
        now, before = None if np.isnan(newest_bps) else newest_bps, "before_bps"
    else:
        return None
    if now is None or fired is None:
        return None
    stored, now_s, begun_s = own_track(row), snapshot.now.timestamp(), row.since.timestamp()
    is_back = before in figures and abs(now - float(figures[before])) < abs(now - fired)
    peaks = [fired if stored is None or stored.peak is None else stored.peak, *([] if is_back else [now])]
    worst = (min if signal is Signal.RATE else max)(peaks)
    was_back_s = stored.end.at_s if stored is not None and stored.end is not None else now_s
    segments = [_segment(signal, LOW, begun_s, worst if is_back else now, worst)]
    segments += [_segment(signal, CLEAN, was_back_s, now, now)] if is_back else []
    condition = Condition.NORMAL if is_back else Condition.BAD
    return Track(row.path_id, signal, "", 0, condition, now_s, tuple(segments))


def _segment(signal: Signal, state: int, since_s: float, now: float, worst: float) -> AnySegment:
    since = Moment(since_s, since_s, since_s)
    if signal is Signal.RATE:
        return RateSegment(state, since, now, worst)
    return DelaySegment(state, since, now, now, now, worst)


def _raise_severity(incident: Incident, own: Sequence[PresentPath], settings: Settings, snapshot: Snapshot) -> None:
    """Raise the severity to the worst present damage; it never falls."""
    worst, of = incident.severity, None
    together = _pooled(own)
    for row in gravest_first(incident.paths.all()):
        track, rule = own_track(row), settings.get(row.rule, {}).get(row.path_id)
        if row.is_over or track is None or rule is None or track.is_over:
            continue
        if isinstance(track.now, LossSegment):
            of_path = None if track.level is None else track.now.lost
            for counts in (together, of_path):
                ratio = None if counts is None else _least_ratio(counts, track)
                severity = severity_of(rule, ratio)
                if counts is not None and Severity(severity).rank > Severity(worst).rank:
                    worst, of = severity, f"{row.path}: loss {words.lost_text(counts)}"
        else:
            severity = _by_tests(row, track, rule, snapshot)
            if Severity(severity).rank > Severity(worst).rank:
                worst, of = severity, f"{row.path}: {rule_of(row.rule).words} {words.peak_text(track)}"
    if of is None:
        return
    with transaction.atomic():
        raised = Incident.objects.filter(pk=incident.pk, closed_at__isnull=True, severity=incident.severity)
        if raised.update(severity=worst, has_grown=incident.told_at is not None):
            add_severity(incident, worst, of, snapshot.now)
            incident.severity = worst


def _pooled(own: Sequence[PresentPath]) -> LostPackets | None:
    tracks = [path.track(Signal.LOSS) for path in own if path.condition.is_trouble]
    losses = [track.now.lost for track in tracks if track is not None and isinstance(track.now, LossSegment)]
    losses = [lost for lost in losses if lost.sent]
    return summed(losses) if len(losses) > 1 else None


def _least_ratio(lost: LostPackets, track: Track) -> float:
    """The lower bound of a loss, or its mean once it has lasted SEVERE_S."""
    lasted_s = 0.0 if track.level is None or track.now is None else track.newest_s - track.now.since.at_s
    return lost.ratio if lasted_s >= SEVERE_S else lost.interval[0]


def _by_tests(row: IncidentPath, track: Track, rule: RuleSettings, snapshot: Snapshot) -> str:
    if track.signal is Signal.RATE and row.figures.get("before_bps"):
        newest_bps = snapshot.tests_bps[snapshot.test_rows[row.path_id], -CRITICAL_TESTS:]
        return severity_of(rule, None, float(newest_bps.max()) / float(row.figures["before_bps"]))  # NaN is not below
    return rule.severity
