"""Grid of a request with layout, cells and version, for the page and its refreshes."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from hashlib import blake2b
from threading import Lock

from django.http import HttpRequest

from monitor.overview.grid import Grid
from monitor.overview.grid_layout import GridLayout, GridOrder, GridView, lay_out
from monitor.overview.measures import MetricFormat
from monitor.web.pages.grid import choices, drawn, matrix
from monitor.web.pages.grid.cells import is_problem, measure_of_grid
from monitor.web.request.grid_choices import derived_once, load_chosen_grid

DRAWN_FROM_CELLS = 50 * 50
# With their figures so many columns do not fit on a screen.
COMPACT_FROM_SITES = 20
VERSIONS_KEPT = 24


@dataclass(frozen=True, slots=True)
class GridContents:
    grid: Grid
    measure: MetricFormat
    view: GridView
    layout: GridLayout
    is_drawn: bool
    is_compact: bool
    unfolding: dict[str, str]  # query that unfolds each folded place
    place_links: list[choices.PlaceLink]

    @property
    def is_list(self) -> bool:
        return self.view.order is GridOrder.LIST

    def cells(self) -> list[str]:
        """Cells as HTML, or as codes of a drawn grid."""
        narrowed = self.view.problems_only or bool(self.view.name)
        if self.is_drawn:
            return derived_once(
                self.grid,
                ("codes", self.view),
                lambda: drawn.codes(self.grid, self.measure, self.layout, is_narrowed=narrowed),
            )
        return matrix.cells_html(
            *(self.grid, self.measure, self.layout),
            is_compact=self.is_compact,
            is_narrowed=narrowed,
            unfolding=self.unfolding,
        )

    def version(self, cells: Sequence[str]) -> str:
        """Version of these cells: a digest of the axes, a dash, a digest of the cells."""
        lines = [(line.name, line.is_folded) for line in (*self.layout.rows, *self.layout.columns)]
        axes = repr((lines, len(self.layout.rows), self.is_drawn, self.is_compact))
        return f"{_digest(axes)}-{_digest('|'.join(cells))}"


def load_contents(request: HttpRequest, now: datetime) -> GridContents:
    """Raises Http404 for an unknown choice."""
    grid = load_chosen_grid(request, now)
    view = choices.chosen_view(request)
    measure = derived_once(grid, "measure", lambda: measure_of_grid(grid))
    layout = derived_once(
        grid, ("layout", view), lambda: lay_out(grid, view, lambda path: is_problem(grid, measure, path))
    )
    cells = request.GET.get("cells")
    links = choices.place_links(request, view, layout)
    return GridContents(
        grid=grid,
        measure=measure,
        view=view,
        layout=layout,
        is_drawn=layout.size >= DRAWN_FROM_CELLS,
        is_compact=cells == "compact" or (cells != "figures" and len(layout.columns) >= COMPACT_FROM_SITES),
        unfolding={link.name: link.query for link in links if link.is_folded},
        place_links=links,
    )


_versions: OrderedDict[str, Sequence[str]] = OrderedDict()
_lock = Lock()


def remember(version: str, cells: Sequence[str]) -> None:
    with _lock:
        _versions[version] = cells
        _versions.move_to_end(version)
        while len(_versions) > VERSIONS_KEPT:
            _versions.popitem(last=False)


def changed_since(version: str, cells: Sequence[str]) -> dict[int, str] | None:
    """Differing cells by position; None for a forgotten version."""
    with _lock:
        before = _versions.get(version)
    if before is None or len(before) != len(cells):
        return None
    return {number: cell for number, (old, cell) in enumerate(zip(before, cells, strict=True)) if old != cell}


def _digest(text: str) -> str:
    return blake2b(text.encode(), digest_size=8).hexdigest()
