"""The present and the worst figure of each finding while its incident lasts, and the severity that follows from them.

In: the lasting incidents, and the snapshot of an evaluation. Out: `IncidentPath.level`, and a higher severity of the
incident where the damage has grown. The figures with which a finding fired stay as they were: its rule compares with
them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any

import msgspec
import numpy as np
from django.db import transaction

from monitor.alerts.detect.damage import CRITICAL_TESTS, loss_ratio, severity_of
from monitor.alerts.detect.rules.catalogue import rule_of
from monitor.alerts.detect.rules.finding import Effect
from monitor.alerts.detect.snapshot import RECENT_STEPS, Snapshot
from monitor.alerts.models import HistoryEvent, Incident, IncidentPath, IncidentTurn, Severity
from monitor.analysis import figures as shown
from monitor.mesh.document.alert_rules import RuleSettings

LONGEST_NOW_STEPS = 2
"""Steps of the recent counts, five minutes each, that the present loss is of; fewer if the finding is younger."""
LEAST_CYCLES = 3
NOW_BURSTS = 5
"""The newest bursts whose median is the present RTT."""

Settings = Mapping[str, Mapping[int, RuleSettings]]


class LevelUnit(StrEnum):
    """Units of levels."""

    LOSS_RATIO = "loss_ratio"
    MILLISECONDS = "ms"
    BITS_PER_SECOND = "bps"


@dataclass(frozen=True, slots=True)
class FindingLevel:
    """A figure now and at its worst; `now` is None without measurements. `sent` packets are those of the loss now."""

    unit: LevelUnit
    now: float | None
    peak: float
    sent: int | None = None

    @property
    def now_text(self) -> str:
        if self.now is None:
            return shown.NO_DATA
        if self.unit is LevelUnit.LOSS_RATIO and not self.now and self.sent:
            return shown.loss(0, self.sent)
        return self._text(self.now)

    @property
    def peak_text(self) -> str:
        return self._text(self.peak)

    def _text(self, value: float) -> str:
        if self.unit is LevelUnit.LOSS_RATIO:
            return shown.percent(value)
        return shown.milliseconds(value) if self.unit is LevelUnit.MILLISECONDS else shown.bit_rate(value)


def level_of(row: IncidentPath) -> FindingLevel | None:
    """The stored level of a finding."""
    return None if row.level is None else msgspec.convert(row.level, FindingLevel)


def update_levels(lasting: Sequence[Incident], snapshot: Snapshot, settings: Settings) -> None:
    """Store the present levels of all findings that last, and raise the severity of incidents that have worsened."""
    changed = []
    for incident in lasting:
        for row in incident.paths.all():
            level = None if row.is_over else measure(row, snapshot)
            if level is not None and level != level_of(row):
                row.level = msgspec.to_builtins(level)
                changed.append(row)
    IncidentPath.objects.bulk_update(changed, ["level"])
    for incident in lasting:
        _raise_severity(incident, settings, snapshot)


def measure(row: IncidentPath, snapshot: Snapshot) -> FindingLevel | None:
    """The level of a finding in this snapshot, its peak included; None if its rule has no figure that changes."""
    newest = _newest(row, snapshot)
    if newest is None:
        return None
    before = level_of(row)
    peak = at_detection(row.figures) if before is None else before.peak
    if newest.now is None:
        return None if before is None else replace(newest, peak=before.peak)
    if peak is None:
        return newest
    worst = min if newest.unit is LevelUnit.BITS_PER_SECOND else max
    return replace(newest, peak=worst(newest.now, peak))


def at_detection(figures: Mapping[str, Any]) -> float | None:
    """The figure with which a finding fired, in the unit of its level."""
    lost = loss_ratio(figures)
    if lost is not None:
        return lost
    return next((float(figures[name]) for name in ("ratio", "after_ms", "after_bps") if name in figures), None)


def _newest(row: IncidentPath, snapshot: Snapshot) -> FindingLevel | None:
    figures: Mapping[str, Any] = row.figures
    rule = rule_of(row.rule)
    if rule.effect is Effect.LOSS and row.path_id in snapshot.rows:
        return _loss(row, snapshot)
    bursts = snapshot.trips.bursts_of(row.path_id) if "figure" in figures else None
    if bursts is not None and len(bursts.at_s):
        return _of(LevelUnit.MILLISECONDS, float(np.median(bursts.newest(NOW_BURSTS).values_ms[figures["figure"]])))
    if rule.trouble.needs_tests and "after_bps" in figures and row.path_id in snapshot.test_rows:
        newest_bps = float(snapshot.tests_bps[snapshot.test_rows[row.path_id], -1])
        return None if np.isnan(newest_bps) else _of(LevelUnit.BITS_PER_SECOND, newest_bps)
    return None


def _of(unit: LevelUnit, value: float) -> FindingLevel:
    return FindingLevel(unit, value, value)


def _loss(row: IncidentPath, snapshot: Snapshot) -> FindingLevel:
    """The loss of the newest minutes: not from before the finding, or the figure would have a healthy part."""
    age_steps = int((snapshot.now - row.added_at).total_seconds() // snapshot.step_s)
    cycles_steps = int(np.ceil(LEAST_CYCLES * snapshot.paths[row.path_id].every_s / snapshot.step_s))
    steps = min(max(cycles_steps, min(max(age_steps, 1), LONGEST_NOW_STEPS)), RECENT_STEPS)
    of_path = snapshot.rows[row.path_id]
    sent, received = (float(snapshot.recent[name][of_path, :steps].sum()) for name in ("sent", "received"))
    if not sent:
        return FindingLevel(LevelUnit.LOSS_RATIO, None, 0.0)
    ratio = (sent - received) / sent
    return FindingLevel(LevelUnit.LOSS_RATIO, ratio, ratio, round(sent))


def _raise_severity(incident: Incident, settings: Settings, snapshot: Snapshot) -> None:
    """Raise the severity to that of the worst damage of its findings. It does not fall while the incident lasts."""
    worst, of = incident.severity, None
    for row in incident.paths.all():
        level, rule = level_of(row), settings.get(row.rule, {}).get(row.path_id)
        if row.is_over or level is None or rule is None:
            continue
        severity = _severity(row, level, rule, snapshot)
        if Severity(severity).rank > Severity(worst).rank:
            worst, of = severity, f"{row.path}: {rule_of(row.rule).words} {level.peak_text}"
    if of is None:
        return
    with transaction.atomic():
        raised = Incident.objects.filter(pk=incident.pk, closed_at__isnull=True, severity=incident.severity)
        if raised.update(severity=worst, has_grown=incident.told_at is not None):
            note = f"{incident.severity} to {worst}: {of}"
            IncidentTurn.objects.create(incident_id=incident.pk, at=snapshot.now, turn=HistoryEvent.WORSENED, note=note)
            incident.severity = worst


def _severity(row: IncidentPath, level: FindingLevel, rule: RuleSettings, snapshot: Snapshot) -> str:
    if level.unit is LevelUnit.LOSS_RATIO:
        return severity_of(rule, level.peak)
    if level.unit is LevelUnit.BITS_PER_SECOND and row.figures.get("before_bps"):
        newest_bps = snapshot.tests_bps[snapshot.test_rows[row.path_id], -CRITICAL_TESTS:]
        return severity_of(rule, None, float(newest_bps.max()) / float(row.figures["before_bps"]))  # NaN is not below
    return rule.severity
