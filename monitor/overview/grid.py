"""The grid: every path's value of a metric over a period, with its state.

The pages and the REST API share it, so that they agree. In: a metric, a period, a packet size and a group. Out: a
`Grid`. No text for people and no colours: those belong to the pages.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from enum import StrEnum
from functools import partial

from monitor.alerts.incidents import quiet
from monitor.alerts.incidents.queries import open_incidents
from monitor.alerts.models import Incident, QuietPeriod
from monitor.analysis.loss import loss_bound_ratio
from monitor.archive.queries import tables
from monitor.archive.queries.metrics import Metric
from monitor.archive.queries.paths import measured_packet_sizes, newest_failures, newest_measurement_at
from monitor.archive.queries.throughput.series import PathThroughput, throughput_summaries
from monitor.archive.statements import LONGEST_RAW
from monitor.mesh.document.alert_rules import Place
from monitor.mesh.models import Group, Kind, Path, Site
from probes.contract import Outcome

DEFAULT_PACKET_BYTES = 100


class GridPeriod(StrEnum):
    HOUR = "hour"
    DAY = "day"
    WEEK = "week"
    MONTH = "month"

    @property
    def length(self) -> timedelta:
        return _LENGTHS[self]


_LENGTHS = {
    GridPeriod.HOUR: timedelta(hours=1),
    GridPeriod.DAY: timedelta(days=1),
    GridPeriod.WEEK: timedelta(days=7),
    GridPeriod.MONTH: timedelta(days=30),
}


class ComparedPeriod(StrEnum):
    """The earlier period that a grid is compared with."""

    WEEK = "week"
    YEAR = "year"

    @property
    def earlier(self) -> timedelta:
        """Whole weeks, so that weekdays meet weekdays."""
        return timedelta(weeks=1 if self is ComparedPeriod.WEEK else 52)

    @property
    def words(self) -> str:
        return "a week before" if self is ComparedPeriod.WEEK else "52 weeks before"


class PathState(StrEnum):
    """The state of a path. Only `VALUE` and `NONE_LOST` have a figure to compare; `UNDEFINED`
    was measured but leaves the metric undefined: conditional loss without loss."""

    VALUE = "value"
    NONE_LOST = "none_lost"
    UNDEFINED = "undefined"
    TOTAL_LOSS = "total_loss"
    NO_DATA = "no_data"
    NOT_MEASURED = "not_measured"
    OWN_TEST = "own_test"


@dataclass(frozen=True, slots=True)
class GridSite:
    """A row or a column."""

    id: int
    name: str
    title: str


@dataclass(frozen=True, slots=True)
class PathFigures:
    """A path over the period. `value` is the metric's, in the unit of its name. Unknown values are None; `outcome` is
    that of the newest failed test, `value_before` the metric's in the period compared with."""

    path_id: int
    source: str
    destination: str
    family: int
    incident_id: int | None
    in_maintenance: bool = False
    state: PathState = PathState.NO_DATA
    value: float | None = None
    sent: int | None = None
    received: int | None = None
    loss_ratio: float | None = None
    loss_bound_ratio: float | None = None
    tests: int | None = None
    tests_measured: int | None = None
    not_measured: int | None = None
    outcome: str | None = None
    value_before: float | None = None

    @property
    def has_figure(self) -> bool:
        return self.state in (PathState.VALUE, PathState.NONE_LOST)


@dataclass(frozen=True, slots=True)
class Grid:
    """All paths of a metric. `packet_bytes` is None for throughput."""

    metric: Metric
    period: GridPeriod
    packet_bytes: int | None
    packet_sizes: tuple[int, ...]
    group: str | None
    groups: tuple[str, ...]
    since: datetime
    until: datetime
    newest_measured_at: datetime | None
    sources: tuple[GridSite, ...]
    destinations: tuple[GridSite, ...]
    figures: tuple[PathFigures, ...]
    open_incidents: tuple[Incident, ...]
    against: ComparedPeriod | None = None


class UnknownChoice(ValueError):
    """An unknown packet size or group; the message lists the valid choices."""


@dataclass(frozen=True, slots=True)
class _PlannedPath:
    path_id: int
    source: GridSite
    destination: GridSite
    family: int


_Known = tuple[int, str, str, int, int | None, bool]
"""The first fields of `PathFigures`, known without any data."""


def load_grid(
    metric: Metric,
    period: GridPeriod,
    now: datetime,
    *,
    packet_bytes: int | None = None,
    group: str | None = None,
    against: ComparedPeriod | None = None,
) -> Grid:
    """The grid at `now`, with the values of the earlier period `against` if given. Raises `UnknownChoice`."""
    since = now - period.length
    sizes = tuple(measured_packet_sizes())
    size = choose_packet_bytes(sizes, packet_bytes)
    members = _members()
    chosen = _choose_group(members, group)
    sites = {site.id: site for site in _sites()}
    paths = [path for path in _planned_paths(metric, sites) if _is_in_group(path, chosen)]
    incidents = open_incidents()
    planned = _planned_fields(paths, incidents, _in_maintenance(paths, members, now))
    load = _test_figures if metric is Metric.THROUGHPUT else partial(_burst_figures, metric, size)
    figures = load(planned, since, now)
    if against is not None:
        earlier = load(planned, since - against.earlier, now - against.earlier)
        figures = tuple(replace(current, value_before=old.value) for current, old in zip(figures, earlier, strict=True))
    return Grid(
        metric=metric,
        period=period,
        packet_bytes=None if metric is Metric.THROUGHPUT else size,
        packet_sizes=sizes,
        group=group,
        groups=tuple(members),
        since=since,
        until=now,
        newest_measured_at=newest_measurement_at(),
        sources=_in_order(sites, {path.source for path in paths}),
        destinations=_in_order(sites, {path.destination for path in paths}),
        figures=figures,
        open_incidents=tuple(incidents),
        against=against,
    )


def choose_packet_bytes(sizes: tuple[int, ...], wanted: int | None) -> int:
    """The packet size to show: `wanted`, else the smallest. Raises `UnknownChoice`."""
    if wanted is None:
        return min(sizes, default=DEFAULT_PACKET_BYTES)
    if sizes and wanted not in sizes:
        there = ", ".join(str(size) for size in sizes)
        raise UnknownChoice(f"size={wanted}: no packets of that size were measured; there are {there}")
    return wanted


def worst(metric: Metric, figures: Iterable[PathFigures]) -> PathFigures:
    """The worst of several paths between the same two sites."""
    return max(figures, key=lambda path: badness(metric, path))


def badness(metric: Metric, path: PathFigures) -> tuple[int, float, int]:
    """Orders paths by trouble: the state first, then the figure. No two paths are equal."""
    sign = -1.0 if metric.lower_is_worse else 1.0
    figure = float("-inf") if path.value is None else sign * path.value
    return _SEVERITY[path.state], figure, -path.path_id


_SEVERITY = {
    PathState.TOTAL_LOSS: 4,
    PathState.VALUE: 3,
    PathState.NONE_LOST: 2,
    PathState.UNDEFINED: 1,
    PathState.OWN_TEST: 1,
    PathState.NOT_MEASURED: 1,
    PathState.NO_DATA: 0,
}


def _sites() -> list[GridSite]:
    return [GridSite(*row) for row in Site.objects.in_use().values_list("id", "name", "title")]


def _members() -> dict[str, set[int]]:
    """The sites of each group."""
    members: dict[str, set[int]] = {}
    rows = Group.objects.in_use().order_by("name").values_list("name", "sites")
    for name, site_id in rows:
        members.setdefault(name, set()).add(site_id)
    return members


def _choose_group(members: dict[str, set[int]], wanted: str | None) -> set[int] | None:
    if wanted is None:
        return None
    if wanted not in members:
        raise UnknownChoice(f"group={wanted}: there is no such group; there are {', '.join(members) or 'none'}")
    return members[wanted]


def _planned_paths(metric: Metric, sites: dict[int, GridSite]) -> list[_PlannedPath]:
    """The paths in use that the metric is measured on."""
    kind = Kind.THROUGHPUT if metric is Metric.THROUGHPUT else Kind.PING
    rows = (
        Path.objects.filter(retired_at=None, measurements__retired_at=None, measurements__test__kind=kind)
        .distinct()
        .values_list("id", "source__site_id", "destination__site_id", "family")
    )
    return [_PlannedPath(path_id, sites[source], sites[to], family) for path_id, source, to, family in rows]


def _is_in_group(path: _PlannedPath, members: set[int] | None) -> bool:
    return members is None or (path.source.id in members and path.destination.id in members)


def _in_order(sites: dict[int, GridSite], wanted: set[GridSite]) -> tuple[GridSite, ...]:
    return tuple(site for site in sites.values() if site in wanted)


def _in_maintenance(paths: list[_PlannedPath], members: dict[str, set[int]], now: datetime) -> set[int]:
    """The paths in maintenance now."""
    lasting = [quiet_time for quiet_time in quiet.in_force(now) if quiet_time.kind == QuietPeriod.Kind.MAINTENANCE]
    if not lasting:
        return set()
    sites = {site.id for path in paths for site in (path.source, path.destination)}
    groups = {site: frozenset(name for name, ids in members.items() if site in ids) for site in sites}
    places = {path.path_id: _place(path, groups) for path in paths}
    return {key for key, place in places.items() if any(quiet.covers(quiet_time, key, place) for quiet_time in lasting)}


def _place(path: _PlannedPath, groups: dict[int, frozenset[str]]) -> Place:
    """Within a group is a path both ends of which are in it."""
    return Place(path.source.name, path.destination.name, groups[path.source.id] & groups[path.destination.id])


def _planned_fields(paths: list[_PlannedPath], incidents: list[Incident], in_maintenance: set[int]) -> list[_Known]:
    troubled = {entry.path_id: incident.pk for incident in incidents for entry in incident.paths.all()}
    return [
        (
            *(path.path_id, path.source.name, path.destination.name, path.family),
            troubled.get(path.path_id),
            path.path_id in in_maintenance,
        )
        for path in paths
    ]


def _burst_figures(
    metric: Metric, packet_bytes: int, planned: list[_Known], since: datetime, until: datetime
) -> tuple[PathFigures, ...]:
    """The paths with the figures of their bursts; where none was measured, with the newest outcome of a day."""
    cells = {cell.path_id: cell for cell in tables.grid(metric, since, until, packet_bytes=packet_bytes)}
    figures = [_with_bursts(metric, path, cells.get(path[0])) for path in planned]
    wanted = [path.path_id for path in figures if path.state is PathState.NOT_MEASURED]
    if not wanted:
        return tuple(figures)
    newest = newest_failures(max(since, until - LONGEST_RAW), until, wanted)
    outcomes = {failure.path_id: failure.outcome for failure in newest}
    return tuple(
        replace(path, outcome=outcomes.get(path.path_id)) if path.state is PathState.NOT_MEASURED else path
        for path in figures
    )


def _with_bursts(metric: Metric, path: _Known, cell: tables.GridCell | None) -> PathFigures:
    if cell is None:
        return PathFigures(*path)
    return PathFigures(
        *path,
        state=_ping_state(metric, cell),
        value=cell.value,
        sent=cell.sent,
        received=cell.received,
        loss_ratio=cell.loss_ratio,
        loss_bound_ratio=loss_bound_ratio(cell.sent, cell.received),
        not_measured=cell.bursts_not_measured,
    )


def _ping_state(metric: Metric, cell: tables.GridCell) -> PathState:
    if cell.sent == 0:
        if cell.bursts_not_measured > 0:
            return PathState.NOT_MEASURED
        return PathState.OWN_TEST if cell.bursts_during_test > 0 else PathState.NO_DATA
    if cell.received == 0:
        return PathState.TOTAL_LOSS
    if cell.value is None:
        return PathState.UNDEFINED
    return PathState.NONE_LOST if metric is Metric.LOSS and cell.received == cell.sent else PathState.VALUE


def _test_figures(planned: list[_Known], since: datetime, until: datetime) -> tuple[PathFigures, ...]:
    """The paths with the figures of their throughput tests."""
    summaries = {summary.path_id: summary for summary in throughput_summaries(since, until)}
    return tuple(_with_tests(path, summaries.get(path[0])) for path in planned)


def _with_tests(path: _Known, summary: PathThroughput | None) -> PathFigures:
    if summary is None:
        return PathFigures(*path)
    return PathFigures(
        *path,
        state=PathState.NOT_MEASURED if summary.throughput_median_bps is None else PathState.VALUE,
        value=summary.throughput_median_bps,
        tests=summary.tests,
        tests_measured=summary.measured,
        not_measured=summary.tests - summary.measured,
        outcome=None if summary.latest_outcome == Outcome.MEASURED else summary.latest_outcome,
    )
