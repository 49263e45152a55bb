"""Request-response runs of a path, and their charts."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime

from monitor.analysis import figures
from monitor.archive.kinds.kind import Point
from monitor.archive.queries.kind_series import newest_of_kind
from monitor.archive.queries.throughput.request_response import response_intervals
from monitor.web.charts.marks import Spec, TimeAxis
from monitor.web.pages.path.other_tests.response_charts import latency_chart, rate_chart

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
