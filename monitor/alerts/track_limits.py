"""The limits by which the tracks of paths are decided: of the rules, and of the findings that keep incidents open.

In: the settings and the snapshot of an evaluation, the lasting incidents, the paths in maintenance. Out: `TrackLimits`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import cast

import numpy as np

from monitor.alerts.detect.rules.counts import LOSS_REGRESSION
from monitor.alerts.detect.rules.loss import LossRule, Threshold
from monitor.alerts.detect.snapshot import Snapshot
from monitor.alerts.models import Incident, IncidentPath
from monitor.mesh.document.alert_rules import RuleSettings
from monitor.present.follow import TrackLimits

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
    return TrackLimits(loss, _usual_losses(snapshot), in_maintenance)


def _end_ratio(row: IncidentPath) -> float | None:
    """The loss below which a finding is over; None of another finding."""
    if row.rule == LOSS_REGRESSION.name:
        return (float(row.figures["base_ratio"]) + float(row.figures["ratio"])) / 2.0
    return float(row.figures["threshold_ratio"]) if row.rule == Threshold.name else None


def _usual_losses(snapshot: Snapshot) -> dict[int, float]:
    sent, received = (snapshot.baseline.get(name, np.zeros(len(snapshot.paths))) for name in ("sent", "received"))
    usual = np.where(sent > 0.0, 1.0 - received / np.maximum(sent, 1.0), 0.0)
    return dict(zip(snapshot.paths, usual.tolist(), strict=True))
