"""The limits by which the tracks of paths are decided: of the rules, and of the findings that keep incidents open.

In: the settings and the snapshot of an evaluation, the lasting incidents, the paths in maintenance. Out: `TrackLimits`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from typing import cast

import numpy as np

from monitor.alerts.detect.rules.by_direction import DIRECTION
from monitor.alerts.detect.rules.catalogue import rule_of
from monitor.alerts.detect.rules.counts import LOSS_REGRESSION
from monitor.alerts.detect.rules.finding import Effect, Trouble
from monitor.alerts.detect.rules.loss import LossRule, Threshold
from monitor.alerts.detect.rules.round_trips import RTT, RoundTripRule
from monitor.alerts.detect.snapshot import Snapshot
from monitor.alerts.incidents.finding_level import is_normal_again
from monitor.alerts.models import Incident, IncidentPath
from monitor.mesh.document.alert_rules import RuleSettings
from monitor.present.follow import TrackLimits
from monitor.present.followed_delay import Medians, RttLimit, medians_of
from monitor.present.track import Condition, Signal

Settings = Mapping[str, Mapping[int, RuleSettings]]


def limits_of(
    settings: Settings, lasting: Iterable[Incident], snapshot: Snapshot, in_maintenance: Collection[int]
) -> TrackLimits:
    """The lowest limit of each path. The end of a regression is below half of its rise, the threshold or not."""
    loss = {path_id: cast("LossRule", rule).above_ratio for path_id, rule in settings[Threshold.name].items()}
    for row in (row for incident in lasting for row in incident.paths.all()):
        end = None if row.is_over else _end_ratio(row)
        if end is not None:
            loss[row.path_id] = min(end, loss.get(row.path_id, np.inf))
    rows = [row for incident in lasting for row in incident.paths.all() if not row.is_over]
    lossy = {row.path_id for row in rows if _signal(row) is Signal.LOSS}
    return TrackLimits(loss, _usual_losses(snapshot), in_maintenance, lossy, _rtt_limits(settings, rows), _found(rows))


def medians_of_snapshot(snapshot: Snapshot) -> Medians:
    """The median RTTs of the paths with new bursts."""
    bursts = snapshot.trips.bursts
    return medians_of(snapshot.trips.spans.items(), bursts.at_s, bursts.values_ms["median"])


def _rtt_limits(settings: Settings, rows: Iterable[IncidentPath]) -> dict[int, RttLimit]:
    """The limits of the rule on sudden rises; those of findings on the median or the minimum are half way back."""
    limits = {
        path_id: RttLimit(cast("RoundTripRule", rule).least_rise_ms, cast("RoundTripRule", rule).least_rise_ratio)
        for path_id, rule in settings[RTT.name].items()
    }
    for row in rows:
        if _signal(row) is Signal.RTT:
            before_ms, after_ms = float(row.figures["before_ms"]), float(row.figures["after_ms"])
            of_path = limits.get(row.path_id, RttLimit(np.inf, np.inf))
            limits[row.path_id] = replace(of_path, usual_ms=before_ms, above_ms=(before_ms + after_ms) / 2.0)
    return limits


def _found(rows: Iterable[IncidentPath]) -> dict[tuple[int, Signal], Condition]:
    """The conditions by findings of signals that are not followed: bad until they are normal again."""
    return {
        (row.path_id, signal): Condition.BAD
        for row in rows
        if not row.incident.is_pending
        if (signal := _signal(row)) not in (Signal.LOSS, Signal.RTT) and not is_normal_again(row)
    }


def _signal(row: IncidentPath) -> Signal:
    """The signal that a finding is about."""
    rule = rule_of(row.rule)
    if rule.effect in (Effect.LOSS, Effect.UNREACHABLE):
        return Signal.LOSS
    if (
        row.figures.get("figure") in ("median", "minimum")
        and DIRECTION not in row.figures
        and "before_ms" in row.figures
    ):
        return Signal.RTT
    return {Trouble.THROUGHPUT: Signal.RATE, Trouble.RESPONSES: Signal.RESPONSE}.get(rule.trouble, Signal.OTHER)


def _end_ratio(row: IncidentPath) -> float | None:
    """The loss below which a finding is over; None of another finding."""
    if row.rule == LOSS_REGRESSION.name:
        return (float(row.figures["base_ratio"]) + float(row.figures["ratio"])) / 2.0
    return float(row.figures["threshold_ratio"]) if row.rule == Threshold.name else None


def _usual_losses(snapshot: Snapshot) -> dict[int, float]:
    sent, received = (snapshot.baseline.get(name, np.zeros(len(snapshot.paths))) for name in ("sent", "received"))
    usual = np.where(sent > 0.0, 1.0 - received / np.maximum(sent, 1.0), 0.0)
    return dict(zip(snapshot.paths, usual.tolist(), strict=True))
