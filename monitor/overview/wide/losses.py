"""Paths of a mesh with many sites, by pairs of places or worst first. Loss is the present loss by stored conditions,
other metrics cover the last hour; readers share results for seconds."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from monitor.alerts.incidents.queries import lasting_incidents
from monitor.alerts.models import Incident
from monitor.archive.queries.metrics import Metric
from monitor.archive.queries.wide import ranking
from monitor.archive.queries.wide.ranking import PlacePair, Ranking
from monitor.archive.upkeep import freshness
from monitor.mesh.models import KindName, Path
from monitor.overview.grid import Grid, GridPeriod, load_grid, measured_packet_bytes
from monitor.overview.path_figures import PathFigures, worst
from monitor.overview.wide.places import SitePlaces
from monitor.overview.wide.shared import SharedResults
from monitor.present.conditions import TROUBLE, Condition

# Value from which a path is bad; MOS below which, as many users are dissatisfied (ITU-T G.107).
BAD_FROM = {Metric.UNREACHABILITY: 0.01, Metric.MOS: 3.6}
UNMEASURED = (Condition.OVERDUE, Condition.NOT_PERMITTED)
# Others an hour, as all packets take long to read; throughput has few tests a day.
PERIODS = {Metric.LOSS: GridPeriod.NOW, Metric.THROUGHPUT: GridPeriod.DAY}
SHARED_FROM_SITES = 100
NEW_FOR, SHOWN_FOR = timedelta(seconds=10), timedelta(seconds=30)


@dataclass(frozen=True, slots=True)
class PairCell:
    """The paths from a place to another."""

    paths: int
    measured: int
    bad: int  # in trouble, or beyond the metric's bound
    with_incident: int
    incident_id: int | None  # of one path with_incident
    worst: PathFigures


@dataclass(frozen=True, slots=True)
class PlaceGrid:
    """The figures between places, by their numbers."""

    places: SitePlaces
    cells: dict[tuple[int, int], PairCell]
    grid: Grid  # the worst path of each pair
    at: datetime  # time of counting
    counts_bad: bool  # False: no path is classed as good or bad


@dataclass(frozen=True, slots=True)
class PathChoice:
    """Selection of a list's paths."""

    sources: str | None = None  # place
    destinations: str | None = None  # place
    name: str = ""  # text in the name of an end
    only_bad: bool = False


@dataclass(frozen=True, slots=True)
class PathList:
    """A page of paths, worst first."""

    total: int  # of all pages
    grid: Grid
    at: datetime


@dataclass(frozen=True, slots=True)
class _Chosen:
    """The database's selection of pairs of places, or of a page of paths."""

    at: datetime
    sites: int  # of the mesh
    grid: Grid  # of the worst paths
    paths: int = 0
    pairs: tuple[PlacePair, ...] = ()
    is_judged: bool = True


_chosen: SharedResults[tuple[object, ...], _Chosen] = SharedResults(
    new_for=NEW_FOR, shown_for=SHOWN_FOR, is_large=lambda chosen: chosen.sites >= SHARED_FROM_SITES
)


def load_place_grid(
    places: SitePlaces, packet_bytes: int | None, now: datetime, metric: Metric = Metric.LOSS
) -> PlaceGrid:
    """The metric between all places. Raises `UnknownChoice` for an unmeasured packet size."""

    def choose() -> _Chosen:
        if metric is Metric.THROUGHPUT:
            return _choose_by_tests(places, now)
        size, is_judged = measured_packet_bytes(packet_bytes), _is_judged(now)
        pairs = ranking.place_pairs(places.number_of, _KINDS, _ranking(metric, size, now, is_judged=is_judged))
        grid = load_grid(
            metric, _period(metric), now, packet_bytes=size, path_ids=[pair.worst for pair in pairs], lasting=()
        )
        return _Chosen(now, len(places.number_of), grid, pairs=tuple(pairs), is_judged=is_judged)

    chosen = _chosen.get(("pairs", metric, packet_bytes, *places.number_of.items()), now, choose)
    lasting = lasting_incidents()
    troubled = _open_paths(lasting)
    grid, of_pair = _with_incidents(chosen.grid, lasting, troubled), _by_pair(troubled, places)
    by_id = {path.path_id: path for path in grid.figures}
    cells = {
        (pair.source, pair.destination): PairCell(
            pair.paths,
            pair.measured,
            pair.bad,
            len(incidents := of_pair.get((pair.source, pair.destination), [])),
            max(incidents, default=None),
            by_id[pair.worst],
        )
        for pair in chosen.pairs
        if pair.worst in by_id
    }
    counts_bad = chosen.is_judged and (metric is Metric.LOSS or metric in BAD_FROM)
    return PlaceGrid(places, cells, grid, chosen.at, counts_bad)


def load_path_list(
    places: SitePlaces, choice: PathChoice, packet_bytes: int | None, now: datetime, *, limit: int, offset: int
) -> PathList:
    """A page of the selected paths: with an open incident, in trouble, then by loss. Raises `UnknownChoice` for an
    unmeasured packet size."""
    lasting = lasting_incidents()
    troubled = _open_paths(lasting)

    def choose() -> _Chosen:
        size, is_judged = measured_packet_bytes(packet_bytes), _is_judged(now)
        path_ids, total = ranking.worst_paths(
            places.number_of,
            _KINDS,
            _ranking(Metric.LOSS, size, now, is_judged=is_judged),
            sources=None if choice.sources is None else places.sites_of(choice.sources),
            destinations=None if choice.destinations is None else places.sites_of(choice.destinations),
            name=choice.name or None,
            first=troubled,
            only_bad=choice.only_bad,
            limit=limit,
            offset=offset,
        )
        grid = load_grid(Metric.LOSS, GridPeriod.NOW, now, packet_bytes=size, path_ids=path_ids, lasting=())
        order = {path_id: number for number, path_id in enumerate(path_ids)}
        figures = tuple(sorted(grid.figures, key=lambda path: order[path.path_id]))
        return _Chosen(now, len(places.number_of), replace(grid, figures=figures), total)

    chosen = _chosen.get(("list", packet_bytes, choice, limit, offset, frozenset(troubled)), now, choose)
    return PathList(chosen.paths, _with_incidents(chosen.grid, lasting, troubled), chosen.at)


_KINDS = tuple(kind.value for kind in KindName.PING.alternatives)


def _period(metric: Metric) -> GridPeriod:
    return PERIODS.get(metric, GridPeriod.HOUR)


def _ranking(metric: Metric, packet_bytes: int, now: datetime, *, is_judged: bool) -> Ranking:
    if metric is not Metric.LOSS:
        since = now - _period(metric).history.length
        return ranking.by_value(metric, packet_bytes, since, now, bad_from=BAD_FROM.get(metric))
    return ranking.by_condition(
        packet_bytes,
        normal=Condition.NORMAL,
        trouble=TROUBLE,
        unmeasured=UNMEASURED,
        is_current=is_judged,
    )


def _choose_by_tests(places: SitePlaces, now: datetime) -> _Chosen:
    # All paths at once: few have throughput tests, each of which takes a link for seconds.
    grid = load_grid(Metric.THROUGHPUT, _period(Metric.THROUGHPUT), now, lasting=())
    number_of = {site.name: places.number_of[site.id] for site in (*grid.sources, *grid.destinations)}
    between: dict[tuple[int, int], list[PathFigures]] = defaultdict(list)
    for path in grid.figures:
        between[number_of[path.source], number_of[path.destination]].append(path)
    of_pair = {ends: worst(Metric.THROUGHPUT, paths) for ends, paths in between.items()}
    pairs = tuple(
        PlacePair(*ends, len(paths), sum(path.value is not None for path in paths), 0, of_pair[ends].path_id)
        for ends, paths in between.items()
    )
    return _Chosen(now, len(places.number_of), replace(grid, figures=tuple(of_pair.values())), pairs=pairs)


def _is_judged(now: datetime) -> bool:
    return freshness.load().is_evaluated(now)


def _open_paths(lasting: Iterable[Incident]) -> dict[int, int]:
    return {
        row.path_id: incident.pk
        for incident in lasting
        if not incident.is_pending
        for row in incident.paths.all()
        if not row.is_over
    }


def _by_pair(troubled: Mapping[int, int], places: SitePlaces) -> dict[tuple[int, int], list[int]]:
    of_pair: dict[tuple[int, int], list[int]] = defaultdict(list)
    if troubled:
        paths = Path.objects.filter(retired_at=None, id__in=list(troubled))
        for path_id, source, to in paths.values_list("id", "source__site_id", "destination__site_id"):
            of_pair[places.number_of[source], places.number_of[to]].append(troubled[path_id])
    return of_pair


def _with_incidents(grid: Grid, lasting: Sequence[Incident], troubled: Mapping[int, int]) -> Grid:
    figures = tuple(replace(path, incident_id=troubled.get(path.path_id)) for path in grid.figures)
    return replace(grid, figures=figures, lasting_incidents=tuple(lasting))
