"""Charts of the path page: SVG, sentences, interactive specs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from django.utils.safestring import SafeString

from monitor.analysis import figures
from monitor.archive.queries.paths import Series
from monitor.archive.queries.throughput.series import PathThroughput, ThroughputPoint
from monitor.mesh.models import Path
from monitor.web.charts.marks import Absence, LabelledSpan, Spec, TimeAxis, change_style
from monitor.web.charts.sentences import smoke_sentence, throughput_sentence
from monitor.web.charts.series import absences, throughput_chart
from monitor.web.charts.smoke import cut_off_ms, loss_step, smoke_chart
from monitor.web.charts.svg import smoke_svg, throughput_svg
from monitor.web.pages.path.chart_data import ChartData


@dataclass(frozen=True, slots=True)
class PathChart:
    drawing: SafeString
    sentence: str


@dataclass(frozen=True, slots=True)
class PathCharts:
    smoke: PathChart
    throughput: PathChart
    cut_off: str | None  # largest RTT, if above the axis
    begins_at: datetime | None  # first data of the path, if the period begins before
    keys: frozenset[str]  # styles in the smoke chart, for its legend


def path_charts(
    path: Path, data: ChartData, throughput: PathThroughput | None, begins_at: datetime | None
) -> PathCharts:
    name = f"{path.source.site.name} to {path.destination.site.name}"
    window, series, tests = data.window, data.series, data.tests
    smoke, rates = chart_specs(data).values()
    largest_ms = cut_off_ms(series)
    absent = absences(series, window, data.own_tests)
    return PathCharts(
        PathChart(smoke_svg(smoke), smoke_sentence(name, window, data.summary, series, absent)),
        PathChart(throughput_svg(rates), throughput_sentence(name, window, throughput, tests)),
        None if largest_ms is None else figures.milliseconds(largest_ms),
        begins_at,
        smoke_keys(series, tests, absent, window),
    )


def chart_specs(data: ChartData) -> dict[str, Spec]:
    """Specs with rows, fetched apart: they are many times the page's bytes."""
    return {
        "rtt-spec": smoke_chart(data.series, data.tests, data.window, data.own_tests),
        "throughput-spec": throughput_chart(data.hours, data.tests, data.window),
    }


def smoke_keys(
    series: Series,
    tests: Sequence[ThroughputPoint],
    absent: Mapping[Absence, Sequence[LabelledSpan]],
    window: TimeAxis,
) -> frozenset[str]:
    measured = [point for point in series.points if point.rtt_median_ms is not None]
    keys = {f"loss-step-{loss_step(point.sent - point.received, point.sent)}" for point in measured}
    keys |= {kind.style for kind, spans in absent.items() if spans}
    keys |= {"measured" if test.throughput_bps is not None else "failed" for test in tests}
    keys |= {change_style(change.kind) for change in window.changes}
    return frozenset(keys | ({"incident-span"} if window.incidents else set()))
