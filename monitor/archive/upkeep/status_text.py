"""Text of `manage.py archive status`, for a terminal of 80 columns."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence
from datetime import datetime

from django.conf import settings

from monitor.archive.cold.days import ColdTotals
from monitor.archive.retention_bounds import Bound
from monitor.archive.upkeep.growth import TableGrowth
from monitor.archive.upkeep.status import DAYS_OF_COMPLETENESS, ArchiveStatus, DatabaseProblem, SiteCompleteness
from monitor.archive.upkeep.trouble import DatabaseTrouble
from probes.quantities import counted

WIDTH = 80
INDENT = "    "
MOST_TABLES = 4
MOST_SITES = 4
HEADER = f"{'table':27}{'rows (est.)':>14}{'per day':>11}{'MB':>10}{'per day':>9}"


def status_lines(report: ArchiveStatus, *, complete: bool) -> Iterator[str]:
    """Format the report; when `complete`, all tables precede the verdict, which remains on the screen."""
    if complete:
        yield from _all_tables(report)
        yield ""
    urgent = [problem for problem in report.problems if problem.level != "info"]
    count = len(report.troubles) + len(urgent)
    yield f"archive: {counted(count, 'problem') if count else 'healthy'}"
    yield from trouble_lines(report.troubles)
    for problem in urgent:
        yield from _problem(problem)
    yield f"bursts from {_moment(report.span.oldest_at)} to {_moment(report.span.newest_at)}"
    if report.cold.bursts:
        yield from _wrapped(f"in files, not in the database: {cold_text(report.cold)}")
    yield from _pending(report)
    yield from _deliveries(report, complete=complete)
    yield from _server(report)
    for problem in report.problems:
        if problem not in urgent:
            yield from _problem(problem)
    if not complete:
        yield from _largest_tables(report.tables)


def cold_text(cold: ColdTotals) -> str:
    files = f"{counted(cold.files, 'file')}, {cold.size_bytes / 1e6:,.1f} MB"
    return f"{counted(cold.bursts, 'burst')} from {cold.first} to {cold.last}, {files}"


def trouble_lines(troubles: Sequence[DatabaseTrouble]) -> Iterator[str]:
    for trouble in troubles:
        yield f"nothing can be stored: {trouble.kind}, last seen at {_moment(trouble.at)}"


def _problem(problem: DatabaseProblem) -> Iterator[str]:
    yield from _wrapped(f"{problem.level} {problem.id}: {problem.message}")
    yield from _wrapped(problem.hint, initial_indent=INDENT)


def _wrapped(text: str, initial_indent: str = "") -> list[str]:
    return textwrap.wrap(
        text,
        WIDTH,
        initial_indent=initial_indent,
        subsequent_indent=INDENT,
        break_long_words=False,
        break_on_hyphens=False,
    )


def _all_tables(report: ArchiveStatus) -> Iterator[str]:
    spans = {table.name: table.chunk_interval for table in report.hypertables}
    yield f"{HEADER}  {'chunks':24}retention"
    for table in report.tables:
        span = spans.get(table.name)
        chunks = "-" if span is None else f"{table.chunks}, next spans {span.total_seconds() / 3600:g} h"
        yield f"{_sizes(table)}  {chunks:24}{_retention(report.bounds.get(table.name))}"


def _largest_tables(tables: Sequence[TableGrowth]) -> Iterator[str]:
    yield HEADER
    largest = sorted(tables, key=lambda table: table.total_bytes, reverse=True)[:MOST_TABLES]
    for table in largest:
        yield _sizes(table)
    yield f"and {counted(len(tables) - len(largest), 'smaller table')}; --all shows all tables and sites"


def _sizes(table: TableGrowth) -> str:
    rows = f"{table.row_estimate:>14,}{_signed(table.rows_per_day, 0):>11}"
    return f"{table.name:27}{rows}{table.total_bytes / 1e6:>10,.1f}{_signed(_megabytes(table.bytes_per_day), 1):>9}"


def _pending(report: ArchiveStatus) -> Iterator[str]:
    if not any(pending.tier == "hour" for pending in report.waiting):
        yield "no pending hour rollups"
    for pending in report.waiting:
        waiting_s = max((report.at - pending.since).total_seconds(), 0.0)  # a delivery may arrive while it is written
        yield f"pending {pending.tier} rollups: {pending.summaries:,}, the oldest for {waiting_s:.0f} s"


def _deliveries(report: ArchiveStatus, *, complete: bool) -> Iterator[str]:
    sites = sorted(report.completeness, key=_completeness)
    shown = sites if complete else [site for site in sites if site.missing or site.dropped][:MOST_SITES]
    for site in shown:
        yield _delivered(site.site, [site])
    rest = [site for site in sites if site not in shown]
    if rest:
        yield _delivered(f"{'other' if shown else 'all'} sites ({len(rest)})", rest)
    if not report.refused:
        yield "no results rejected"
    most = sorted(report.refused, key=lambda rejected: rejected.newest_at, reverse=True)
    for rejected in most if complete else most[:MOST_SITES]:
        results = counted(rejected.refused, "result")
        yield f"{rejected.site}: {results} rejected, the last at {_moment(rejected.newest_at)}:"
        yield f"    {rejected.newest_reason}"
    if not complete and len(most) > MOST_SITES:
        yield f"results rejected of {counted(len(most) - MOST_SITES, 'more site')}"


def _delivered(name: str, sites: Sequence[SiteCompleteness]) -> str:
    delivered = sum(site.delivered for site in sites)
    missing = sum(site.missing for site in sites)
    dropped = sum(site.dropped for site in sites)
    of_days = f"{counted(delivered, 'result')} in {DAYS_OF_COMPLETENESS} days"
    results = f"{of_days}, {f'{missing:,}' if missing else 'none'} missing"
    if dropped:
        # Dropped results without a number are of an unknown day, so no share of these days is complete for certain.
        return f"{name}: {results}; {dropped:,} dropped by {'its agent' if len(sites) == 1 else 'agents'}, ever"
    return f"{name}: {results} ({delivered / max(1, delivered + missing):.2%} complete)"


def _completeness(site: SiteCompleteness) -> float:
    return site.delivered / max(1, site.delivered + site.missing)


def _server(report: ArchiveStatus) -> Iterator[str]:
    server = report.server
    timescaledb = "without TimescaleDB"
    if server.timescaledb is not None:
        timescaledb = f"with TimescaleDB {server.timescaledb}, licence {server.timescaledb_licence}"
    yield f"PostgreSQL {server.version} {timescaledb}; {server.max_connections} connections"
    space = "its disk is on another machine"
    if report.disk is not None:
        space = f"{report.disk.free_bytes / 1e9:,.1f} of {report.disk.total_bytes / 1e9:,.1f} GB of its disk free"
    yield f"the database takes {server.database_bytes / 1e6:,.1f} MB; {space}"
    yield _growth(report)


def _growth(report: ArchiveStatus) -> str:
    bytes_per_day = report.growth.bytes_per_day
    if bytes_per_day is None:
        return "growth unknown yet; sizes are recorded hourly"
    grows = f"growth {bytes_per_day / 1e6:,.1f} MB/day (last week)"
    if report.disk is None:
        return f"{grows}; time until disk full unknown"
    if report.growth.disk_lasts_days is None:
        return f"{grows}; disk does not fill up at that rate"
    return f"{grows}; disk full in {report.growth.disk_lasts_days:,.0f} days"


def _retention(bound: Bound | None) -> str:
    if bound is None:
        return "not a table of Soundings"
    if bound.key is None:
        return f"bounded by {bound.text}"
    days = settings.RETENTION_DAYS[bound.key]
    return f"{counted(days, 'day')}: {bound.text}" if days else f"kept forever ({bound.variable}=0)"


def _megabytes(size: float | None) -> float | None:
    return None if size is None else size / 1e6


def _signed(value: float | None, digits: int) -> str:
    return "-" if value is None else f"{value:+,.{digits}f}"


def _moment(at: datetime | None) -> str:
    return "-" if at is None else f"{at:%Y-%m-%d %H:%M:%S} UTC"
