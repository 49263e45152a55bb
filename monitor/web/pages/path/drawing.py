"""The charts of the path page: specs, first drawings as SVG, sentences, and the beginning of their time axis.

In: the results of the page's queries. Out: `PathCharts` for the template.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from django.utils.safestring import SafeString

from monitor.analysis import figures
from monitor.archive.queries.for_reports import data_since
from monitor.archive.queries.paths import PathSummary, Series, raw_bursts
from monitor.archive.queries.throughput.series import PathThroughput, ThroughputPoint, throughput_series
from monitor.mesh.models import Path
from monitor.web.charts.marks import Absence, LabelledSpan, Spec, TimeAxis, change_style
from monitor.web.charts.sentences import smoke_sentence, throughput_sentence
from monitor.web.charts.series import absences, throughput_chart
from monitor.web.charts.smoke import cut_off_ms, loss_step, smoke_chart
from monitor.web.charts.svg import smoke_svg, throughput_svg

LEAST_AXIS = timedelta(minutes=5)
"""A shorter time axis would have no room for the first results."""


@dataclass(frozen=True, slots=True)
class PathChart:
    """A chart: its interactive form, its first drawing, and its sentence for those who do not see it."""

    spec: Spec
    drawing: SafeString
    sentence: str


@dataclass(frozen=True, slots=True)
class PathCharts:
    """The charts of the first view. `cut_off` is the largest RTT, if it lies above the axis; `begins_at` is the first
    data of the path, if the period begins before; `keys` are the styles in the smoke chart, for its legend."""

    smoke: PathChart
    throughput: PathChart
    cut_off: str | None
    begins_at: datetime | None
    keys: frozenset[str]


def path_charts(
    path: Path,
    window: TimeAxis,
    summary: PathSummary | None,
    series: Series,
    hours: Series,
    throughput: PathThroughput | None,
    tests: Sequence[ThroughputPoint],
    own_tests: Sequence[datetime],
    begins_at: datetime | None,
) -> PathCharts:
    """Draw both charts."""
    name = f"{path.source.site.name} to {path.destination.site.name}"
    smoke = smoke_chart(series, tests, window, own_tests)
    rates = throughput_chart(hours, tests, window)
    largest_ms = cut_off_ms(series)
    absent = absences(series, window, own_tests)
    return PathCharts(
        PathChart(smoke, smoke_svg(smoke), smoke_sentence(name, window, summary, series, absent)),
        PathChart(rates, throughput_svg(rates), throughput_sentence(name, window, throughput, tests)),
        None if largest_ms is None else figures.milliseconds(largest_ms),
        begins_at,
        smoke_keys(series, tests, absent, window),
    )


def smoke_keys(
    series: Series,
    tests: Sequence[ThroughputPoint],
    absent: Mapping[Absence, Sequence[LabelledSpan]],
    window: TimeAxis,
) -> frozenset[str]:
    """The styles of the marks that a smoke chart has."""
    measured = [point for point in series.points if point.rtt_median_ms is not None]
    keys = {f"loss-step-{loss_step(point.sent - point.received, point.sent)}" for point in measured}
    keys |= {kind.style for kind, spans in absent.items() if spans}
    keys |= {"measured" if test.throughput_bps is not None else "failed" for test in tests}
    keys |= {change_style(change.kind) for change in window.changes}
    return frozenset(keys | ({"incident-span"} if window.incidents else set()))


def axis_since(
    path_id: int, since: datetime, until: datetime, series: Series, tests: Sequence[ThroughputPoint]
) -> datetime:
    """The beginning of the time axis: that of the period, or the first data of the path if the period begins before."""
    begun = [point.at for point in series.points[:1]] + [test.at for test in tests[:1]]
    first = min(*begun, until - LEAST_AXIS) if begun else since
    if first <= since:
        return since
    stored = data_since([path_id])
    if stored is None or stored >= since:
        return first
    if stored < since.astimezone(UTC).replace(minute=0, second=0, microsecond=0):
        return since
    # They begin in the hour in which the period begins: before it, or in it.
    has_earlier = raw_bursts(path_id, stored, since) or throughput_series(path_id, stored, since)
    return since if has_earlier else first
