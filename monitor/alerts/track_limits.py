"""The limits by which the tracks of paths are decided: of the rules, and of the findings that keep incidents open."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import cast

import numpy as np

from monitor.alerts.detect.rules.counts import LOSS_REGRESSION
from monitor.alerts.detect.rules.finding import RuleFinding
from monitor.alerts.detect.rules.loss import LossRule, Threshold
from monitor.alerts.detect.rules.round_trips import RTT, RoundTripRule
from monitor.alerts.detect.snapshot import Snapshot
from monitor.alerts.incidents.own_present import signal_of, way_of
from monitor.alerts.incidents.own_track import is_normal_again
from monitor.alerts.models import Incident, IncidentPath
from monitor.alerts.slow_tests.slow_paths import slow_paths
from monitor.mesh.document.alert_rules import RuleSettings
from monitor.present.conditions import Condition, test_condition
from monitor.present.followed_delay import Medians, RttBound, medians_of
from monitor.present.loss_tracks import TrackLimits
from monitor.present.track import Signal

Settings = Mapping[str, Mapping[int, RuleSettings]]


def limits_of(
    settings: Settings,
    lasting: Sequence[Incident],
    snapshot: Snapshot,
    in_maintenance: Collection[int],
    firing: Sequence[RuleFinding] = (),
) -> TrackLimits:
    """The limits of all tracks; of a path's loss limits the lowest counts."""
    loss = {path_id: cast("LossRule", rule).above_ratio for path_id, rule in settings[Threshold.name].items()}
    for row in (row for incident in lasting for row in incident.paths.all()):
        end = None if row.is_over else _end_ratio(row)
        if end is not None:
            loss[row.path_id] = min(end, loss.get(row.path_id, np.inf))
    rows = [row for incident in lasting for row in incident.paths.all() if not row.is_over]
    lossy = {(row.path_id, way_of(row)) for row in rows if signal_of(row) is Signal.LOSS}
    found = _found(rows, firing, snapshot, settings)
    return TrackLimits(
        loss, _usual_losses(snapshot), in_maintenance, lossy, _rtt_limits(settings, [*rows, *firing]), found
    )


def medians_of_snapshot(snapshot: Snapshot) -> Medians:
    bursts = snapshot.trips.bursts
    return medians_of(snapshot.trips.spans.items(), bursts.at_s, bursts.values_ms["median"])


def _rtt_limits(settings: Settings, rows: Iterable[IncidentPath | RuleFinding]) -> dict[int, RttBound]:
    limits = {
        path_id: RttBound(cast("RoundTripRule", rule).least_rise_ms, cast("RoundTripRule", rule).least_rise_ratio)
        for path_id, rule in settings[RTT.name].items()
    }
    for row in rows:
        if signal_of(row) is Signal.RTT:
            rise_ms = float(row.figures["after_ms"]) - float(row.figures["before_ms"])
            limits[row.path_id] = RttBound(rise_ms / 2.0, is_found=True)
    return limits


def _found(
    rows: Iterable[IncidentPath], firing: Iterable[RuleFinding], snapshot: Snapshot, settings: Settings
) -> dict[tuple[int, Signal], Condition]:
    tested = {(path_id, Signal.RATE): condition for path_id, condition in _tested(snapshot).items()}
    tested |= {(path_id, Signal.RATE): Condition.SUSPECT for path_id in slow_paths(snapshot, settings)}
    signals = ((finding.path_id, signal_of(finding)) for finding in firing)
    found = {key: Condition.SUSPECT for key in signals if key[1] in (Signal.RATE, Signal.RESPONSE)}
    for row in rows:
        signal = signal_of(row)
        if signal > Signal.RTT:
            condition = Condition.SUSPECT if row.incident.is_pending else Condition.BAD
            condition = Condition.NORMAL if is_normal_again(row) else condition
            found[row.path_id, signal] = max(condition, found.get((row.path_id, signal), condition))
    return tested | found


def _tested(snapshot: Snapshot) -> dict[int, Condition]:
    now_s, conditions = snapshot.now.timestamp(), {}
    for path_id, path in snapshot.tested_paths.items():
        if path_id not in snapshot.rows:
            newest_s = float(snapshot.tested_at_s[snapshot.test_rows[path_id], -1])
            conditions[path_id] = test_condition(path.every_s, path.started_at.timestamp(), newest_s, now_s)
    return conditions


def _end_ratio(row: IncidentPath) -> float | None:
    if row.rule == LOSS_REGRESSION.name:
        return (float(row.figures["base_ratio"]) + float(row.figures["ratio"])) / 2.0
    return float(row.figures["threshold_ratio"]) if row.rule == Threshold.name else None


def _usual_losses(snapshot: Snapshot) -> dict[int, float]:
    sent, received = (snapshot.baseline.get(name, np.zeros(len(snapshot.paths))) for name in ("sent", "received"))
    usual = np.where(sent > 0.0, 1.0 - received / np.maximum(sent, 1.0), 0.0)
    return dict(zip(snapshot.paths, usual.tolist(), strict=True))
