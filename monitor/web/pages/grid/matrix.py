"""The grid as a table: the body of the table as HTML.

In: a `monitor.overview.grid.Grid`. The HTML is made here and not in a template since there may be thousands of cells.
"""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from urllib.parse import urlencode

from django.utils.safestring import SafeString, mark_safe

from monitor.overview.grid import Grid, GridSite
from monitor.overview.measures import MetricFormat
from monitor.overview.path_figures import PathFigures, worst
from monitor.web.pages.grid.cells import cell_style, cell_text, conditions, sentence, signs

DENSE_FROM_SITES = 16


def body_html(grid: Grid, measure: MetricFormat) -> SafeString:
    """The rows of the table, a row for each source site. All names from the mesh are escaped here."""
    between: dict[tuple[str, str], list[PathFigures]] = {}
    for path in grid.figures:
        between.setdefault((path.source, path.destination), []).append(path)
    kept = escape(query(grid))
    rows = []
    for source in grid.sources:
        cells = [
            _cell_html(grid, measure, source, to, between.get((source.name, to.name)), kept) for to in grid.destinations
        ]
        name = escape(source.name)
        heading = f'<th scope="row" title="{escape(source.title)}"><a href="/sites/{name}/">{name}</a></th>'
        rows.append(f"<tr>{heading}{''.join(cells)}</tr>")
    return mark_safe("\n".join(rows))


def query(grid: Grid) -> str:
    """The query of a link from the grid to a path."""
    chosen: dict[str, object] = {"period": grid.period.history.value}
    if grid.packet_bytes is not None:
        chosen["size"] = grid.packet_bytes
    return urlencode(chosen)


def _cell_html(
    grid: Grid,
    measure: MetricFormat,
    source: GridSite,
    to: GridSite,
    paths: Sequence[PathFigures] | None,
    query: str,
) -> str:
    if source.id == to.id:
        return '<td class="same"></td>'
    if not paths:
        return '<td class="unplanned"><span aria-label="not planned">·</span></td>'
    path = paths[0] if len(paths) == 1 else worst(grid.metric, paths)
    marks = "".join(f'<b class="{style}" aria-hidden="true">{sign}</b>' for style, sign in signs(path))
    more = "" if len(paths) == 1 else f"<sup>{len(paths)}</sup>"
    said = sentence(grid, path) + ("" if len(paths) == 1 else f"; the worst of {len(paths)} paths")
    style = " ".join([cell_style(grid, measure, path), *conditions(path)])
    return (
        f'<td class="{style}"><a id="p{path.path_id}" href="/paths/{path.path_id}/?{query}" '
        f'aria-label="{escape(said)}">'
        f"{marks}{_with_small_unit(cell_text(grid, path))}{more}</a></td>"
    )


def _with_small_unit(text: str) -> str:
    number, space, unit = text.rpartition(" ")
    if space and unit in ("ms", "bit/s", "kbit/s", "Mbit/s", "Gbit/s", "Tbit/s"):
        return f"{escape(number)} <small>{unit}</small>"
    return escape(text)
