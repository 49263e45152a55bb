"""The figures of a mesh of many sites in the last hour: by pairs of places, and the loss of its paths worst first.

In: the places, a metric, a packet size and the time. Out: a `PlaceGrid` or a `PathList`, both with the `Grid` of their
paths. Both are made by the database from hourly summaries, and are shared by all readers for some seconds.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from monitor.alerts.incidents.queries import lasting_incidents
from monitor.alerts.models import Incident
from monitor.archive.periods import cover
from monitor.archive.queries.metrics import Metric
from monitor.archive.queries.paths import measured_packet_sizes
from monitor.archive.queries.wide import losses
from monitor.archive.queries.wide.losses import PathLoss
from monitor.mesh.models import KindName, Path
from monitor.overview.grid import Grid, GridPeriod, choose_packet_bytes, load_grid
from monitor.overview.path_figures import KnownFields, PathFigures, of_cells, worst
from monitor.overview.wide.places import SitePlaces
from monitor.overview.wide.shared import SharedResults

BAD_RATIO = 0.01
"""A path that lost so much is counted as bad: the end of PingER's band "good"."""
BAD_FROM = {Metric.LOSS: BAD_RATIO, Metric.UNREACHABILITY: 0.01, Metric.MOS: 3.6}
"""From which value on a path is counted as bad, or below it: MOS at which many are dissatisfied (ITU-T G.107)."""
SHARED_FROM_SITES = 100
PERIOD = GridPeriod.HOUR
TESTS_PERIOD = GridPeriod.DAY
"""For throughput: a path has only a few tests a day."""
NEW_FOR, SHOWN_FOR = timedelta(seconds=10), timedelta(minutes=5)
"""The figures are of one to two hours, and the page has their time."""


@dataclass(frozen=True, slots=True)
class PairCell:
    """The paths from a place to another. `with_incident` counts those with an open incident, `incident_id` is that of
    one of them; `worst` is the worst."""

    paths: int
    measured: int
    bad: int
    with_incident: int
    incident_id: int | None
    worst: PathFigures


@dataclass(frozen=True, slots=True)
class PlaceGrid:
    """The figures between places, by their numbers, and the `grid` that has the worst path of each pair. `at` is when
    it was counted, `bad_from` the value from which on a path is bad, None for a metric without any."""

    places: SitePlaces
    cells: dict[tuple[int, int], PairCell]
    grid: Grid
    at: datetime
    bad_from: float | None


@dataclass(frozen=True, slots=True)
class PathChoice:
    """Which paths a list has: from and to the sites of a place, with a text in the name of an end, only bad ones."""

    sources: str | None = None
    destinations: str | None = None
    name: str = ""
    only_bad: bool = False


@dataclass(frozen=True, slots=True)
class PathList:
    """A page of paths, worst first, of so many, in the `grid` of its paths."""

    total: int
    grid: Grid
    at: datetime


@dataclass(frozen=True, slots=True)
class _Pair:
    """A pair of places with its worst path, without incidents."""

    ends: tuple[int, int]
    paths: int
    measured: int
    bad: int
    worst: PathFigures


@dataclass(frozen=True, slots=True)
class _Counted:
    """Counts of the database at a time, of packets of a size, in a mesh of so many sites and paths."""

    at: datetime
    sites: int
    packet_bytes: int
    packet_sizes: tuple[int, ...]
    paths: int
    pairs: tuple[_Pair, ...] = ()
    rows: tuple[PathLoss, ...] = ()


_counted: SharedResults[tuple[object, ...], _Counted] = SharedResults(
    new_for=NEW_FOR, shown_for=SHOWN_FOR, is_large=lambda counted: counted.sites >= SHARED_FROM_SITES
)


def load_place_grid(
    places: SitePlaces, packet_bytes: int | None, now: datetime, metric: Metric = Metric.LOSS
) -> PlaceGrid:
    """The metric between all places. Raises `UnknownChoice` for a packet size that is not measured."""

    def count() -> _Counted:
        size, sizes = _sizes(packet_bytes)
        of_tests = metric is Metric.THROUGHPUT
        pairs = _pairs_of_tests(places, now) if of_tests else _pairs_of_packets(metric, places, size, now)
        return _Counted(now, len(places.number_of), size, sizes, sum(pair.paths for pair in pairs), pairs=tuple(pairs))

    counted = _counted.get(("pairs", metric, packet_bytes, *places.number_of.items()), now, count)
    lasting = lasting_incidents()
    troubled = _open_paths(lasting)
    of_pair = _by_pair(troubled, places)
    cells = {
        pair.ends: PairCell(
            pair.paths,
            pair.measured,
            pair.bad,
            len(incidents := of_pair.get(pair.ends, [])),
            max(incidents, default=None),
            replace(pair.worst, incident_id=troubled.get(pair.worst.path_id)),
        )
        for pair in counted.pairs
    }
    figures = tuple(cell.worst for cell in cells.values())
    return PlaceGrid(places, cells, _grid(metric, figures, lasting, counted), counted.at, BAD_FROM.get(metric))


def _pairs_of_packets(metric: Metric, places: SitePlaces, packet_bytes: int, now: datetime) -> list[_Pair]:
    since, bad_from = now - PERIOD.history.length, BAD_FROM.get(metric)
    pairs = losses.place_pairs(metric, places.number_of, _KINDS, packet_bytes, since, now, bad_from=bad_from)
    figures = _figures(metric, [pair.worst for pair in pairs], {}, now)
    return [
        _Pair((pair.source, pair.destination), pair.paths, pair.measured, pair.bad, path)
        for pair, path in zip(pairs, figures, strict=True)
    ]


def _pairs_of_tests(places: SitePlaces, now: datetime) -> list[_Pair]:
    """The pairs of places with throughput tests. Each takes a link for seconds, so that few paths have any."""
    grid = load_grid(Metric.THROUGHPUT, TESTS_PERIOD, now, lasting=())
    number_of = {site.name: places.number_of[site.id] for site in (*grid.sources, *grid.destinations)}
    between: dict[tuple[int, int], list[PathFigures]] = defaultdict(list)
    for path in grid.figures:
        between[number_of[path.source], number_of[path.destination]].append(path)
    return [
        _Pair(ends, len(paths), sum(path.value is not None for path in paths), 0, worst(Metric.THROUGHPUT, paths))
        for ends, paths in between.items()
    ]


def load_path_list(
    places: SitePlaces, choice: PathChoice, packet_bytes: int | None, now: datetime, *, limit: int, offset: int
) -> PathList:
    """A page of the paths of the choice: those with an open incident, then the worst. Raises `UnknownChoice` for a
    packet size that is not measured."""
    lasting = lasting_incidents()
    troubled = _open_paths(lasting)

    def count() -> _Counted:
        size, sizes = _sizes(packet_bytes)
        rows, total = losses.worst_losses(
            places.number_of,
            _KINDS,
            size,
            now - PERIOD.history.length,
            now,
            bad_ratio=BAD_RATIO,
            sources=None if choice.sources is None else places.sites_of(choice.sources),
            destinations=None if choice.destinations is None else places.sites_of(choice.destinations),
            name=choice.name or None,
            first=troubled,
            only_bad=choice.only_bad,
            limit=limit,
            offset=offset,
        )
        return _Counted(now, len(places.number_of), size, sizes, total, rows=tuple(rows))

    counted = _counted.get(("list", packet_bytes, choice, limit, offset, frozenset(troubled)), now, count)
    figures = _figures(Metric.LOSS, counted.rows, troubled, counted.at)
    return PathList(counted.paths, _grid(Metric.LOSS, figures, lasting, counted), counted.at)


_KINDS = tuple(kind.value for kind in KindName.PING.alternatives)


def _open_paths(lasting: Iterable[Incident]) -> dict[int, int]:
    """The open incident of each path with one."""
    return {
        row.path_id: incident.pk
        for incident in lasting
        if not incident.is_pending
        for row in incident.paths.all()
        if not row.is_over
    }


def _by_pair(troubled: Mapping[int, int], places: SitePlaces) -> dict[tuple[int, int], list[int]]:
    """The open incident of each path with one, by the pair of places that it is between."""
    of_pair: dict[tuple[int, int], list[int]] = defaultdict(list)
    if troubled:
        paths = Path.objects.filter(retired_at=None, id__in=list(troubled))
        for path_id, source, to in paths.values_list("id", "source__site_id", "destination__site_id"):
            of_pair[places.number_of[source], places.number_of[to]].append(troubled[path_id])
    return of_pair


def _figures(
    metric: Metric, rows: Sequence[PathLoss], troubled: Mapping[int, int], at: datetime
) -> tuple[PathFigures, ...]:
    planned: list[KnownFields] = [
        (row.path_id, row.source, row.destination, row.family, troubled.get(row.path_id), False, None) for row in rows
    ]
    cells = [row.cell for row in rows if row.cell is not None]
    return of_cells(metric, planned, cells, at - PERIOD.history.length, at)


def _sizes(wanted: int | None) -> tuple[int, tuple[int, ...]]:
    """The packet size to show, and all there are."""
    sizes = tuple(measured_packet_sizes())
    return choose_packet_bytes(sizes, wanted), sizes


def _grid(metric: Metric, figures: tuple[PathFigures, ...], lasting: Sequence[Incident], counted: _Counted) -> Grid:
    of_tests = metric is Metric.THROUGHPUT
    period = TESTS_PERIOD if of_tests else PERIOD
    since = counted.at - period.history.length
    return Grid(
        metric=metric,
        period=period,
        packet_bytes=None if of_tests else counted.packet_bytes,
        packet_sizes=counted.packet_sizes,
        group=None,
        groups=(),
        since=since,
        until=counted.at,
        covered_since=since if of_tests else cover(since, counted.at)[0].since,
        newest_measured_at=None,
        sources=(),
        destinations=(),
        figures=figures,
        lasting_incidents=tuple(lasting),
    )
