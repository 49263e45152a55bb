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
from monitor.analysis.routes import wording
from monitor.analysis.routes.wording import AsLabels
from monitor.analysis.sentence_times import in_zone
from monitor.archive.queries.for_reports import PathDay, TargetCounts
from monitor.archive.queries.paths import PathSummary
from monitor.archive.queries.routes.effects import MeasuredChange
from monitor.archive.queries.throughput.series import PathThroughput
from monitor.mesh.document.service_levels import ServiceLevel
from monitor.reports.contents import changes, sentences, throughput
from monitor.reports.contents.collect import DAYS_BEFORE, SPARKLINE_DAYS, Material, PathInMesh, collect
from monitor.reports.contents.report import (
    CoverageLine,
    IncidentReport,
    PathCongestionReport,
    PathReport,
    Report,
    ReportScope,
    RouteChangeReport,
    RoutesReport,
    ScopeFigures,
    ServiceTarget,
    TargetResult,
)
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
        targets=target_results(
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


def target_results(
    level: ServiceLevel, summary: PathSummary | None, hours_above: TargetCounts | None, tests_below: TargetCounts | None
) -> tuple[TargetResult, ...]:
    """The results of all targets that have measurements."""
    targets = []
    if summary is not None and summary.loss_ratio is not None and level.loss_ratio is not None:
        targets.append(_share_result(ServiceTarget.LOSS, level.loss_ratio, summary.loss_ratio, level.loss_ratio))
    if summary is not None and summary.bursts and level.availability_ratio is not None:
        away = summary.bursts_all_lost / summary.bursts
        budget_used = away / (1.0 - level.availability_ratio)
        targets.append(
            TargetResult(ServiceTarget.AVAILABILITY, level.availability_ratio, None, 1.0 - away, budget_used)
        )
    if hours_above is not None and level.rtt_ms is not None:
        targets.append(_count_result(ServiceTarget.RTT, level.rtt_ms, level.kept_ratio, hours_above))
    if tests_below is not None and level.throughput_bps is not None:
        targets.append(_count_result(ServiceTarget.THROUGHPUT, level.throughput_bps, level.kept_ratio, tests_below))
    return tuple(targets)


def _share_result(target: ServiceTarget, limit: float, actual: float, budget: float) -> TargetResult:
    return TargetResult(target, limit, None, actual, actual / budget)


def _count_result(target: ServiceTarget, limit: float, kept_ratio: float, counted: TargetCounts) -> TargetResult:
    worse = counted.worse / counted.of
    return TargetResult(target, limit, kept_ratio, 1.0 - worse, worse / (1.0 - kept_ratio))


def routes_report(material: Material) -> RoutesReport | None:
    """The routes of the traced paths; None where no path was traced."""
    if material.routes is None:
        return None
    labels = _labels(material)
    return RoutesReport(
        traced_paths=len(material.traced),
        changes=len(material.routes.changes),
        with_effect=tuple(_change(measured, material, labels) for measured in material.routes.with_effect),
        steps=material.routes.steps,
        explained=material.routes.explained,
        as_table=None if material.as_table is None else str(material.as_table),
    )


def _labels(material: Material) -> AsLabels:
    names = {name.asn: name.as_name for name in material.hop_names.values() if name.asn is not None}
    return AsLabels(as_of=lambda address: material.hop_names[address].asn, name_of=names.get)


def _change(measured: MeasuredChange, material: Material, labels: AsLabels) -> RouteChangeReport:
    change = measured.change
    return RouteChangeReport(
        path=material.traced[measured.path_id],
        at=change.at,
        effects=tuple(wording.effects(measured.effect)),
        replacement=wording.replacement(change.before, change.after, labels),
    )
