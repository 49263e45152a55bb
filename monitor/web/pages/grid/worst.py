"""Worst paths of the grid as a list."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from heapq import nlargest

from monitor.overview.grid import Grid
from monitor.overview.measures import MetricFormat
from monitor.overview.path_figures import PathFigures, badness
from monitor.web.pages.grid.cells import cell_style, cell_text, conditions, has_incident, is_problem, sentence, signs
from monitor.web.pages.grid.contents import GridContents

# Rows beside a grid without figures, and in the list.
BESIDE, IN_LIST = 12, 500


@dataclass(frozen=True, slots=True)
class WorstRow:
    path: PathFigures
    style: str
    signs: str
    text: str
    sentence: str


@dataclass(frozen=True, slots=True)
class WorstPaths:
    rows: list[WorstRow]
    total: int
    only_problems: bool  # no others are among them


def worst_rows(shown: GridContents) -> WorstPaths | None:
    """All paths in the list, problems beside a grid without figures, else None."""
    if not (shown.is_list or shown.is_drawn or shown.is_compact):
        return None
    grid, measure = shown.grid, shown.measure
    only_problems = not shown.is_list or shown.view.problems_only
    paths = [path for paths in shown.layout.cells.values() for path in paths]
    if only_problems and not shown.view.problems_only:
        paths = [path for path in paths if is_problem(grid, measure, path)]
    chosen = nlargest(
        IN_LIST if shown.is_list else BESIDE,
        paths,
        key=lambda path: (has_incident(grid, path), badness(grid.metric, path)),
    )
    return WorstPaths(rows_of(grid, measure, chosen), len(paths), only_problems)


def rows_of(grid: Grid, measure: MetricFormat, paths: Iterable[PathFigures]) -> list[WorstRow]:
    return [
        WorstRow(
            path,
            " ".join([cell_style(grid, measure, path), *conditions(grid, path)]),
            "".join(sign for _, sign in signs(grid, path)),
            cell_text(grid, path),
            sentence(grid, path).partition(": ")[2],
        )
        for path in paths
    ]
