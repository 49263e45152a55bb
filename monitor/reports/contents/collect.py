"""Load the data of a report; nothing is computed here. The number of queries does not depend on the number of paths."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TypeVar

from django.db.models import Min

from monitor.alerts.incidents.queries import incidents_between
from monitor.alerts.models import Incident
from monitor.analysis.directions import DirectionLosses
from monitor.archive.periods import end_of, start_of
from monitor.archive.queries import for_reports
from monitor.archive.queries.directions import direction_totals
from monitor.archive.queries.operation.completeness import planned_bursts
from monitor.archive.queries.operation.ledger import LedgerLine, ledger_of_paths
from monitor.archive.queries.paths import PathSummary, path_summaries
from monitor.archive.queries.routes.periods import routes_at
from monitor.archive.queries.throughput.aggregates import AggregateSummary, aggregate_summaries
from monitor.archive.queries.throughput.calibrations import DayOfTests, days_of_tests
from monitor.archive.queries.throughput.forecasts import Replayed, forecasts_of_tests
from monitor.archive.queries.throughput.series import PathThroughput, throughput_summaries
from monitor.archive.queries.throughput.under_load import LatencyUnderLoad, under_own_tests
from monitor.archive.upkeep.freshness import EvaluationPause, evaluation_pauses, period_lacks_since
from monitor.mesh.document import service_levels
from monitor.mesh.document.alert_rules import Place
from monitor.mesh.document.service_levels import ServiceLevel
from monitor.mesh.models import Group, KindName, Measurement, Mesh, Path, Site
from monitor.mesh.queries import groups_of_sites, measured_by, place_of
from monitor.overview.links.use import LinkUse, link_uses
from monitor.overview.promised_service import PromisedService, promised_services
from monitor.overview.recurring_hours import PathCongestion, congestion_of
from monitor.overview.route_changes import RouteEffects, route_effects
from monitor.reports.contents.report import ReportScope
from monitor.reports.periods import Period
from monitor.routes.places import HopName, TableSource, of_addresses, sources

# Days before a period that define a path's noise: eight weeks.
DAYS_BEFORE = 56

SPARKLINE_DAYS = 28

# Paths with scored forecasts: 12,000 forecasts at most, which show the same as more.
MOST_FORECAST_PATHS = 200

# Path and packet size.
Key = tuple[int, int]

Row = TypeVar("Row", PathThroughput, for_reports.TargetCounts, for_reports.TransferVerdict)
SizedRow = TypeVar("SizedRow", PathSummary, LatencyUnderLoad)
DayRow = TypeVar("DayRow", for_reports.PathDay, for_reports.PathThroughputDay, LinkUse)


class UnknownScope(Exception):
    """The site or group does not exist; the message lists the valid names."""


@dataclass(frozen=True, slots=True)
class PathInMesh:
    path: Path
    place: Place
    began_at: datetime | None
    measured_by: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Material:
    """All data of a scope in a period."""

    mesh: str
    scope: ReportScope
    period: Period
    now: datetime
    paths: Mapping[int, PathInMesh]
    sizes: Mapping[int, int]  # largest packet size of each path
    summaries: Mapping[int, PathSummary]
    before: Mapping[int, PathSummary]
    year_before: Mapping[int, PathSummary]
    planned: Mapping[int, int]
    throughput: Mapping[int, PathThroughput]
    throughput_before: Mapping[int, PathThroughput]
    throughput_year_before: Mapping[int, PathThroughput]
    days: Mapping[int, list[for_reports.PathDay]]
    throughput_days: Mapping[int, list[for_reports.PathThroughputDay]]
    first_day: datetime
    last_day: datetime
    levels: Mapping[int, ServiceLevel]
    hours_above: Mapping[int, for_reports.TargetCounts]
    tests_below: Mapping[int, for_reports.TargetCounts]
    promised: Mapping[int, PromisedService]
    links: Mapping[int, Sequence[LinkUse]]
    verdicts: Mapping[int, for_reports.TransferVerdict]
    capacities: Mapping[int, float]
    days_of_tests: Mapping[int, list[DayOfTests]]
    forecasts: Sequence[Replayed]
    coverage: tuple[LedgerLine, ...]
    pauses: tuple[EvaluationPause, ...]
    incidents: tuple[Incident, ...]
    under_load: Mapping[int, LatencyUnderLoad]
    data_since: datetime | None  # first hour with data, only for a period without data
    lacks_since: datetime | None  # arrival of the oldest result missing from the hours, or None
    traced: Mapping[int, str]  # names of traced paths
    routes: RouteEffects | None  # changes of traced paths, None without such paths
    hop_names: Mapping[str, HopName]  # names of the hops of changed routes
    as_table: TableSource | None
    congestion: Mapping[int, PathCongestion]
    directions: Mapping[int, DirectionLosses]
    responses: Sequence[tuple[str, for_reports.ResponseSummary]]
    aggregates: Sequence[AggregateSummary]


def collect(scope: ReportScope, period: Period, now: datetime) -> Material:
    """Load the data stored at `now`; a period that is not over ends at `now`. Raises `UnknownScope`."""
    mesh = Mesh.objects.first()
    paths = _paths(scope)
    since, until = period.since, min(period.until, max(now, period.since))
    ids = list(paths)
    summaries = path_summaries(since, until, path_ids=ids, exact=True)
    planned = {key: count for key, count in planned_bursts(since, until, path_ids=ids).items() if count > 0}
    sizes = _sizes([(summary.path_id, summary.packet_bytes) for summary in summaries], planned)
    throughput = _by_path(throughput_summaries(since, until, path_ids=ids))
    told = {path_id: paths[path_id] for path_id in ids if path_id in sizes or path_id in throughput}
    first_day, last_day = end_of("day", since), start_of("day", until)
    series = list(sizes.items())
    levels = _levels(mesh, told)
    traced = [path_id for path_id, route in routes_at(ids, until).items() if route.last_at >= since]
    routes = route_effects(since, until, traced) if traced else None
    has_data = any(summary.sent for summary in summaries) or any(tests.measured for tests in throughput.values())
    return Material(
        mesh="" if mesh is None else mesh.name,
        scope=scope,
        period=period,
        now=now,
        paths=told,
        sizes=sizes,
        summaries=_by_size(summaries, sizes),
        before=_summaries(period.before, sizes),
        year_before=_summaries(period.year_before, sizes),
        planned={path_id: planned[path_id, size] for path_id, size in series if (path_id, size) in planned},
        throughput=throughput,
        throughput_before=_throughput(period.before, told),
        throughput_year_before=_throughput(period.year_before, told),
        days=_listed(for_reports.days(first_day - timedelta(days=DAYS_BEFORE), last_day, series)),
        throughput_days=_listed(
            for_reports.throughput_days(first_day - timedelta(days=DAYS_BEFORE), last_day, list(told))
        ),
        first_day=first_day,
        last_day=last_day,
        levels=levels,
        hours_above=_hours_above(since, until, levels, sizes),
        tests_below=_tests_below(since, until, levels, throughput),
        promised=promised_services(levels, since, until),
        links=_listed(link_uses(list(paths), levels, until)),
        verdicts=_by_path(for_reports.transfer_verdicts(since, until, list(told))),
        days_of_tests=days_of_tests(since, sizes),
        forecasts=forecasts_of_tests(sorted(throughput)[:MOST_FORECAST_PATHS], since, until),
        capacities={
            capacity.path_id: capacity.capacity_bps for capacity in for_reports.capacities(since, until, list(told))
        },
        coverage=tuple(ledger_of_paths(list(told), since, until)),
        pauses=tuple(evaluation_pauses(since, until)),
        incidents=_incidents(scope, set(paths), since, until),
        under_load=_by_size(under_own_tests(since, until, sorted(throughput)), sizes),
        data_since=None if has_data else for_reports.data_since(ids),
        lacks_since=period_lacks_since(since, until, now),
        traced={path_id: _name(paths[path_id].path) for path_id in traced},
        routes=routes,
        hop_names=_hop_names(routes),
        as_table=next((table for table in sources() if table.name == "asn"), None) if traced else None,
        congestion=congestion_of([paths[path_id].path for path_id in sizes], until, period.zone),
        directions=direction_totals(since, until, ids),
        responses=[
            (_name(paths[summary.path_id].path), summary)
            for summary in for_reports.response_summaries(since, until, ids)
        ],
        aggregates=aggregate_summaries(since, until, ids),
    )


def _name(path: Path) -> str:
    return f"{path.source.name} → {path.destination.name}"


def _hop_names(routes: RouteEffects | None) -> dict[str, HopName]:
    if routes is None or not routes.with_effect:
        return {}
    changes = [measured.change for measured in routes.with_effect]
    sides = [hops for change in changes for hops in (change.before_hops, change.after_hops)]
    return of_addresses(address for hops in sides for address in hops if address is not None)


def _paths(scope: ReportScope) -> dict[int, PathInMesh]:
    groups = groups_of_sites()
    began_at = dict(
        Measurement.objects.filter(test__kind__in=KindName.PING.alternatives)
        .values("path_id")
        .annotate(began_at=Min("started_at"))
        .values_list("path_id", "began_at")
    )
    check_scope(scope)
    words, described = measured_by(began_at), {}
    for path in Path.objects.with_hosts():
        place = place_of(path, groups)
        if _holds(scope, place):
            described[path.pk] = PathInMesh(path, place, began_at.get(path.pk), words.get(path.pk))
    return described


def check_scope(scope: ReportScope) -> None:
    """Raise `UnknownScope` if the site or group does not exist."""
    if scope.kind == "mesh":
        return
    rows = Site.objects.all() if scope.kind == "site" else Group.objects.all()
    names = list(rows.values_list("name", flat=True))
    if scope.name not in names:
        there = ", ".join(names) or "none; apply a mesh.toml first"
        raise UnknownScope(f'{scope.kind} "{scope.name}" is not known; there are: {there}')


def first_data(scope: ReportScope) -> datetime | None:
    """First hour with data of a scope. Raises `UnknownScope`."""
    return for_reports.data_since(list(_paths(scope)))


def _holds(scope: ReportScope, place: Place) -> bool:
    if scope.kind == "site":
        return scope.name in (place.source, place.destination)
    return scope.kind == "mesh" or scope.name in place.groups


def _sizes(measured: Iterable[Key], planned: Iterable[Key]) -> dict[int, int]:
    largest: dict[int, int] = {}
    for path_id, size in sorted({*measured, *planned}):
        largest[path_id] = size
    return largest


def _summaries(period: Period, sizes: Mapping[int, int]) -> dict[int, PathSummary]:
    return _by_size(path_summaries(period.since, period.until, path_ids=list(sizes), exact=True), sizes)


def _by_size(summaries: Iterable[SizedRow], sizes: Mapping[int, int]) -> dict[int, SizedRow]:
    return {summary.path_id: summary for summary in summaries if sizes.get(summary.path_id) == summary.packet_bytes}


def _throughput(period: Period, path_ids: Collection[int]) -> dict[int, PathThroughput]:
    return _by_path(throughput_summaries(period.since, period.until, path_ids=list(path_ids)))


def _by_path(rows: Iterable[Row]) -> dict[int, Row]:
    return {row.path_id: row for row in rows}


def _listed(rows: Iterable[DayRow]) -> dict[int, list[DayRow]]:
    by_path: dict[int, list[DayRow]] = defaultdict(list)
    for row in rows:
        by_path[row.path_id].append(row)
    return dict(by_path)


def _levels(mesh: Mesh | None, paths: Mapping[int, PathInMesh]) -> dict[int, ServiceLevel]:
    given = {} if mesh is None else mesh.service_levels
    return {path_id: service_levels.settings_for(given, path.place) for path_id, path in paths.items()} if given else {}


def _hours_above(
    since: datetime, until: datetime, levels: Mapping[int, ServiceLevel], sizes: Mapping[int, int]
) -> dict[int, for_reports.TargetCounts]:
    limits = {
        (path_id, sizes[path_id]): level.rtt_ms
        for path_id, level in levels.items()
        if level.rtt_ms and path_id in sizes
    }
    return _by_path(for_reports.hours_above(since, until, limits)) if limits else {}


def _tests_below(
    since: datetime, until: datetime, levels: Mapping[int, ServiceLevel], tested: Collection[int]
) -> dict[int, for_reports.TargetCounts]:
    limits = {
        path_id: level.throughput_bps for path_id, level in levels.items() if level.throughput_bps and path_id in tested
    }
    return _by_path(for_reports.tests_below(since, until, limits)) if limits else {}


def _incidents(scope: ReportScope, path_ids: Collection[int], since: datetime, until: datetime) -> tuple[Incident, ...]:
    """Incidents of the scope; for the mesh also those without paths."""
    incidents = incidents_between(since, until)
    if scope.kind == "mesh":
        return tuple(incidents)
    return tuple(incident for incident in incidents if any(row.path_id in path_ids for row in incident.paths.all()))
