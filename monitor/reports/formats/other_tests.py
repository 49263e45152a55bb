"""Format the request-response and aggregate tests of a report, a line for each."""

from __future__ import annotations

from monitor.analysis import figures
from monitor.reports.contents.report import Report
from monitor.reports.numbers import Numbers

Lines = tuple[tuple[str, ...], ...]


def response_lines(report: Report, numbers: Numbers) -> Lines:
    """Path, test, sizes, median and 95th percentile of the latency, transactions/s and runs; the slowest first."""
    ordered = sorted(report.responses, key=lambda named: (-(named[1].median_ms or 0.0), named[0]))
    return tuple(
        (
            name,
            runs.test,
            f"{numbers.count(runs.request_bytes)}, {numbers.count(runs.response_bytes)} B",
            numbers.milliseconds(runs.median_ms),
            numbers.milliseconds(runs.p95_ms),
            figures.NO_DATA
            if runs.transactions_per_s is None
            else numbers.figures_of(f"{runs.transactions_per_s:,.1f}"),
            f"{numbers.count(runs.runs)} of {numbers.count(runs.runs + runs.failed)}",
        )
        for name, runs in ordered
    )


def aggregate_lines(report: Report, numbers: Numbers) -> Lines:
    """Test, shape, median sum with its range, fairness, and complete runs."""
    return tuple(
        (
            runs.test,
            runs.shape,
            numbers.bit_rate(runs.sum_median_bps),
            figures.NO_DATA
            if runs.sum_min_bps is None or runs.sum_max_bps is None
            else f"{numbers.bit_rate(runs.sum_min_bps)} to {numbers.bit_rate(runs.sum_max_bps)}",
            _number(runs.fairness_median, 3, numbers),
            f"{numbers.count(runs.complete)} of {numbers.count(runs.runs)}",
        )
        for runs in report.aggregates
    )


def _number(value: float | None, decimals: int, numbers: Numbers) -> str:
    return figures.NO_DATA if value is None else numbers.figures_of(f"{value:,.{decimals}f}")
