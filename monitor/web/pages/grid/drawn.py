"""Large grids as compact JSON for static/web/drawn.js."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from string import ascii_letters

from django.utils.safestring import SafeString, mark_safe

from monitor.overview.grid import Grid
from monitor.overview.grid_layout import GridLayout, GridLine
from monitor.overview.measures import STEP_STYLES, MetricFormat
from monitor.overview.path_figures import PathFigures, worst
from monitor.web.labels import STATE_STYLES
from monitor.web.pages.grid.cells import BOUND_STYLE, STALE_STYLE, cell_style, has_incident, is_over
from monitor.web.pages.grid.legend import LegendEntry

STYLES = [
    "same",
    "unplanned",
    *(f"loss-{band}" for band in range(6)),
    *(f"step-{band}" for band in STEP_STYLES[6]),
    *dict.fromkeys(STATE_STYLES.values()),
    *(BOUND_STYLE, STALE_STYLE, "worse", "steady", "better"),
]
LETTERS = dict(zip(STYLES, ascii_letters, strict=False))
# Bits of a cell's marks, a hexadecimal digit behind its letter.
INCIDENT, OUTAGE, ENDED, MAINTENANCE = 1, 2, 4, 8


def codes(grid: Grid, measure: MetricFormat, layout: GridLayout, *, is_narrowed: bool) -> list[str]:
    width = len(layout.columns)
    empty = LETTERS["same" if is_narrowed else "unplanned"]
    cells = [empty] * layout.size
    column_of = {line.name: number for number, line in enumerate(layout.columns) if not line.is_folded}
    for number, line in enumerate(layout.rows):
        if not line.is_folded and line.name in column_of:
            cells[number * width + column_of[line.name]] = LETTERS["same"]
    for (row, column), paths in layout.cells.items():
        path = paths[0] if len(paths) == 1 else worst(grid.metric, paths)
        marks = _marks(grid, path)
        cells[row * width + column] = LETTERS[cell_style(grid, measure, path)] + (f"{marks:x}" if marks else "")
    return cells


def _marks(grid: Grid, path: PathFigures) -> int:
    return (
        (INCIDENT if has_incident(grid, path) else 0)
        | (OUTAGE if path.has_outage else 0)
        | (ENDED if is_over(grid, path) else 0)
        | (MAINTENANCE if path.in_maintenance else 0)
    )


def states_and_marks(cells: Sequence[str]) -> dict[str, object]:
    """Letters of all cells, and marks by position."""
    marks = {number: cell[1] for number, cell in enumerate(cells) if len(cell) > 1}
    return {"states": "".join([cell[0] for cell in cells]), "marks": marks}


def data_json(
    layout: GridLayout,
    cells: Sequence[str],
    version: str,
    legend: Sequence[LegendEntry],
    unfolding: Mapping[str, str],
) -> SafeString:
    """JSON, safe within a script element."""
    data = {
        "version": version,
        "rows": [_line(line) for line in layout.rows],
        "columns": [_line(line) for line in layout.columns],
        "styles": {LETTERS[style]: style for style in STYLES},
        "labels": {entry.style: entry.meaning for entry in legend if entry.style},
        "unfold": dict(unfolding),
        **states_and_marks(cells),
    }
    text = json.dumps(data, separators=(",", ":"), ensure_ascii=False)
    return mark_safe(text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026"))


def _line(line: GridLine) -> list[object]:
    return [line.name, line.place if line.is_folded else "", int(line.begins)]
