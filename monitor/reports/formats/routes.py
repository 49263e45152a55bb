"""Format the routes of a report."""

from __future__ import annotations

from monitor.reports.contents.report import Report
from monitor.reports.contents.sentences import paths as number_of_paths
from monitor.reports.contents.times import short_moment
from monitor.reports.numbers import Numbers


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
