"""Load the data of a path's charts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta

from monitor.alerts.evidence import words
from monitor.alerts.incidents.queries import incidents_of_path
from monitor.alerts.models import Incident
from monitor.archive.queries import recent
from monitor.archive.queries.for_reports import data_since
from monitor.archive.queries.paths import (
    PathSummary,
    Series,
    own_test_steps,
    path_series,
    path_summaries,
    raw_bursts,
    series_since,
)
from monitor.archive.queries.throughput.series import ThroughputPoint, throughput_series
from monitor.archive.statements import LONGEST_RAW
from monitor.overview.changes import PathChange, changes_of
from monitor.web.charts.marks import LabelledSpan, TimeAxis
from monitor.web.request.window import ShownPeriod

MORE_THAN_A_DAY = timedelta(days=1, hours=1)
# A shorter time axis would have no room for the first results.
LEAST_AXIS = timedelta(minutes=5)


@dataclass(frozen=True, slots=True)
class ChartData:
    packet_bytes: int
    summary: PathSummary | None
    series: Series
    hours: Series  # hourly intervals
    tests: list[ThroughputPoint]
    own_tests: list[datetime]  # intervals during throughput tests
    incidents: tuple[Incident, ...]
    changes: tuple[PathChange, ...]
    window: TimeAxis


def load_chart_data(path_id: int, packet_bytes: int, shown: ShownPeriod) -> ChartData:
    since, until = shown.since, shown.until
    series, own_tests = drawn_series(path_id, packet_bytes, since, until)
    hours = hours_of(series, since, until)
    summary = _summary(path_id, packet_bytes, since, until)
    if summary is None and shown.has_bursts:
        # Raw bursts are deleted long before their hours.
        summary = _only(path_summaries(since, until, packet_bytes=packet_bytes, path_ids=[path_id], exact=True))
        series = hours_within(hours, since)
    tests = throughput_series(path_id, since, until)
    incidents = incidents_of_path(path_id, since, until)
    changes = tuple(changes_of(path_id, packet_bytes, since, until, incidents))
    begin = axis_since(path_id, since, until, series, tests)
    return ChartData(
        packet_bytes=packet_bytes,
        summary=summary,
        series=series,
        hours=hours,
        tests=tests,
        own_tests=own_tests,
        incidents=tuple(incidents),
        changes=changes,
        window=TimeAxis(begin, until, _spans(incidents, until), changes),
    )


def _only(rows: Sequence[PathSummary]) -> PathSummary | None:
    return rows[0] if rows else None


def _summary(path_id: int, packet_bytes: int, since: datetime, until: datetime) -> PathSummary | None:
    if until - since <= LONGEST_RAW:
        return recent.summary(path_id, packet_bytes, since, until)
    since = series_since(since, until)
    return _only(path_summaries(since, until, packet_bytes=packet_bytes, path_ids=[path_id], exact=True))


def hours_of(series: Series, since: datetime, until: datetime) -> Series:
    """Hourly steps even of a short period: an estimate needs an hour's packets."""
    if until - since > LONGEST_RAW:
        return series
    series = path_series(series.path_id, series.packet_bytes, min(since, until - MORE_THAN_A_DAY), until)
    step = timedelta(seconds=series.step_s)
    return replace(series, points=tuple(point for point in series.points if point.at + step > since))


def hours_within(hours: Series, since: datetime) -> Series:
    return replace(hours, points=tuple(point for point in hours.points if point.at >= since))


def drawn_series(path_id: int, packet_bytes: int, since: datetime, until: datetime) -> tuple[Series, list[datetime]]:
    """Series without the steps that throughput tests fill almost wholly; and those steps, if bursts are shown."""
    series = path_series(path_id, packet_bytes, since, until)
    if until - since > LONGEST_RAW:
        return series, []
    own_tests = own_test_steps(path_id, packet_bytes, since, until)
    left_out = frozenset(own_tests)
    return replace(series, points=tuple(point for point in series.points if point.at not in left_out)), own_tests


def _spans(incidents: Sequence[Incident], now: datetime) -> tuple[LabelledSpan, ...]:
    return tuple(
        LabelledSpan(words.since(incident), words.until(incident) or now, words.headline(incident))
        for incident in incidents
    )


def axis_since(
    path_id: int, since: datetime, until: datetime, series: Series, tests: Sequence[ThroughputPoint]
) -> datetime:
    """Begin of the axis: the path's first data, if the period begins before."""
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
