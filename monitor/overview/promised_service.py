"""Promised service of each path by mesh.toml, its verdict and words, for the weekly report and pages."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from monitor.analysis.promised_service import SHORT_OF, ServiceFinding, ServiceVerdict, judge_service
from monitor.analysis.transfer import size_text
from monitor.archive.queries.throughput.promised import promised_tests
from monitor.mesh.document.service_levels import ServiceLevel, settings_for
from monitor.mesh.models import Mesh, Path
from monitor.mesh.queries import groups_of_sites, place_of


class NumberFormat(Protocol):
    def count(self, number: int) -> str: ...
    def percent(self, ratio: float) -> str: ...
    def bit_rate(self, value_bps: float | None) -> str: ...


@dataclass(frozen=True, slots=True)
class PromisedService:
    """A promised rate, with its burst if any, and whether tests of a period kept it."""

    promised_bps: float
    burst_bytes: float | None
    kept_ratio: float
    finding: ServiceFinding


def promised_services(
    levels: Mapping[int, ServiceLevel], since: datetime, until: datetime
) -> dict[int, PromisedService]:
    """The promised service of each path with a promise and a test in the period."""
    promises = {
        path_id: (level.promised_bps, level.promised_burst_bytes)
        for path_id, level in levels.items()
        if level.promised_bps is not None
    }
    services = {}
    for path_id, counts in promised_tests(since, until, promises).items():
        rate_bps, burst_bytes = promises[path_id]
        kept_ratio = levels[path_id].kept_ratio
        finding = judge_service(counts, kept_ratio, burst_promised=burst_bytes is not None)
        services[path_id] = PromisedService(rate_bps, burst_bytes, kept_ratio, finding)
    return services


def service_of_path(path: Path, since: datetime, until: datetime) -> PromisedService | None:
    """The promised service of a path; None without a promise or a test."""
    levels = Mesh.objects.values_list("service_levels", flat=True).first()
    if not levels:
        return None
    level = settings_for(levels, place_of(path, groups_of_sites()))
    return promised_services({path.pk: level}, since, until).get(path.pk)


def promise_words(service: PromisedService, numbers: NumberFormat) -> str:
    """The promise: `100 Mbit/s, burst 1.0 MB, in 95% of the tests`."""
    burst = "" if service.burst_bytes is None else f", burst {size_text(service.burst_bytes)}"
    return f"{numbers.bit_rate(service.promised_bps)}{burst}, in {numbers.percent(service.kept_ratio)} of the tests"


def verdict_words(service: PromisedService) -> str:
    """The verdict: `kept`, `cannot tell`, or `not kept (rate): not the service you pay for`."""
    finding = service.finding
    if finding.verdict is not ServiceVerdict.NOT_KEPT:
        return str(finding.verdict)
    return f"{finding.verdict} ({finding.falls_short}): not the service you pay for"


def evidence_words(service: PromisedService, numbers: NumberFormat) -> str:
    """The tests behind the verdict, with their share's confidence interval."""
    finding, counts = service.finding, service.finding.counts
    parts = []
    if finding.low_ratio is not None and finding.high_ratio is not None and finding.short_ratio is not None:
        below = numbers.bit_rate(SHORT_OF * service.promised_bps)
        parts.append(
            f"{numbers.count(counts.short)} of {numbers.count(counts.tests)} tests below {below}"
            f" ({numbers.percent(finding.short_ratio)}, 90% CI {numbers.percent(finding.low_ratio)} to"
            f" {numbers.percent(finding.high_ratio)})"
        )
    else:
        parts.append("no test that says something about the service")
    if service.burst_bytes is not None:
        below = size_text(SHORT_OF * service.burst_bytes)
        parts.append(f"{numbers.count(counts.bursts_short)} of {numbers.count(counts.bursts)} bursts below {below}")
    if counts.left_out:
        parts.append(f"{numbers.count(counts.left_out)} left out: limited by a host, or by a limit that is unknown")
    return "; ".join(parts)
