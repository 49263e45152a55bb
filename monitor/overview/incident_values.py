"""The figures of incidents as values of the grid's metrics: those of now and the worst while it lasts.

In: the findings of a path in its open incidents, or in the last that ended. Out: an `IncidentValue`, None where no
finding is about that metric.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from monitor.alerts.detect.damage import loss_ratio
from monitor.alerts.incidents.finding_level import FindingLevel, LevelUnit, level_of
from monitor.alerts.models import IncidentPath
from monitor.analysis.changes.present import LostPackets
from monitor.archive.queries.metrics import Metric

Figures = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class IncidentValue:
    """The metric now, None where the rules follow no level of it or have no newer measurement, and at its worst.

    `is_level`: measured since the detection, not at it. `window_s`: the time before the last evaluation that the metric
    now is of, from `since` on. `loss` are the packets of a loss now, of all sizes, and `worst_loss` those of the worst.
    """

    now: float | None
    peak: float
    is_level: bool = False
    window_s: float | None = None
    loss: LostPackets | None = None
    worst_loss: LostPackets | None = None
    since: datetime | None = None


@dataclass(frozen=True, slots=True)
class _MetricOfRule:
    """How a rule tells a metric: by the level that it follows, in this unit, until there is a level by its figures.
    `is_present` says whether the present level is one of the metric.

    `is_now` says whether those figures count as the present ones: they do not where they are of whole days.
    """

    of_figures: Callable[[Figures], float | None]
    unit: LevelUnit | None = None
    is_now: bool = True
    is_present: Callable[[FindingLevel], bool] = lambda _: True

    def value(self, finding: IncidentPath) -> IncidentValue | None:
        fired = self.of_figures(finding.figures)
        level = level_of(finding)
        if fired is None:
            return None
        if level is None or level.unit is not self.unit:
            return IncidentValue(fired if self.is_now else None, fired, loss=_packets(finding.figures))
        if self.is_present(level):
            return IncidentValue(level.now, level.peak, True, level.window_s, level.counts, level.worst, level.since)
        return IncidentValue(None, level.peak, worst_loss=level.worst)


def _packets(of: Figures) -> LostPackets | None:
    """The packets of the figures with which a rule fired; None where they count none."""
    sent, lost = of.get("sent"), of.get("lost")
    return None if not sent or lost is None else LostPackets(sent, lost, of.get("together", 1.0))


def _unreachable(_: Figures) -> float:
    return 1.0


def _is_total(level: FindingLevel) -> bool:
    """A loss of less says nothing of bursts without a reply."""
    return level.now is not None and level.now >= 1.0


def _figure(name: str) -> Callable[[Figures], float | None]:
    return lambda figures: figures.get(name)


def _rtt(figure: str) -> Callable[[Figures], float | None]:
    return lambda figures: figures.get("after_ms") if figures.get("figure") == figure else None


_OF_TESTS = _MetricOfRule(_figure("after_bps"), LevelUnit.BITS_PER_SECOND)
_OF_METRIC: dict[Metric, dict[str, _MetricOfRule]] = {
    Metric.LOSS: {
        "loss": _MetricOfRule(loss_ratio, LevelUnit.LOSS_RATIO),
        "loss_regression": _MetricOfRule(_figure("ratio"), LevelUnit.LOSS_RATIO),
        "shared_loss": _MetricOfRule(_figure("ratio"), LevelUnit.LOSS_RATIO),
        "unreachable": _MetricOfRule(_unreachable, LevelUnit.LOSS_RATIO),
    },
    Metric.UNREACHABILITY: {
        "unreachable": _MetricOfRule(_unreachable, LevelUnit.LOSS_RATIO, is_present=_is_total),
    },
    Metric.RTT_MEDIAN: {
        "rtt": _MetricOfRule(_rtt("median"), LevelUnit.MILLISECONDS),
        "rtt_drift": _MetricOfRule(_figure("after_ms"), is_now=False),
    },
    Metric.RTT_MIN: {"rtt": _MetricOfRule(_rtt("minimum"), LevelUnit.MILLISECONDS)},
    Metric.THROUGHPUT: {"throughput": _OF_TESTS, "throughput_drop": _OF_TESTS},
    Metric.ESTIMATE: {"estimate": _MetricOfRule(_figure("after_bps"), is_now=False)},
}
"""Of each metric, by the name of a rule. Jitter of the rules is not IPDV: it has none."""


def incident_value(metric: Metric, findings: Iterable[IncidentPath]) -> IncidentValue | None:
    """The worst values of the metric among these findings."""
    rules = _OF_METRIC.get(metric, {})
    told = [rules[finding.rule].value(finding) for finding in findings if finding.rule in rules]
    values = [value for value in told if value is not None]
    if not values:
        return None
    worst = min if metric.lower_is_worse else max
    present = [value for value in values if value.now is not None]
    is_level = all(value.is_level for value in present)
    now = worst((value.now for value in present if value.now is not None), default=None)
    windows_s = [value.window_s for value in present if value.now == now and value.window_s is not None]
    peak, window_s = worst(value.peak for value in values), min(windows_s, default=None)
    worst_loss = next((value.worst_loss for value in values if value.peak == peak and value.worst_loss), None)
    of_now = next((value for value in present if value.now == now and value.window_s == window_s), None)
    loss, since = (None, None) if of_now is None else (of_now.loss, of_now.since)
    return IncidentValue(now, peak, is_level, window_s, loss, worst_loss, since)
