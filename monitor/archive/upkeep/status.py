"""Status of the archive: sizes, backlog, missing results, and server problems."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

from django.core.checks import CheckMessage

from monitor.archive.cold.days import ColdTotals, totals
from monitor.archive.queries.for_prometheus import Waiting
from monitor.archive.queries.operation import completeness
from monitor.archive.queries.operation.completeness import SiteDay
from monitor.archive.retention_bounds import BOUNDS, Bound
from monitor.archive.statements import records, run_statement
from monitor.archive.upkeep.growth import Growth, TableGrowth, growth, table_sizes
from monitor.archive.upkeep.server import Disk, Hypertable, Server, disk, hypertables, plain_tables, server
from monitor.archive.upkeep.system_checks import check_cold_files, problems
from monitor.archive.upkeep.trouble import DatabaseTrouble, current_trouble

DAYS_OF_COMPLETENESS = 7


@dataclass(frozen=True, slots=True)
class BurstPeriod:
    oldest_at: datetime | None
    newest_at: datetime | None


@dataclass(frozen=True, slots=True)
class SiteCompleteness:
    """Results delivered by a site in the last days, and missing sequence numbers."""

    site: str
    delivered: int
    # A result for which the agent's disk had no room has no number, so it is not missing.
    missing: int
    dropped: int  # the agent's count since its spool was created


@dataclass(frozen=True, slots=True)
class SiteRefused:
    site: str
    refused: int
    newest_at: datetime
    newest_reason: str


@dataclass(frozen=True, slots=True)
class DatabaseProblem:
    id: str
    level: str
    message: str
    hint: str


@dataclass(frozen=True, slots=True)
class ArchiveStatus:
    at: datetime
    server: Server
    disk: Disk | None  # None where the server is on another machine
    tables: list[TableGrowth]
    bounds: dict[str, Bound]  # of `tables`, by name; foreign tables have none
    growth: Growth
    hypertables: list[Hypertable]
    span: BurstPeriod
    cold: ColdTotals
    waiting: list[Waiting]
    completeness: list[SiteCompleteness]
    refused: list[SiteRefused]
    troubles: list[DatabaseTrouble]
    problems: list[DatabaseProblem]


def status(now: datetime) -> ArchiveStatus:
    of = server()
    space = disk(of)
    tables = table_sizes(now)
    bursts, cold = span(), totals()
    return ArchiveStatus(
        at=now,
        server=of,
        disk=space,
        tables=tables,
        bounds={table.name: BOUNDS[table.name] for table in tables if table.name in BOUNDS},
        growth=growth(tables, space),
        hypertables=hypertables(of),
        span=bursts,
        cold=cold,
        waiting=records(Waiting, *run_statement("waiting")),
        completeness=_completeness(now),
        refused=records(SiteRefused, *run_statement("refused_of_sites")),
        troubles=current_trouble(),
        problems=[_problem(message) for message in _messages(of, space, bursts, cold, now)],
    )


def _messages(
    of: Server, space: Disk | None, bursts: BurstPeriod, cold: ColdTotals, now: datetime
) -> list[CheckMessage]:
    return [*problems(of, space, plain_tables(of)), *check_cold_files(bursts.oldest_at, cold, now)]


def span() -> BurstPeriod:
    return records(BurstPeriod, *run_statement("span"))[0]


def _completeness(now: datetime) -> list[SiteCompleteness]:
    today = now.date()
    since = today - timedelta(days=DAYS_OF_COMPLETENESS - 1)
    of_site: dict[int, list[SiteDay]] = {}
    for day in completeness.by_site_and_day(since, today + timedelta(days=1)):
        of_site.setdefault(day.site_id, []).append(day)
    _, sites = run_statement("sites_with_drops", site_ids=list(of_site))
    return [
        SiteCompleteness(
            name,
            delivered=sum(day.delivered for day in of_site[site_id]),
            missing=sum(day.missing for day in of_site[site_id]),
            dropped=dropped,
        )
        for site_id, name, dropped in sites
    ]


def _problem(message: CheckMessage) -> DatabaseProblem:
    level = {20: "info", 30: "warning", 40: "error"}[message.level]
    return DatabaseProblem(id=message.id or "", level=level, message=message.msg, hint=message.hint or "")
