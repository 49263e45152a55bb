"""Format the small tables of a report: promises, routes, directions, request-response and aggregate tests."""

from __future__ import annotations

from monitor.analysis import figures
from monitor.analysis.directions import LostDirection, OneWayLosses
from monitor.analysis.promised_service import ServiceVerdict
from monitor.overview.promised_service import evidence_words, promise_words, verdict_words
from monitor.reports.contents.report import PathReport, Report
from monitor.reports.contents.sentences import paths as number_of_paths
from monitor.reports.contents.times import short_moment
from monitor.reports.numbers import Numbers

MOST_LISTED = 10
_IN_WORDS = {
    LostDirection.FORWARD: "forward only",
    LostDirection.REVERSE: "reverse only",
    LostDirection.BOTH: "both",
}


def direction_lines(report: Report, numbers: Numbers) -> tuple[tuple[str, ...], ...]:
    """Paths that lose packets by STAMP: those in a single direction first, then by loss."""
    lossy = [path for path in report.paths if path.directions is not None and _largest_ratio(path) > 0.0]
    lossy.sort(key=lambda path: (path.lost_direction not in _ONE_WAY, -_largest_ratio(path), path.name))
    return tuple(_line(path, numbers) for path in lossy[:MOST_LISTED])


def directions_note(report: Report, numbers: Numbers) -> str:
    """State how many paths STAMP measures, and how many lose in a single direction; empty without counters."""
    counted = [path for path in report.paths if path.directions is not None]
    if not counted:
        return ""
    one_way = sum(path.lost_direction in _ONE_WAY for path in counted)
    lossy = sum(_largest_ratio(path) > 0.0 for path in counted)
    more = f"; the {MOST_LISTED} with the most loss are listed" if lossy > MOST_LISTED else ""
    return (
        f"{number_of_paths(len(counted), numbers)} with both directions measured by STAMP; {numbers.count(lossy)} with "
        f"loss, {numbers.count(one_way)} in one direction only{more}. A direction is named where the counts prove it, "
        "not for packets of a path that was down."
    )


_ONE_WAY = (LostDirection.FORWARD, LostDirection.REVERSE)


def _line(path: PathReport, numbers: Numbers) -> tuple[str, ...]:
    assert path.directions is not None
    ways = (path.directions.forward, path.directions.reverse)
    return path.name, *(_loss(way, numbers) for way in ways), _IN_WORDS.get(path.lost_direction, "cannot tell")


def _loss(way: OneWayLosses, numbers: Numbers) -> str:
    return f"{numbers.loss(way.lost, way.sent)} of {numbers.count(way.sent)} packets"


def _largest_ratio(path: PathReport) -> float:
    assert path.directions is not None
    return max(path.directions.forward.ratio or 0.0, path.directions.reverse.ratio or 0.0)


def change_lines(report: Report, numbers: Numbers) -> tuple[tuple[str, ...], ...]:
    """A line for each route change with an effect, by time."""
    if report.routes is None:
        return ()
    return tuple(
        (
            change.path,
            short_moment(change.at, report),
            ", ".join(numbers.figures_of(effect) for effect in change.effects),
            change.replacement,
        )
        for change in report.routes.with_effect
    )


def routes_note(report: Report, numbers: Numbers) -> str:
    """State the counts, and the source of AS numbers; empty where no path was traced."""
    routes = report.routes
    if routes is None:
        return ""
    changes = f"{numbers.count(routes.changes)} route {'change' if routes.changes == 1 else 'changes'}"
    traced = number_of_paths(routes.traced_paths, numbers)
    note = f"{traced} traced, {changes}; changes without an effect on RTT or loss are not listed."
    return note if routes.as_table is None else f"{note} AS numbers: {routes.as_table}."


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
