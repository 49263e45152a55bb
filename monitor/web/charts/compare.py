"""Charts of several paths on a time axis, as Vega-Lite specs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cache
from typing import Any

import altair as alt

from monitor.archive.queries.paths import Series, SeriesPoint
from monitor.archive.queries.throughput.series import ThroughputPoint
from monitor.web.charts.layout import (
    AXIS_PX,
    HEIGHT_PX,
    LEAST_LOSS_SHOWN,
    LOSS_TICKS,
    background_layer,
    filled,
    layout,
    when,
)
from monitor.web.charts.marks import Row, Spec, TimeAxis
from monitor.web.charts.series import loss_text, measured_rows, rounded, step_rows

MOST_PATHS = 6
SHAPES = ("circle", "square", "triangle-up", "diamond", "cross", "triangle-down")


class ComparedMetric(StrEnum):
    RTT = "rtt"
    RTT_MIN = "min-rtt"
    RTT_P95 = "p95-rtt"
    LOSS = "loss"
    ESTIMATE = "estimate"
    THROUGHPUT = "throughput"

    @property
    def label(self) -> str:
        return _TITLES[self]


_TITLES = {
    ComparedMetric.RTT: "Median RTT",
    ComparedMetric.RTT_MIN: "Minimum RTT",
    ComparedMetric.RTT_P95: "95th percentile RTT",
    ComparedMetric.LOSS: "Loss",
    ComparedMetric.ESTIMATE: "Mathis (Reno) estimate",
    ComparedMetric.THROUGHPUT: "Measured throughput",
}
_FIELDS = {
    ComparedMetric.RTT: "rtt_median_ms",
    ComparedMetric.RTT_MIN: "rtt_min_ms",
    ComparedMetric.RTT_P95: "rtt_p95_ms",
    ComparedMetric.ESTIMATE: "estimate_bps",
}


@dataclass(frozen=True, slots=True)
class PathData:
    """A path's data: `pooled` has its loss in longer steps, `hours` its estimates."""

    series: Series
    pooled: Series
    hours: Series
    tests: Sequence[ThroughputPoint]


def compare_chart(metric: ComparedMetric, paths: Sequence[PathData], window: TimeAxis) -> Spec:
    """Raises `ValueError` for more than `MOST_PATHS` paths."""
    if len(paths) > MOST_PATHS:
        raise ValueError(f"{len(paths)} paths: {MOST_PATHS} at most can be told apart")
    rows = [_rows(metric, path) for path in paths]
    rows += [[]] * (MOST_PATHS - len(rows))
    return filled(_layout(metric), window, {f"path-{place}": path_rows for place, path_rows in enumerate(rows)})


def _rows(metric: ComparedMetric, path: PathData) -> list[Row]:
    match metric:
        case ComparedMetric.LOSS:
            return step_rows(path.pooled, _loss_row)
        case ComparedMetric.THROUGHPUT:
            return measured_rows(path.tests)
        case ComparedMetric.ESTIMATE:
            return step_rows(path.hours, lambda point: _value_row(metric, point))
        case _:
            return step_rows(path.series, lambda point: _value_row(metric, point))


def _loss_row(point: SeriesPoint) -> Row | None:
    if point.sent == 0:
        return None
    return {"value": (point.sent - point.received) / point.sent, "text": loss_text(point)}


def _value_row(metric: ComparedMetric, point: SeriesPoint) -> Row | None:
    value = rounded(getattr(point, _FIELDS[metric]))
    if value is None:
        return None
    floor = "lower bound, no loss" if metric is ComparedMetric.ESTIMATE and point.estimate_is_floor else ""
    return {"value": value, "text": floor}


@cache
def _layout(metric: ComparedMetric) -> Spec:
    y = _axis(metric)
    layers = background_layer()
    if metric is ComparedMetric.LOSS:
        reach = alt.Chart(alt.NamedData(name="path-0")).mark_rule(opacity=0)
        layers.append(reach.encode(y=alt.datum(LEAST_LOSS_SHOWN)))
    for place in range(MOST_PATHS):
        rows = alt.Chart(alt.NamedData(name=f"path-{place}"))
        style = f"path-{place}"
        tip = [when(), _tooltip(metric), alt.Tooltip("text:N", title="note")]
        if metric is ComparedMetric.THROUGHPUT:
            mark = rows.mark_point(style=style, shape=SHAPES[place], filled=True, size=55, opacity=1)
            layers.append(mark.encode(x="t:T", y=y, tooltip=[when("t", "at"), _tooltip(metric)]))
            continue
        layers.append(rows.mark_line(style=style, interpolate="step-after").encode(x="t:T", y=y, detail="run:N"))
        reached = rows.transform_filter("isValid(datum.t2)").mark_rule(opacity=0, strokeWidth=8)
        layers.append(reached.encode(x="t:T", x2="t2", y="value:Q", tooltip=tip))
    return layout(layers, HEIGHT_PX)


def _axis(metric: ComparedMetric) -> alt.Y:
    shape: dict[str, Any] = {"minExtent": AXIS_PX, "labelOverlap": True}
    if metric is ComparedMetric.LOSS:
        scale = alt.Scale(type="sqrt", domainMin=0, nice=True)
        return alt.Y("value:Q", scale=scale, axis=alt.Axis(title="loss", format=".2~%", values=LOSS_TICKS, **shape))
    if metric in (ComparedMetric.ESTIMATE, ComparedMetric.THROUGHPUT):
        scale = alt.Scale(type="log", nice=True)
        return alt.Y("value:Q", scale=scale, axis=alt.Axis(title="bit/s", format="~s", tickCount=4, **shape))
    return alt.Y("value:Q", scale=alt.Scale(zero=False), axis=alt.Axis(title="RTT, ms", tickCount=5, **shape))


def _tooltip(metric: ComparedMetric) -> alt.Tooltip:
    formats = {ComparedMetric.LOSS: ".3~%", ComparedMetric.ESTIMATE: ".4~s", ComparedMetric.THROUGHPUT: ".4~s"}
    units = {ComparedMetric.LOSS: "", ComparedMetric.ESTIMATE: ", bit/s", ComparedMetric.THROUGHPUT: ", bit/s"}
    title = metric.label + units.get(metric, ", ms")
    return alt.Tooltip("value:Q", title=title, format=formats.get(metric, ".4~g"))
