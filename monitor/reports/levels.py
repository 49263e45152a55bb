"""How well service levels were kept: targets and counts of a path go in, what of its error budget was used comes out.

The budget is what may be lost, or may be worse than the target: of a target of 99.9% availability a thousandth of the
bursts. All of it used is a target just kept.
"""

from __future__ import annotations

from monitor.archive.queries.for_reports import Kept
from monitor.archive.queries.paths import PathSummary
from monitor.mesh.service_levels import ServiceLevel
from monitor.reports.report import Target, TargetKept


def kept(
    level: ServiceLevel, summary: PathSummary | None, hours_above: Kept | None, tests_below: Kept | None
) -> tuple[TargetKept, ...]:
    """Each target of which something was measured; the others have nothing to be judged by and are left out."""
    found = []
    if summary is not None and summary.loss_ratio is not None and level.loss_ratio is not None:
        found.append(_share(Target.LOSS, level.loss_ratio, summary.loss_ratio, level.loss_ratio))
    if summary is not None and summary.bursts and level.availability_ratio is not None:
        away = summary.bursts_all_lost / summary.bursts
        budget_used = away / (1.0 - level.availability_ratio)
        found.append(TargetKept(Target.AVAILABILITY, level.availability_ratio, None, 1.0 - away, budget_used))
    if hours_above is not None and level.rtt_ms is not None:
        found.append(_of_many(Target.RTT, level.rtt_ms, level.kept_ratio, hours_above))
    if tests_below is not None and level.throughput_bps is not None:
        found.append(_of_many(Target.THROUGHPUT, level.throughput_bps, level.kept_ratio, tests_below))
    return tuple(found)


def _share(target: Target, limit: float, actual: float, budget: float) -> TargetKept:
    return TargetKept(target, limit, None, actual, actual / budget)


def _of_many(target: Target, limit: float, kept_ratio: float, counted: Kept) -> TargetKept:
    worse = counted.worse / counted.of
    return TargetKept(target, limit, kept_ratio, 1.0 - worse, worse / (1.0 - kept_ratio))
