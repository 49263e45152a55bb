"""The loss of a mesh of many sites in the last hour: by pairs of places, and its paths worst first.

In: the places, a packet size and the time. Out: a `PlaceGrid` or a `PathList`, both with the `Grid` of their paths.
Both are made by the database from hourly summaries, and are shared by all readers for some seconds.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from monitor.alerts.incidents.queries import lasting_incidents
from monitor.alerts.models import Incident
from monitor.archive.periods import cover
from monitor.archive.queries.metrics import Metric
from monitor.archive.queries.paths import measured_packet_sizes
from monitor.archive.queries.wide import losses
from monitor.archive.queries.wide.losses import PathLoss, PlacePair
from monitor.mesh.models import KindName, Path
from monitor.overview.grid import Grid, GridPeriod, choose_packet_bytes
from monitor.overview.path_figures import PathFigures, of_cells
from monitor.overview.wide.places import SitePlaces
from monitor.overview.wide.shared import SharedResults

BAD_RATIO = 0.01
"""A path that lost so much is counted as bad: the end of PingER's band "good"."""
SHARED_FROM_SITES = 100
PERIOD = GridPeriod.HOUR
NEW_FOR, SHOWN_FOR = timedelta(seconds=10), timedelta(minutes=5)
"""The figures are of one to two hours, and the page has their time."""


@dataclass(frozen=True, slots=True)
class PairCell:
    """The paths from a place to another. `with_incident` counts those with an open incident; `worst` is the worst."""

    paths: int
    measured: int
    bad: int
    with_incident: int
    worst: PathFigures


@dataclass(frozen=True, slots=True)
class PlaceGrid:
    """The loss between places, by their numbers, and the `grid` that has the worst path of each pair. `at` is when it
    was counted."""

    places: SitePlaces
    cells: dict[tuple[int, int], PairCell]
    grid: Grid
    at: datetime


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
class _Counted:
    """Counts of the database at a time, of packets of a size, in a mesh of so many sites and paths."""

    at: datetime
    sites: int
    packet_bytes: int
    packet_sizes: tuple[int, ...]
    paths: int
    pairs: tuple[PlacePair, ...] = ()
    rows: tuple[PathLoss, ...] = ()


_counted: SharedResults[tuple[object, ...], _Counted] = SharedResults(
    new_for=NEW_FOR, shown_for=SHOWN_FOR, is_large=lambda counted: counted.sites >= SHARED_FROM_SITES
)


def load_place_grid(places: SitePlaces, packet_bytes: int | None, now: datetime) -> PlaceGrid:
    """The loss between all places. Raises `UnknownChoice` for a packet size that is not measured."""

    def count() -> _Counted:
        size, sizes = _sizes(packet_bytes)
        pairs = losses.place_pairs(
            places.number_of, _KINDS, size, now - PERIOD.history.length, now, bad_ratio=BAD_RATIO
        )
        paths = sum(pair.paths for pair in pairs)
        return _Counted(now, len(places.number_of), size, sizes, paths, pairs=tuple(pairs))

    counted = _counted.get(("pairs", packet_bytes, *places.number_of.items()), now, count)
    lasting = lasting_incidents()
    troubled = _open_paths(lasting)
    of_pair = _pairs_of(troubled, places)
    figures = _figures([pair.worst for pair in counted.pairs], troubled, counted.at)
    cells = {
        (pair.source, pair.destination): PairCell(
            pair.paths, pair.measured, pair.bad, of_pair[pair.source, pair.destination], worst
        )
        for pair, worst in zip(counted.pairs, figures, strict=True)
    }
    return PlaceGrid(places, cells, _grid(figures, lasting, counted), counted.at)


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
    figures = _figures(counted.rows, troubled, counted.at)
    return PathList(counted.paths, _grid(figures, lasting, counted), counted.at)


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


def _pairs_of(path_ids: Iterable[int], places: SitePlaces) -> Counter[tuple[int, int]]:
    """How many of these paths each pair of places has."""
    wanted = list(path_ids)
    if not wanted:
        return Counter()
    ends = Path.objects.filter(retired_at=None, id__in=wanted).values_list("source__site_id", "destination__site_id")
    return Counter((places.number_of[source], places.number_of[to]) for source, to in ends)


def _figures(rows: Sequence[PathLoss], troubled: dict[int, int], at: datetime) -> tuple[PathFigures, ...]:
    planned = [(row.path_id, row.source, row.destination, row.family, troubled.get(row.path_id), False) for row in rows]
    cells = [row.cell for row in rows if row.cell is not None]
    return of_cells(Metric.LOSS, planned, cells, at - PERIOD.history.length, at)


def _sizes(wanted: int | None) -> tuple[int, tuple[int, ...]]:
    """The packet size to show, and all there are."""
    sizes = tuple(measured_packet_sizes())
    return choose_packet_bytes(sizes, wanted), sizes


def _grid(figures: tuple[PathFigures, ...], lasting: Sequence[Incident], counted: _Counted) -> Grid:
    since = counted.at - PERIOD.history.length
    return Grid(
        metric=Metric.LOSS,
        period=PERIOD,
        packet_bytes=counted.packet_bytes,
        packet_sizes=counted.packet_sizes,
        group=None,
        groups=(),
        since=since,
        until=counted.at,
        covered_since=cover(since, counted.at)[0].since,
        newest_measured_at=None,
        sources=(),
        destinations=(),
        figures=figures,
        lasting_incidents=tuple(lasting),
    )
