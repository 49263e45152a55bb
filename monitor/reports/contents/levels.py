"""Service levels: the share of each target's error budget that a path used; at 100% the target is just met."""

from __future__ import annotations

from monitor.archive.queries.for_reports import TargetCounts
from monitor.archive.queries.paths import PathSummary
from monitor.mesh.document.service_levels import ServiceLevel
from monitor.reports.contents.report import ServiceTarget, TargetResult


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
