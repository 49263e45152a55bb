"""The grid as an HTML table, without a template: there may be thousands of cells."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from html import escape
from urllib.parse import urlencode

from django.utils.safestring import SafeString, mark_safe

from monitor.overview.grid import Grid
from monitor.overview.grid_layout import GridLayout, GridLine
from monitor.overview.measures import MetricFormat
from monitor.overview.path_figures import PathFigures, worst
from monitor.web.pages.grid.cells import (
    cell_style,
    cell_text,
    compact_sign,
    conditions,
    is_problem,
    sentence,
    signs,
)

SAME_SITE = '<td class="same"></td>'
UNPLANNED = '<td class="unplanned"><span aria-label="not planned">·</span></td>'
LEFT_OUT = '<td class="same"></td>'


def cells_html(
    grid: Grid,
    measure: MetricFormat,
    layout: GridLayout,
    *,
    is_compact: bool,
    is_narrowed: bool,
    unfolding: Mapping[str, str],
) -> list[str]:
    """All names from the mesh are escaped here. A narrowed grid leaves out cells without a path."""
    kept = escape(query(grid))
    empty = LEFT_OUT if is_narrowed else UNPLANNED
    cells = []
    for row, source in enumerate(layout.rows):
        for column, to in enumerate(layout.columns):
            paths = layout.cells.get((row, column))
            if source.is_folded or to.is_folded:
                cells.append(_block_html(grid, measure, source, to, paths, is_compact, unfolding))
            elif source.name == to.name:
                cells.append(SAME_SITE)
            elif not paths:
                cells.append(empty)
            else:
                cells.append(_cell_html(grid, measure, paths, kept, is_compact=is_compact))
    return cells


def body_html(layout: GridLayout, cells: Sequence[str], unfolding: Mapping[str, str]) -> SafeString:
    width = len(layout.columns)
    rows = []
    for number, line in enumerate(layout.rows):
        begins = ' class="begins"' if line.begins and number > 0 else ""
        heading = f'<th scope="row" title="{escape(line.title)}">{line_link(line, unfolding)}</th>'
        rows.append(f"<tr{begins}>{heading}{''.join(cells[number * width : (number + 1) * width])}</tr>")
    return mark_safe("\n".join(rows))


def line_link(line: GridLine, unfolding: Mapping[str, str]) -> SafeString:
    """Link a name to its site, or a folded place to its unfolded grid."""
    name = escape(line.name)
    if line.is_folded:
        return mark_safe(f'<a href="?{escape(unfolding.get(line.place, ""))}">▸ {name}</a>')
    return mark_safe(f'<a href="/sites/{name}/">{name}</a>')


def query(grid: Grid) -> str:
    chosen: dict[str, object] = {"period": grid.period.history.value}
    if grid.packet_bytes is not None:
        chosen["size"] = grid.packet_bytes
    return urlencode(chosen)


def _cell_html(grid: Grid, measure: MetricFormat, paths: Sequence[PathFigures], query: str, *, is_compact: bool) -> str:
    path = paths[0] if len(paths) == 1 else worst(grid.metric, paths)
    said = sentence(grid, path) + ("" if len(paths) == 1 else f"; the worst of {len(paths)} paths")
    return (
        f'<td class="{_style(grid, measure, path)}"><a id="p{path.path_id}" href="/paths/{path.path_id}/?{query}" '
        f'aria-label="{escape(said)}">{_content(grid, measure, path, len(paths), is_compact)}</a></td>'
    )


def _block_html(
    grid: Grid,
    measure: MetricFormat,
    source: GridLine,
    to: GridLine,
    paths: Sequence[PathFigures] | None,
    is_compact: bool,
    unfolding: Mapping[str, str],
) -> str:
    if not paths:
        return LEFT_OUT
    path = worst(grid.metric, paths)
    problems = sum(is_problem(grid, measure, each) for each in paths)
    many = f"{problems:,} of {len(paths):,}"
    said = f"{source.name} to {to.name}: {many} paths are problems; the worst: {sentence(grid, path)}"
    content = _content(grid, measure, path, 1, is_compact)
    more = "" if is_compact else f"<small>{many}</small>"
    place = source.place if source.is_folded else to.place
    return (
        f'<td class="{_style(grid, measure, path)}"><a href="?{escape(unfolding.get(place, ""))}" '
        f'aria-label="{escape(said)}">{content} {more}</a></td>'
    )


def _style(grid: Grid, measure: MetricFormat, path: PathFigures) -> str:
    return " ".join([cell_style(grid, measure, path), *conditions(grid, path)])


def _content(grid: Grid, measure: MetricFormat, path: PathFigures, paths: int, is_compact: bool) -> str:
    if is_compact:
        return f'<b aria-hidden="true">{compact_sign(grid, cell_style(grid, measure, path), path)}</b>'
    more = "" if paths == 1 else f"<sup>{paths}</sup>"
    return f"{marks_html(signs(grid, path))}{_with_small_unit(cell_text(grid, path))}{more}"


def marks_html(of_cell: Iterable[tuple[str, str]]) -> str:
    return "".join(f'<b class="{style}" aria-hidden="true">{sign}</b>' for style, sign in of_cell)


def _with_small_unit(text: str) -> str:
    number, space, unit = text.rpartition(" ")
    if space and unit in ("ms", "bit/s", "kbit/s", "Mbit/s", "Gbit/s", "Tbit/s"):
        return f"{escape(number)} <small>{unit}</small>"
    return escape(text)
