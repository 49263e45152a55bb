"""Request-response runs of a path, and their charts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import cache

import altair as alt

from monitor.analysis import figures
from monitor.archive.kinds.kind import Point
from monitor.archive.queries.kind_series import newest_of_kind
from monitor.archive.queries.throughput.request_response import ResponseInterval, response_intervals
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


LATEST_RUNS = 12


@dataclass(frozen=True, slots=True)
class ResponsesView:
    """Newest run first; headline and charts are of its test."""

    runs: tuple[Point, ...]
    headline: str
    latency: Spec | None
    rate: Spec | None

    @property
    def measured_at(self) -> datetime | None:
        """Return None without any latency."""
        measured = newest_measured(self.runs)
        return None if measured is None else measured.at


def load_responses(path_id: int, since: datetime, until: datetime, window: TimeAxis) -> ResponsesView | None:
    """Return None without runs."""
    runs = tuple(newest_of_kind("request-response", path_id, since, until, LATEST_RUNS))
    if not runs:
        return None
    blocks = runs[0].test, runs[0].request_bytes, runs[0].response_bytes
    intervals = [
        interval
        for interval in response_intervals(path_id, since, until)
        if (interval.test, interval.request_bytes, interval.response_bytes) == blocks
    ]
    drawn = [interval for interval in intervals if interval.median_ms is not None]
    if drawn:
        # The page's axis begins with the pings: earlier runs would all stand at its edge.
        window = replace(window, since=min(window.since, drawn[0].at))
    return ResponsesView(
        runs=runs,
        headline=headline(runs),
        latency=latency_chart(drawn, window) if drawn else None,
        rate=rate_chart(drawn, window) if drawn else None,
    )


def headline(runs: tuple[Point, ...]) -> str:
    measured = newest_measured(runs)
    if measured is None:
        return "No transaction completed in the latest runs"
    return (
        f"{figures.count(measured.response_bytes)} bytes answered in {figures.milliseconds(measured.median_ms)} "
        f"(95th percentile {figures.milliseconds(measured.p95_ms)}), one block at a time"
    )


def newest_measured(runs: tuple[Point, ...]) -> Point | None:
    return next((run for run in runs if run.median_ms is not None), None)
