"""Grid of a wall screen as SVG; neighbours of a class are one shape, so that 300 sites stay small."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby

from django.utils.html import escape
from django.utils.safestring import SafeString, mark_safe

from monitor.overview.grid import Grid, GridSite
from monitor.overview.measures import MetricFormat
from monitor.overview.path_figures import PathFigures, worst
from monitor.web.pages.grid.cells import cell_style, cell_text, has_incident, signs

# Sites of a grid with figures in its cells; above, names run upwards.
FIGURES_UP_TO = 14
NAMES_UP_TO = 60
LONGEST_NAME = 14
# Of a figure, as a share of the height of its letters: signs and m are wider than digits, a point is narrower.
LETTER_WIDTH = 0.61


@dataclass(frozen=True, slots=True)
class _Shape:
    width: float
    height: float
    gap: float
    letter: float


@dataclass(frozen=True, slots=True)
class _Cell:
    style: str
    text: str
    has_incident: bool


def grid_svg(grid: Grid, measure: MetricFormat, sentence: str) -> SafeString:
    most = max(len(grid.sources), len(grid.destinations))
    has_figures, has_names = most <= FIGURES_UP_TO, most <= NAMES_UP_TO
    shape = _Shape(74, 44, 3, 14) if has_figures else _Shape(12, 12, 1, 9) if has_names else _Shape(4, 4, 0, 0)
    letters = max((len(_short(site)) for site in (*grid.sources, *grid.destinations)), default=0)
    left = shape.letter * 0.62 * letters + 8 if has_names else 0.0
    top = shape.letter * 1.6 if has_figures else left
    width, height = left + len(grid.destinations) * shape.width, top + len(grid.sources) * shape.height
    between: dict[tuple[str, str], list[PathFigures]] = {}
    for path in grid.figures:
        between.setdefault((path.source, path.destination), []).append(path)
    fills: dict[str, list[str]] = {}
    over = []
    for number, source in enumerate(grid.sources):
        y = top + number * shape.height
        cells = [_cell(grid, measure, between.get((source.name, to.name))) for to in grid.destinations]
        for style, first, length in _runs(cells, alone=shape.gap > 0):
            x, run = left + first * shape.width, length * shape.width - shape.gap
            fills.setdefault(style, []).append(f"M{x:g} {y:g}h{run:g}v{shape.height - shape.gap:g}h-{run:g}z")
        over += list(_marks(cells, left, y, shape, with_figures=has_figures))
    names = list(_names(grid, shape, left, top, upwards=not has_figures)) if has_names else []
    drawn = "".join(f'<path class="{style}" d="{"".join(parts)}"/>' for style, parts in fills.items())
    return mark_safe(
        f'<svg class="wall-grid" viewBox="0 0 {width:g} {height:g}" preserveAspectRatio="xMidYMin" '
        f'role="img" aria-label="{escape(sentence)}" '
        f'font-size="{shape.letter:g}">{drawn}{"".join(over)}{"".join(names)}</svg>'
    )


def _cell(grid: Grid, measure: MetricFormat, paths: Sequence[PathFigures] | None) -> _Cell | None:
    if not paths:
        return None
    path = paths[0] if len(paths) == 1 else worst(grid.metric, paths)
    is_in_incident = any(has_incident(grid, other) for other in paths)
    marks = "".join(sign for _, sign in signs(grid, path))
    return _Cell(cell_style(grid, measure, path), f"{marks}{cell_text(grid, path)}", is_in_incident)


def _runs(cells: Sequence[_Cell | None], *, alone: bool) -> Iterator[tuple[str, int, int]]:
    placed = [(number, cell) for number, cell in enumerate(cells) if cell is not None]
    if alone:
        yield from ((cell.style, number, 1) for number, cell in placed)
        return
    # Within a run, the column minus the place in the row is the same.
    for (style, _), run in groupby(enumerate(placed), key=lambda entry: (entry[1][1].style, entry[1][0] - entry[0])):
        columns = [number for _, (number, _) in run]
        yield style, columns[0], len(columns)


def _marks(cells: Sequence[_Cell | None], left: float, y: float, shape: _Shape, *, with_figures: bool) -> Iterator[str]:
    for number, cell in enumerate(cells):
        if cell is None:
            continue
        x = left + number * shape.width
        width, height = shape.width - shape.gap, shape.height - shape.gap
        if with_figures:
            letter = min(shape.letter, (width - 4) / (LETTER_WIDTH * max(len(cell.text), 1)))
            size = "" if letter == shape.letter else f'font-size="{letter:.3g}" '
            yield (
                f'<text class="{cell.style}" x="{x + width / 2:g}" y="{y + height / 2 + letter * 0.35:g}" {size}'
                f'text-anchor="middle">{escape(cell.text)}</text>'
            )
        if cell.has_incident:
            yield f'<rect class="has-incident" x="{x:g}" y="{y:g}" width="{width:g}" height="{height:g}"/>'


def _names(grid: Grid, shape: _Shape, left: float, top: float, *, upwards: bool) -> Iterator[str]:
    for number, site in enumerate(grid.sources):
        y = top + number * shape.height + shape.height / 2 + shape.letter * 0.35
        yield f'<text class="name" x="{left - 5:g}" y="{y:g}" text-anchor="end">{escape(_short(site))}</text>'
    for number, site in enumerate(grid.destinations):
        x = left + number * shape.width + shape.width / 2
        if upwards:
            place = f'transform="translate({x + shape.letter * 0.35:g} {top - 4:g}) rotate(-90)"'
        else:
            place = f'x="{x:g}" y="{top - 5:g}" text-anchor="middle"'
        yield f'<text class="name" {place}>{escape(_short(site))}</text>'


def _short(site: GridSite) -> str:
    return site.name if len(site.name) <= LONGEST_NAME else f"{site.name[: LONGEST_NAME - 1]}…"
