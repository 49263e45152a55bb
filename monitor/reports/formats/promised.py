"""Format the promised service of a report: a line for each path with a promise and a test."""

from __future__ import annotations

from monitor.analysis.promised_service import ServiceVerdict
from monitor.overview.promised_service import evidence_words, promise_words, verdict_words
from monitor.reports.contents.report import Report
from monitor.reports.numbers import Numbers

ORDER = (ServiceVerdict.NOT_KEPT, ServiceVerdict.CANNOT_TELL, ServiceVerdict.KEPT)


def promised_lines(report: Report, numbers: Numbers) -> tuple[tuple[str, ...], ...]:
    """Path, promise, verdict and evidence; those that are not kept first."""
    services = [
        (path.name, path.promised) for path in (*report.paths, *report.throughput_only) if path.promised is not None
    ]
    services.sort(key=lambda named: ORDER.index(named[1].finding.verdict))
    return tuple(
        (
            name,
            numbers.figures_of(promise_words(service, Numbers())),
            verdict_words(service),
            numbers.figures_of(evidence_words(service, Numbers())),
        )
        for name, service in services
    )
