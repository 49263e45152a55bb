"""Find an earlier incident that may be why a lab fault opens none: of the same symptom, not back to normal."""

from __future__ import annotations

from collections.abc import Collection
from enum import StrEnum

from monitor.alerts.detect.rules.catalogue import rule_of
from monitor.alerts.detect.rules.finding import Trouble, followed_figure
from monitor.alerts.detect.troubles import LOSS_EFFECTS
from monitor.alerts.incidents.own_track import is_normal_again
from monitor.alerts.incidents.queries import lasting_between_sites
from monitor.alerts.models import IncidentPath
from probes.lab.control import PathStatus


class FaultSymptom(StrEnum):
    LOSS = "loss"
    DELAY = "delay"
    RATE = "rate"


OF_A_ROUTE = frozenset({FaultSymptom.LOSS, FaultSymptom.DELAY})


def symptoms_of(path: PathStatus) -> frozenset[FaultSymptom]:
    if path.original is None:
        return frozenset(FaultSymptom)
    changed = {
        FaultSymptom.LOSS: path.settings.loss_ratio != path.original.loss_ratio,
        FaultSymptom.DELAY: path.settings.delay_ms != path.original.delay_ms,
        FaultSymptom.RATE: path.settings.rate_mbps != path.original.rate_mbps,
    }
    return frozenset(symptom for symptom, is_changed in changed.items() if is_changed) or frozenset(FaultSymptom)


def earlier_incident(paths: Collection[tuple[str, str]], symptoms: Collection[FaultSymptom]) -> int | None:
    """Id of the newest open incident of these symptoms that continues between these sites."""
    rows = (row for path in paths for row in lasting_between_sites(*path))
    going_on = (row.incident_id for row in rows if _symptom(row) in symptoms and not is_normal_again(row))
    return next(going_on, None)


def _symptom(row: IncidentPath) -> FaultSymptom | None:
    rule = rule_of(row.rule)
    if rule.effect in LOSS_EFFECTS:
        return FaultSymptom.LOSS
    if rule.trouble is Trouble.THROUGHPUT:
        return FaultSymptom.RATE
    return FaultSymptom.DELAY if followed_figure(row.figures) is not None else None
