"""Asks all that a report is made from: a scope and a period go in, `Material` comes out. Nothing is worked out here.

What was measured comes from the archive's named queries, what was planned and how things are called from the mesh,
incidents from the alerts. How many statements that takes does not depend on how many paths there are.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TypeVar

from django.db.models import Min

from monitor.alerts.incidents.queries import incidents_between
from monitor.alerts.models import Incident
from monitor.archive.periods import end_of, start_of
from monitor.archive.queries import for_reports
from monitor.archive.queries.calibrations import DayOfTests, days_of_tests
from monitor.archive.queries.ledger import LedgerLine, ledger_of_paths
from monitor.archive.queries.paths import PathSummary, path_summaries
from monitor.archive.queries.throughput import ThroughputSummary, throughput_summaries
from monitor.mesh import service_levels
from monitor.mesh.alert_rules import Place
from monitor.mesh.models import Group, Kind, Measurement, Mesh, Path, Site
from monitor.mesh.queries import groups_of_sites, place_of, planned_bursts
from monitor.mesh.service_levels import ServiceLevel
from monitor.reports.periods import Period
from monitor.reports.report import Scope

DAYS_BEFORE = 56
"""The days before a period that say what a path's noise is: eight weeks."""

SPARKLINE_DAYS = 28

Key = tuple[int, int]
"""Path and packet size."""

Row = TypeVar("Row", ThroughputSummary, for_reports.Kept, for_reports.TransferVerdict)
DayRow = TypeVar("DayRow", for_reports.PathDay, for_reports.ThroughputDay)


class NoSuchScope(Exception):
    """There is no such site or group; the text says which there are."""


@dataclass(frozen=True, slots=True)
class Described:
    """A path as the mesh has it."""

    path: Path
    place: Place
    began_at: datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Material:
    """What is known of a scope in a period, before anything is made of it. `sizes` has each path's largest packet."""

    mesh: str
    scope: Scope
    period: Period
    now: datetime
    paths: Mapping[int, Described]
    sizes: Mapping[int, int]
    summaries: Mapping[int, PathSummary]
    before: Mapping[int, PathSummary]
    year_before: Mapping[int, PathSummary]
    planned: Mapping[int, int]
    throughput: Mapping[int, ThroughputSummary]
    throughput_before: Mapping[int, ThroughputSummary]
    throughput_year_before: Mapping[int, ThroughputSummary]
    days: Mapping[int, list[for_reports.PathDay]]
    throughput_days: Mapping[int, list[for_reports.ThroughputDay]]
    first_day: datetime
    last_day: datetime
    levels: Mapping[int, ServiceLevel]
    hours_above: Mapping[int, for_reports.Kept]
    tests_below: Mapping[int, for_reports.Kept]
    verdicts: Mapping[int, for_reports.TransferVerdict]
    capacities: Mapping[int, float]
    days_of_tests: Mapping[int, list[DayOfTests]]
    coverage: tuple[LedgerLine, ...]
    incidents: tuple[Incident, ...]


def collect(scope: Scope, period: Period, now: datetime) -> Material:
    """What is stored at `now`. A period that is not over is asked up to `now`. Raises `NoSuchScope`."""
    mesh = Mesh.objects.first()
    paths = _paths(scope)
    since, until = period.since, min(period.until, max(now, period.since))
    ids = list(paths)
    found = path_summaries(since, until, path_ids=ids, exact=True)
    planned = {key: count for key, count in planned_bursts(since, until, path_ids=ids).items() if count > 0}
    sizes = _sizes([(one.path_id, one.packet_bytes) for one in found], planned)
    throughput = _by_path(throughput_summaries(since, until, path_ids=ids))
    told = {path_id: paths[path_id] for path_id in ids if path_id in sizes or path_id in throughput}
    first_day, last_day = end_of("day", since), start_of("day", until)
    series = list(sizes.items())
    levels = _levels(mesh, told)
    return Material(
        mesh="" if mesh is None else mesh.name,
        scope=scope,
        period=period,
        now=now,
        paths=told,
        sizes=sizes,
        summaries=_of_sizes(found, sizes),
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
        verdicts=_by_path(for_reports.transfer_verdicts(since, until, list(told))),
        days_of_tests=days_of_tests(since, sizes),
        capacities={one.path_id: one.capacity_bps for one in for_reports.capacities(since, until, list(told))},
        coverage=tuple(ledger_of_paths(list(told), since, until)),
        incidents=_incidents(scope, set(paths), since, until),
    )


def _paths(scope: Scope) -> dict[int, Described]:
    """Every path there is or was within the scope."""
    groups = groups_of_sites()
    began_at = dict(
        Measurement.objects.filter(test__kind=Kind.PING)
        .values("path_id")
        .annotate(began_at=Min("started_at"))
        .values_list("path_id", "began_at")
    )
    check_scope(scope)
    found = {}
    for path in Path.objects.with_hosts():
        place = place_of(path, groups)
        if _holds(scope, place):
            found[path.pk] = Described(path, place, began_at.get(path.pk))
    return found


def check_scope(scope: Scope) -> None:
    """Raises `NoSuchScope` where there is no such site or group."""
    if scope.kind == "mesh":
        return
    rows = Site.objects.all() if scope.kind == "site" else Group.objects.all()
    names = list(rows.values_list("name", flat=True))
    if scope.name not in names:
        there = ", ".join(names) or "none; apply a mesh.toml first"
        raise NoSuchScope(f'{scope.kind} "{scope.name}" is not known; there are: {there}')


def _holds(scope: Scope, place: Place) -> bool:
    if scope.kind == "site":
        return scope.name in (place.source, place.destination)
    return scope.kind == "mesh" or scope.name in place.groups


def _sizes(measured: Iterable[Key], planned: Iterable[Key]) -> dict[int, int]:
    """The largest packet of each path that was measured or planned."""
    largest: dict[int, int] = {}
    for path_id, size in sorted({*measured, *planned}):
        largest[path_id] = size
    return largest


def _summaries(period: Period, sizes: Mapping[int, int]) -> dict[int, PathSummary]:
    return _of_sizes(path_summaries(period.since, period.until, path_ids=list(sizes), exact=True), sizes)


def _of_sizes(summaries: Iterable[PathSummary], sizes: Mapping[int, int]) -> dict[int, PathSummary]:
    return {one.path_id: one for one in summaries if sizes.get(one.path_id) == one.packet_bytes}


def _throughput(period: Period, path_ids: Collection[int]) -> dict[int, ThroughputSummary]:
    return _by_path(throughput_summaries(period.since, period.until, path_ids=list(path_ids)))


def _by_path(rows: Iterable[Row]) -> dict[int, Row]:
    return {row.path_id: row for row in rows}


def _listed(rows: Iterable[DayRow]) -> dict[int, list[DayRow]]:
    found: dict[int, list[DayRow]] = defaultdict(list)
    for row in rows:
        found[row.path_id].append(row)
    return dict(found)


def _levels(mesh: Mesh | None, paths: Mapping[int, Described]) -> dict[int, ServiceLevel]:
    given = {} if mesh is None else mesh.service_levels
    return {path_id: service_levels.settings_for(given, one.place) for path_id, one in paths.items()} if given else {}


def _hours_above(
    since: datetime, until: datetime, levels: Mapping[int, ServiceLevel], sizes: Mapping[int, int]
) -> dict[int, for_reports.Kept]:
    limits = {
        (path_id, sizes[path_id]): one.rtt_ms for path_id, one in levels.items() if one.rtt_ms and path_id in sizes
    }
    return _by_path(for_reports.hours_above(since, until, limits)) if limits else {}


def _tests_below(
    since: datetime, until: datetime, levels: Mapping[int, ServiceLevel], tested: Collection[int]
) -> dict[int, for_reports.Kept]:
    limits = {
        path_id: one.throughput_bps for path_id, one in levels.items() if one.throughput_bps and path_id in tested
    }
    return _by_path(for_reports.tests_below(since, until, limits)) if limits else {}


def _incidents(scope: Scope, path_ids: Collection[int], since: datetime, until: datetime) -> tuple[Incident, ...]:
    """Those with a path of the scope; of the whole mesh all, those without any path too."""
    found = incidents_between(since, until)
    if scope.kind == "mesh":
        return tuple(found)
    return tuple(one for one in found if any(row.path_id in path_ids for row in one.paths.all()))
