"""Rows and columns of the grid: their order, folded places, and the paths in each cell."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import StrEnum

from monitor.archive.queries.metrics import Metric
from monitor.overview.grid import Grid, GridSite
from monitor.overview.path_figures import PathFigures, badness

EVERY_PLACE = "*"
NO_PLACE = "(none)"


class GridOrder(StrEnum):
    """The order of rows and columns, or `LIST` for a list of paths instead."""

    SITE = "site"
    WORST = "worst"
    REGION = "region"
    GROUP = "group"
    LIST = "list"


@dataclass(frozen=True, slots=True)
class GridView:
    """Selection and order of a grid's paths."""

    order: GridOrder = GridOrder.SITE
    problems_only: bool = False
    name: str = ""  # text in the name of an end
    folded: frozenset[str] = frozenset()  # regions or groups

    def is_folded(self, place: str) -> bool:
        return place in self.folded or EVERY_PLACE in self.folded


@dataclass(frozen=True, slots=True)
class GridLine:
    """A row or a column: a site, or a folded place with several."""

    name: str
    title: str
    sites: tuple[str, ...]
    place: str = ""
    is_folded: bool = False
    begins: bool = False  # another place begins here


@dataclass(frozen=True, slots=True)
class PlaceCount:
    name: str
    sites: int


@dataclass(frozen=True, slots=True)
class GridLayout:
    """The paths of a grid by rows and columns."""

    rows: tuple[GridLine, ...]
    columns: tuple[GridLine, ...]
    cells: dict[tuple[int, int], list[PathFigures]]  # paths by places in rows and columns; no empty cells
    places: tuple[PlaceCount, ...]

    @property
    def size(self) -> int:
        return len(self.rows) * len(self.columns)


def lay_out(grid: Grid, view: GridView, is_problem: Callable[[PathFigures], bool]) -> GridLayout:
    """Lay out the view's rows and columns, without sites that have no visible path; sites selected by name come
    first."""
    shown = [path for path in grid.figures if _is_selected(view, path) and (not view.problems_only or is_problem(path))]
    narrowed = len(shown) < len(grid.figures)
    rows = _lines(grid.metric, view, grid.sources, shown, narrowed, lambda path: path.source)
    columns = _lines(grid.metric, view, grid.destinations, shown, narrowed, lambda path: path.destination)
    row_of = {site: number for number, line in enumerate(rows) for site in line.sites}
    column_of = {site: number for number, line in enumerate(columns) for site in line.sites}
    cells: dict[tuple[int, int], list[PathFigures]] = {}
    for path in shown:
        cells.setdefault((row_of[path.source], column_of[path.destination]), []).append(path)
    return GridLayout(rows, columns, cells, _places(view.order, grid))


def _is_selected(view: GridView, path: PathFigures) -> bool:
    return not view.name or view.name in path.source.lower() or view.name in path.destination.lower()


def _lines(
    metric: Metric,
    view: GridView,
    sites: Iterable[GridSite],
    shown: list[PathFigures],
    narrowed: bool,
    end: Callable[[PathFigures], str],
) -> tuple[GridLine, ...]:
    if narrowed:
        present = {end(path) for path in shown}
        sites = [site for site in sites if site.name in present]
    ordered = list(sites)
    if view.order is GridOrder.WORST:
        worst: dict[str, tuple[int, float, int]] = {}
        for path in shown:
            bad = badness(metric, path)
            worst[end(path)] = max(bad, worst.get(end(path), bad))
        ordered.sort(key=lambda site: worst.get(site.name, (-1, 0.0, 0)), reverse=True)
    if view.name:
        ordered.sort(key=lambda site: view.name not in site.name)
    place_of = _place_of(view.order)
    if place_of is None:
        return tuple(GridLine(site.name, site.title, (site.name,)) for site in ordered)
    ordered.sort(key=place_of)
    by_place: dict[str, list[GridSite]] = {}
    for site in ordered:
        by_place.setdefault(place_of(site), []).append(site)
    lines: list[GridLine] = []
    for place, members in by_place.items():
        if view.is_folded(place):
            names = tuple(site.name for site in members)
            title = f"{len(names)} site{'s' if len(names) > 1 else ''}"
            lines.append(
                GridLine(place, title, names, place, is_folded=True, begins=bool(lines) and not lines[-1].is_folded)
            )
            continue
        for number, site in enumerate(members):
            lines.append(GridLine(site.name, site.title, (site.name,), place, begins=number == 0))
    return tuple(lines)


def _place_of(order: GridOrder) -> Callable[[GridSite], str] | None:
    if order is GridOrder.REGION:
        return lambda site: site.region or NO_PLACE
    if order is GridOrder.GROUP:
        return lambda site: site.group or NO_PLACE
    return None


def _places(order: GridOrder, grid: Grid) -> tuple[PlaceCount, ...]:
    place_of = _place_of(order)
    if place_of is None:
        return ()
    counts: dict[str, int] = {}
    for site in {site.id: site for site in (*grid.sources, *grid.destinations)}.values():
        counts[place_of(site)] = counts.get(place_of(site), 0) + 1
    return tuple(PlaceCount(name, counts[name]) for name in sorted(counts))
