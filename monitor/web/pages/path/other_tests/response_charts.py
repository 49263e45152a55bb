"""Charts of request-response runs, as Vega-Lite specs."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

import altair as alt

from monitor.archive.queries.throughput.request_response import ResponseInterval
from monitor.web.charts.layout import AXIS_PX, SMALL_HEIGHT_PX, background_layer, filled, layout, named, when
from monitor.web.charts.marks import Row, Spec, TimeAxis, change_rows, epoch_ms
from monitor.web.charts.series import rounded


def latency_chart(intervals: Sequence[ResponseInterval], window: TimeAxis) -> Spec:
    """Median, 95th percentile and maximum in ms."""
    return filled(_latency_layout(), window, {"runs": _rows(intervals), **change_rows(window)})


def rate_chart(intervals: Sequence[ResponseInterval], window: TimeAxis) -> Spec:
    return filled(_rate_layout(), window, {"runs": _rows(intervals), **change_rows(window)})


def _rows(intervals: Sequence[ResponseInterval]) -> list[Row]:
    return [
        {
            "t": epoch_ms(interval.at),
            "median": rounded(interval.median_ms),
            "p95": rounded(interval.p95_ms),
            "max": rounded(interval.maximum_ms),
            "rate": rounded(interval.transactions_per_s),
            "runs": interval.runs,
        }
        for interval in intervals
        if interval.median_ms is not None
    ]


def _tooltip() -> list[alt.Tooltip]:
    return [
        when(),
        alt.Tooltip("median:Q", title="median, ms", format=".4~g"),
        alt.Tooltip("p95:Q", title="95th percentile, ms", format=".4~g"),
        alt.Tooltip("max:Q", title="maximum, ms", format=".4~g"),
        alt.Tooltip("rate:Q", title="transactions/s", format=".4~g"),
        alt.Tooltip("runs:Q", title="runs"),
    ]


@cache
def _latency_layout() -> Spec:
    runs = named("runs")
    axis = alt.Axis(title="latency, ms", tickCount=5, minExtent=AXIS_PX)
    y = alt.Y("median:Q", axis=axis, scale=alt.Scale(zero=True))
    layers = [
        *background_layer(),
        runs.mark_rule(style="rtt-quartiles", size=3).encode(x="t:T", y=y, y2="p95"),
        runs.mark_circle(style="measured", size=28, opacity=1).encode(x="t:T", y="median:Q", tooltip=_tooltip()),
    ]
    return layout(layers, SMALL_HEIGHT_PX)


@cache
def _rate_layout() -> Spec:
    axis = alt.Axis(title="transactions/s", tickCount=4, minExtent=AXIS_PX)
    y = alt.Y("rate:Q", axis=axis, scale=alt.Scale(zero=True))
    points = named("runs").mark_circle(style="measured", size=28, opacity=1)
    return layout([*background_layer(), points.encode(x="t:T", y=y, tooltip=_tooltip())], SMALL_HEIGHT_PX)
