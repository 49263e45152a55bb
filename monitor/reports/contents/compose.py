"""Compute the report from `Material`, without queries."""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta

from monitor.alerts.evidence import words
from monitor.alerts.incidents import gravest
from monitor.alerts.models import Incident
from monitor.analysis.sentence_times import in_zone
from monitor.archive.queries.for_reports import PathDay
from monitor.archive.queries.paths import PathSummary
from monitor.archive.queries.throughput.series import PathThroughput
from monitor.mesh.document.service_levels import ServiceLevel
from monitor.reports.contents import changes, levels, sentences, throughput
from monitor.reports.contents.collect import DAYS_BEFORE, SPARKLINE_DAYS, Material, PathInMesh, collect
from monitor.reports.contents.report import (
    CoverageLine,
    IncidentReport,
    PathCongestionReport,
    PathReport,
    Report,
    ReportScope,
    ScopeFigures,
)
from monitor.reports.contents.routes import routes_report
from monitor.reports.numbers import Numbers
from monitor.reports.periods import Period


def report_of(scope: ReportScope, period: Period, now: datetime, numbers: Numbers) -> Report:
    """Load and compute the report at `now`. Raises `monitor.reports.contents.collect.UnknownScope`."""
    return compose(collect(scope, period, now), numbers)


def compose(material: Material, numbers: Numbers) -> Report:
    """Compute the report; `numbers` is the format of its sentences and titles."""
    everything = sorted((_path(material, path_id) for path_id in material.paths), key=_by_name)
    paths = tuple(path for path in everything if path.packet_bytes is not None)
    path_changes = changes.find(
        everything,
        material.days,
        material.throughput_days,
        material.first_day - timedelta(days=DAYS_BEFORE),
        material.first_day,
        material.last_day,
    )
    limits = throughput.limits(everything)
    report = Report(
        mesh=material.mesh,
        scope=material.scope,
        period=material.period,
        written_at=material.now,
        state=_state([path.summary for path in paths], _rates(material.throughput)),
        before=_state([path.before for path in paths], _rates(material.throughput_before)),
        year_before=_state([path.year_before for path in paths], _rates(material.throughput_year_before)),
        paths=paths,
        throughput_only=tuple(path for path in everything if path.packet_bytes is None),
        changes=path_changes,
        pauses=material.pauses,
        incidents=tuple(_incident(incident, material, numbers) for incident in material.incidents),
        routes=routes_report(material),
        advice=throughput.advice(everything, limits),
        scores=throughput.scores(everything, limits, throughput.calibrated(everything, material.days_of_tests)),
        forecasts=throughput.forecast_result(material.forecasts),
        coverage=_coverage(material),
        data_since=material.data_since,
        lacks_since=material.lacks_since,
        sentences=(),
        congestion=_congestion(material),
        responses=tuple(material.responses),
        aggregates=tuple(material.aggregates),
    )
    return replace(report, sentences=sentences.summary_sentences(report, numbers))


def _congestion(material: Material) -> tuple[PathCongestionReport, ...]:
    congested = [
        PathCongestionReport(
            path=f"{material.paths[path_id].path.source.name} → {material.paths[path_id].path.destination.name}",
            days_congested=of_path.congestion.hours[0].days_congested,
            rise_ms=of_path.congestion.hours[0].rise_ms,
            words=of_path.sentences[0],
        )
        for path_id, of_path in material.congestion.items()
        if of_path.congestion.hours
    ]
    return tuple(sorted(congested, key=lambda path: (-path.days_congested, -path.rise_ms, path.path)))


def _by_name(path: PathReport) -> tuple[str, str]:
    return path.source, path.destination


def _path(material: Material, path_id: int) -> PathReport:
    described = material.paths[path_id]
    days = {day.day: day for day in material.days.get(path_id, ())}
    shown = [days.get(material.last_day - timedelta(days=back)) for back in range(SPARKLINE_DAYS, 0, -1)]
    summary = material.summaries.get(path_id)
    return PathReport(
        path_id=path_id,
        **_names(described),
        family=described.path.family,
        packet_bytes=material.sizes.get(path_id),
        began_at=described.began_at,
        retired_at=described.path.retired_at,
        summary=summary,
        before=material.before.get(path_id),
        year_before=material.year_before.get(path_id),
        bursts_planned=material.planned.get(path_id),
        throughput=material.throughput.get(path_id),
        throughput_before=material.throughput_before.get(path_id),
        throughput_year_before=material.throughput_year_before.get(path_id),
        capacity_bps=material.capacities.get(path_id),
        verdict=material.verdicts.get(path_id),
        targets=levels.target_results(
            material.levels.get(path_id, ServiceLevel()),
            summary,
            material.hours_above.get(path_id),
            material.tests_below.get(path_id),
        ),
        loss_days=tuple(_loss(day) for day in shown),
        rtt_days_ms=tuple(None if day is None else day.rtt_median_ms for day in shown),
        under_load=material.under_load.get(path_id),
        measured_by=described.measured_by,
        directions=material.directions.get(path_id),
        promised=material.promised.get(path_id),
        links=tuple(material.links.get(path_id, ())),
    )


def _names(described: PathInMesh) -> dict[str, str]:
    path = described.path
    return {
        "source": path.source.name,
        "destination": path.destination.name,
        "source_site": described.place.source,
        "destination_site": described.place.destination,
    }


def _loss(day: PathDay | None) -> float | None:
    return None if day is None or not day.sent else (day.sent - day.received) / day.sent


def _state(summaries: Sequence[PathSummary | None], rates_bps: Sequence[float]) -> ScopeFigures:
    measured = [summary for summary in summaries if summary is not None and summary.sent]
    bursts = sum(summary.bursts for summary in measured)
    return ScopeFigures(
        paths=len(summaries),
        measured=len(measured),
        sent=sum(summary.sent for summary in measured),
        lost=sum(summary.lost for summary in measured),
        rtt_median_ms=_median(summary.rtt_median_ms for summary in measured),
        ipdv_median_ms=_median(summary.ipdv_ms for summary in measured),
        available_ratio=1.0 - sum(summary.bursts_all_lost for summary in measured) / bursts if bursts else None,
        zero_loss_ratio=sum(summary.bursts_none_lost for summary in measured) / bursts if bursts else None,
        throughput_median_bps=_median(rates_bps),
    )


def _rates(summaries: Mapping[int, PathThroughput]) -> list[float]:
    return [
        summary.throughput_median_bps for summary in summaries.values() if summary.throughput_median_bps is not None
    ]


def _median(values: Iterable[float | None]) -> float | None:
    present = [value for value in values if value is not None]
    return statistics.median(present) if present else None


def _incident(incident: Incident, material: Material, numbers: Numbers) -> IncidentReport:
    paths = tuple(dict.fromkeys(str(row.path) for row in incident.paths.all()))
    seconds = words.lasted_s(incident, material.now)
    return IncidentReport(
        incident_id=incident.pk,
        title=numbers.figures_of(in_zone(words.headline(incident), material.period.zone, material.now)),
        damage=(gravest.worst_ratio(incident) * len(paths) * seconds, *gravest.damage(incident)),
        opened_at=words.since(incident),
        closed_at=words.until(incident),
        seconds=seconds,
        paths=paths,
    )


def _coverage(material: Material) -> tuple[CoverageLine, ...]:
    counts: Counter[tuple[str, str, str | None]] = Counter()
    for line in material.coverage:
        counts[line.test, line.outcome, line.reason] += line.count
    ordered = sorted(counts.items(), key=lambda item: (item[0][0], item[0][1] != "measured", -item[1]))
    return tuple(CoverageLine(test, outcome, reason, count) for (test, outcome, reason), count in ordered if count)
