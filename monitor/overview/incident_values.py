"""The figures by which the alert rules found incidents, as values of the grid's metrics.

In: the findings of a path in its open incidents. Out: the metric's value, None where no finding is about that metric.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from monitor.alerts.models import IncidentPath
from monitor.archive.queries.metrics import Metric

Figures = Mapping[str, Any]


def _lost(figures: Figures) -> float | None:
    return figures["lost"] / figures["sent"] if figures.get("sent") else None


def _unreachable(_: Figures) -> float:
    return 1.0


def _figure(name: str) -> Callable[[Figures], float | None]:
    return lambda figures: figures.get(name)


def _rtt(figure: str) -> Callable[[Figures], float | None]:
    return lambda figures: figures.get("after_ms") if figures.get("figure") == figure else None


_VALUES: dict[Metric, dict[str, Callable[[Figures], float | None]]] = {
    Metric.LOSS: {"loss": _lost, "loss_regression": _figure("ratio"), "unreachable": _unreachable},
    Metric.UNREACHABILITY: {"unreachable": _unreachable},
    Metric.RTT_MEDIAN: {"rtt": _rtt("median"), "rtt_drift": _figure("after_ms")},
    Metric.RTT_MIN: {"rtt": _rtt("minimum")},
    Metric.THROUGHPUT: {"throughput": _figure("after_bps")},
    Metric.ESTIMATE: {"estimate": _figure("after_bps")},
}
"""Of each metric, by the name of a rule, what its figures say. Jitter of the rules is not IPDV: it has none."""


def incident_value(metric: Metric, findings: Iterable[IncidentPath]) -> float | None:
    """The worst value of the metric among these findings."""
    rules = _VALUES.get(metric, {})
    values = [rules[finding.rule](finding.figures) for finding in findings if finding.rule in rules]
    present = [value for value in values if value is not None]
    return (min if metric.lower_is_worse else max)(present, default=None)
