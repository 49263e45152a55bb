"""The grid: every path's value of a metric over a period or now, with its state, for pages and REST API. Not here: text
and colours."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from enum import StrEnum

from monitor.alerts.incidents import quiet
from monitor.alerts.incidents.queries import lasting_incidents, paths_in
from monitor.alerts.models import Incident, QuietPeriod
from monitor.archive.periods import cover
from monitor.archive.queries import recent
from monitor.archive.queries.metrics import Metric
from monitor.archive.queries.paths import measured_packet_sizes, newest_measurement_at
from monitor.archive.upkeep import freshness
from monitor.archive.upkeep.freshness import Freshness
from monitor.mesh.document.alert_rules import Place
from monitor.mesh.models import Group, Host, KindName, Measurement, Path, Site, Test
from monitor.mesh.queries import sizes_sent
from monitor.overview import cell_now
from monitor.overview.cell_now import CellNow, with_levels
from monitor.overview.path_figures import (
    KnownFields,
    PathFigures,
    PathsNow,
    figures_now,
    figures_over,
    with_outcomes,
)
from monitor.overview.path_packets import other_packets, with_directions_now, with_directions_over, with_words
from monitor.present import read
from monitor.present.conditions import LATELY_S, SHOWN_CYCLES, Condition
from monitor.present.read import PresentPath
from monitor.present.track import AnySegment, Track

DEFAULT_PACKET_BYTES = 100


class HistoryPeriod(StrEnum):
    """A period up to the present that pages show."""

    HOUR = "hour"
    DAY = "day"
    WEEK = "week"
    MONTH = "month"

    @property
    def length(self) -> timedelta:
        return _LENGTHS[self]


_LENGTHS = {
    HistoryPeriod.HOUR: timedelta(hours=1),
    HistoryPeriod.DAY: timedelta(days=1),
    HistoryPeriod.WEEK: timedelta(days=7),
    HistoryPeriod.MONTH: timedelta(days=30),
}


class GridPeriod(StrEnum):
    """A period of the grid: a past period, or `NOW`: the last ten minutes, or three cycles if these are longer."""

    NOW = "now"
    HOUR = "hour"
    DAY = "day"
    WEEK = "week"
    MONTH = "month"

    @property
    def history(self) -> HistoryPeriod:
        """The period of a path's page linked from this grid."""
        return HistoryPeriod.HOUR if self is GridPeriod.NOW else HistoryPeriod(self.value)


NOW_LENGTH = timedelta(seconds=LATELY_S)
# Up to so many paths are looked up singly; more are read with all others.
FEW_PATHS = 5000


class ComparedPeriod(StrEnum):
    """The earlier period that a grid is compared with."""

    WEEK = "week"
    YEAR = "year"

    @property
    def earlier(self) -> timedelta:
        """How much earlier: whole weeks, so that weekdays match."""
        return timedelta(weeks=1 if self is ComparedPeriod.WEEK else 52)

    @property
    def words(self) -> str:
        return "a week before" if self is ComparedPeriod.WEEK else "52 weeks before"


@dataclass(frozen=True, slots=True)
class GridSite:
    """A site as a row or column."""

    id: int
    name: str
    title: str
    region: str = ""
    # The first of its groups by name.
    group: str = ""


@dataclass(frozen=True, slots=True)
class Grid:
    """All paths of a metric; in `NOW` a path has its track's level."""

    metric: Metric
    period: GridPeriod
    packet_bytes: int | None  # None for throughput
    packet_sizes: tuple[int, ...]
    group: str | None
    groups: tuple[str, ...]
    since: datetime  # for NOW the start of the longest window
    until: datetime
    covered_since: datetime  # start of the period's summaries
    newest_measured_at: datetime | None
    sources: tuple[GridSite, ...]
    destinations: tuple[GridSite, ...]
    figures: tuple[PathFigures, ...]
    lasting_incidents: tuple[Incident, ...]
    against: ComparedPeriod | None = None
    # Newest run of the centre, by which the present is known.
    fresh: Freshness | None = None

    @property
    def open_incidents(self) -> tuple[Incident, ...]:
        return tuple(incident for incident in self.lasting_incidents if not incident.is_pending)

    @property
    def is_smallest_size(self) -> bool:
        return self.packet_bytes == min(self.packet_sizes, default=self.packet_bytes)

    def track_of(self, path: PathFigures) -> Track | None:
        return cell_now.track_of(self.metric, self.packet_bytes, path.present) if self.is_now else None

    def level_of(self, path: PathFigures) -> AnySegment | None:
        return cell_now.level_of(self.track_of(path), self.since)

    def condition_of(self, path: PathFigures) -> Condition | None:
        """The condition of a cell; None except in `NOW`, and without pings."""
        return cell_now.condition_of(self.metric, self.packet_bytes, path.present) if self.is_now else None

    def ended_at(self, path: PathFigures) -> datetime | None:
        """When the trouble of a cell ended, if within the time shown."""
        return cell_now.end_of(self.track_of(path), self.since)

    def cell_now(self, path: PathFigures) -> CellNow:
        return cell_now.cell_now(self.metric, self.packet_bytes, path, self.track_of(path), self.since)

    @property
    def is_now(self) -> bool:
        return self.period is GridPeriod.NOW


class UnknownChoice(ValueError):
    """An unknown packet size or group; the message lists the valid choices."""


@dataclass(frozen=True, slots=True)
class _PlannedPath:
    path_id: int
    source: GridSite
    destination: GridSite
    family: int
    every_s: int
    measured_by: str | None
    has_directions: bool


def load_grid(
    metric: Metric,
    period: GridPeriod,
    now: datetime,
    *,
    packet_bytes: int | None = None,
    group: str | None = None,
    against: ComparedPeriod | None = None,
    between: tuple[Collection[int], Collection[int]] | None = None,
    path_ids: Collection[int] | None = None,
    lasting: Sequence[Incident] | None = None,
) -> Grid:
    """The grid at `now` of all paths, or those `between` sites or in `path_ids`, with values of `against` to compare.
    `lasting` are open and pending incidents, if read already. Raises `UnknownChoice`."""
    sizes = tuple(measured_packet_sizes())
    size = choose_packet_bytes(sizes, packet_bytes)
    members = _members()
    chosen = _choose_group(members, group)
    sites = {site.id: site for site in _sites(members)}
    if chosen is not None:
        between = (chosen, chosen) if between is None else (chosen & {*between[0]}, chosen & {*between[1]})
    paths = _planned_paths(metric, size, sites, between, path_ids)
    lasting, fresh = lasting_incidents() if lasting is None else lasting, freshness.load()
    incidents = [incident for incident in lasting if not incident.is_pending]
    planned = _planned_fields(paths, incidents, _in_maintenance(paths, members, now), _present(paths, fresh, now))
    earlier = None if against is None else against.earlier
    if period is GridPeriod.NOW:
        if metric in recent.OF_WHOLE_HOURS - {Metric.THROUGHPUT}:
            raise UnknownChoice(f"period=now: {metric} is of whole hours; choose {', '.join(HistoryPeriod)}")
        begins = {path.path_id: now - max(NOW_LENGTH, SHOWN_CYCLES * timedelta(seconds=path.every_s)) for path in paths}
        since = min(begins.values(), default=now - NOW_LENGTH)
        if metric is Metric.RTT_MEDIAN and size != min(sizes, default=size):
            begins = cell_now.rtt_begins(begins, {path[0]: path[6] for path in planned})
        asked = PathsNow(metric, size, planned, begins, now)

        def load(before: timedelta) -> tuple[PathFigures, ...]:
            return figures_now(asked.before(before))
    else:
        since = now - period.history.length

        def load(before: timedelta) -> tuple[PathFigures, ...]:
            only_these = path_ids is not None or (between is not None and len(paths) < FEW_PATHS)
            return figures_over(metric, size, planned, since - before, now - before, only_these=only_these)

    figures = load(timedelta(0))
    if earlier is not None:
        figures = tuple(
            replace(current, value_before=old.value) for current, old in zip(figures, load(earlier), strict=True)
        )
    if period is GridPeriod.NOW:
        figures = with_levels(metric, size, figures, since, is_smallest_size=size == min(sizes, default=size))
        figures = with_outcomes(figures, since, now)
    if metric is not Metric.THROUGHPUT:
        figures = with_words(figures, {path.path_id: path.measured_by for path in paths if path.measured_by})
    counted = {path.path_id for path in paths if path.has_directions}
    if metric is Metric.LOSS and counted:
        if period is GridPeriod.NOW:
            figures = with_directions_now(figures, counted, begins, now)
        else:
            figures = with_directions_over(figures, counted, since, now)
    return Grid(
        metric=metric,
        period=period,
        packet_bytes=None if metric is Metric.THROUGHPUT else size,
        packet_sizes=sizes,
        group=group,
        groups=tuple(members),
        since=since,
        until=now,
        covered_since=since if period is GridPeriod.NOW else cover(since, now)[0].since,
        newest_measured_at=newest_measurement_at(),
        sources=_in_order(sites, {path.source for path in paths}),
        destinations=_in_order(sites, {path.destination for path in paths}),
        figures=figures,
        lasting_incidents=tuple(lasting),
        against=against,
        fresh=fresh,
    )


def choose_packet_bytes(sizes: tuple[int, ...], wanted: int | None) -> int:
    """Return `wanted`, or the smallest size without it. Raises `UnknownChoice`."""
    if wanted is None:
        return min(sizes, default=DEFAULT_PACKET_BYTES)
    if sizes and wanted not in sizes:
        there = ", ".join(str(size) for size in sizes)
        raise UnknownChoice(f"size={wanted}: no packets of that size were measured; there are {there}")
    return wanted


def measured_packet_bytes(wanted: int | None = None) -> int:
    """As `choose_packet_bytes`, of the sizes measured."""
    return choose_packet_bytes(tuple(measured_packet_sizes()), wanted)


def _sites(members: dict[str, set[int]]) -> list[GridSite]:
    first_group = {site_id: name for name in sorted(members, reverse=True) for site_id in members[name]}
    rows = Site.objects.in_use().values_list("id", "name", "title", "region")
    return [GridSite(*row, group=first_group.get(row[0], "")) for row in rows]


def _members() -> dict[str, set[int]]:
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


def _planned_paths(
    metric: Metric,
    packet_bytes: int,
    sites: dict[int, GridSite],
    between: tuple[Collection[int], Collection[int]] | None,
    path_ids: Collection[int] | None,
) -> list[_PlannedPath]:
    """Paths with the metric, and their shortest cycle at this (or any) size."""
    kind = KindName.THROUGHPUT if metric is Metric.THROUGHPUT else KindName.PING
    tests = {test.pk: test for test in Test.objects.filter(kind__in=kind.alternatives)}
    of_test = {
        key: (
            kind is KindName.PING and packet_bytes not in sizes_sent(test.parameters.get("packet_bytes")),
            test.every_s,
        )
        for key, test in tests.items()
    }
    # Two lists and a dictionary instead of joins: a mesh has few tests and hosts, and up to 100,000 paths.
    cycles: dict[int, tuple[bool, int]] = {}
    paths, measured = Path.objects.filter(retired_at=None), Measurement.objects.filter(retired_at=None)
    if between is not None:
        paths = paths.filter(source__site__in=between[0], destination__site__in=between[1])
    if path_ids is not None:
        paths = paths.filter(id__in=path_ids)
    if between is not None or path_ids is not None:
        measured = measured.filter(path__in=list(paths.values_list("id", flat=True)))
    measured = measured.filter(test__in=list(of_test))
    links = list(measured.order_by().values_list("path_id", "test_id"))
    for path_id, test_id in links:
        cycle = of_test[test_id]
        cycles[path_id] = min(cycle, cycles.get(path_id, cycle))
    words, with_directions = other_packets(links, tests)
    site_of = dict(Host.objects.values_list("id", "site_id"))
    rows = paths.values_list("id", "source_id", "destination_id", "family")
    return [
        _PlannedPath(
            *(path_id, sites[site_of[source]], sites[site_of[to]], family, cycles[path_id][1]),
            *(words.get(path_id), path_id in with_directions),
        )
        for path_id, source, to, family in rows
        if path_id in cycles
    ]


def _in_order(sites: dict[int, GridSite], wanted: set[GridSite]) -> tuple[GridSite, ...]:
    return tuple(site for site in sites.values() if site in wanted)


def _in_maintenance(paths: list[_PlannedPath], members: dict[str, set[int]], now: datetime) -> set[int]:
    lasting = [quiet_time for quiet_time in quiet.in_force(now) if quiet_time.kind == QuietPeriod.Kind.MAINTENANCE]
    if not lasting:
        return set()
    sites = {site.id for path in paths for site in (path.source, path.destination)}
    groups = {site: frozenset(name for name, ids in members.items() if site in ids) for site in sites}
    places = {path.path_id: _place(path, groups) for path in paths}
    return {key for key, place in places.items() if any(quiet.covers(quiet_time, key, place) for quiet_time in lasting)}


def _place(path: _PlannedPath, groups: dict[int, frozenset[str]]) -> Place:
    """The place of a path; it is in a group if both ends are."""
    return Place(path.source.name, path.destination.name, groups[path.source.id] & groups[path.destination.id])


def _present(paths: list[_PlannedPath], fresh: Freshness, now: datetime) -> dict[int, PresentPath]:
    if not fresh.is_evaluated(now):
        return {}
    # Of many paths those of all are read: a list of 90,000 ids takes longer.
    return read.load([path.path_id for path in paths] if len(paths) < FEW_PATHS else None)


def _planned_fields(
    paths: list[_PlannedPath],
    incidents: list[Incident],
    in_maintenance: set[int],
    presents: Mapping[int, PresentPath],
) -> list[KnownFields]:
    troubled = {path_id: incident.pk for path_id, incident in paths_in(incidents)}
    return [
        (
            *(path.path_id, path.source.name, path.destination.name, path.family),
            troubled.get(path.path_id),
            path.path_id in in_maintenance,
            presents.get(path.path_id),
        )
        for path in paths
    ]
