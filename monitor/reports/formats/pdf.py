"""A report as a PDF, set as fixed-width text, since WeasyPrint tables take seven times as long.

Nothing is fetched from the network.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NoReturn

from django.template.loader import render_to_string

from monitor.reports.contents.report import Report
from monitor.reports.formats.cells import Row
from monitor.reports.formats.page import HEADS
from monitor.reports.formats.sparklines import svg_path
from monitor.reports.formats.view import view_of
from monitor.reports.numbers import Numbers

LINES_A_PAGE = 46
LINE_HEIGHT = 13
SPARKLINE_WIDTH, SPARKLINE_HEIGHT, SPARKLINE_GAP = 84, 9, 12
# Characters beside the sparklines on a page.
LONGEST_LINE = 158
COLUMN_GAP = 2
COLUMNS = (
    "loss",
    "band",
    "RTT, median",
    "IPDV",
    "availability",
    "without loss",
    "TCP, estimated",
    "TCP, measured",
    "coverage",
)
# Above the sparklines, the second as far right as its lines.
SPARKLINE_HEADS = "  " + "loss per day".ljust(18) + "RTT per day"


@dataclass(frozen=True, slots=True)
class Chunk:
    """The lines of a page and the drawing beside them."""

    text: str
    path: str
    width: int
    height: int


def render(report: Report, numbers: Numbers) -> bytes:
    from weasyprint import HTML  # half a second and its libraries, for those alone who want a PDF

    view = view_of(report, numbers)
    widths = _widths(view.rows)
    heads = _text_line(" ", "path", COLUMNS, widths)
    context = {
        "view": view,
        "heads": HEADS,
        "line_heads": heads + SPARKLINE_HEADS,
        "line_height": LINE_HEIGHT,
        "sparklines_left": len(heads) + COLUMN_GAP,
        "chunks": [
            _chunk(view.rows[first : first + LINES_A_PAGE], widths) for first in range(0, len(view.rows), LINES_A_PAGE)
        ],
    }
    made: bytes = HTML(string=render_to_string("reports/pdf.html", context), url_fetcher=_nothing_else).write_pdf()
    return made


def _nothing_else(url: str, *_: object, **__: object) -> NoReturn:
    raise ValueError(f"a report must not fetch {url}: all content is embedded")


def _widths(rows: Sequence[Row]) -> list[int]:
    """Widths of the name and the figures; a line is not longer than `LONGEST_LINE`."""
    columns = zip(COLUMNS, *map(_cells, rows), strict=True)
    figures = [max(map(len, column)) + COLUMN_GAP for column in columns]
    name = max((len(_name(row)) for row in rows), default=0)
    return [min(name, LONGEST_LINE - COLUMN_GAP - sum(figures)), *figures]


def _name(row: Row) -> str:
    return f"{row.name} ({row.note})" if row.note else row.name


def _chunk(rows: Sequence[Row], widths: Sequence[int]) -> Chunk:
    lines, paths = [], []
    for number, row in enumerate(rows):
        lines.append(_text_line(row.sign or " ", _name(row), _cells(row), widths))
        top = (number + 1) * LINE_HEIGHT + (LINE_HEIGHT - SPARKLINE_HEIGHT) / 2
        paths.append(svg_path(row.loss_days, SPARKLINE_WIDTH, SPARKLINE_HEIGHT, 0, top))
        left = SPARKLINE_WIDTH + SPARKLINE_GAP
        paths.append(svg_path(row.rtt_days_ms, SPARKLINE_WIDTH, SPARKLINE_HEIGHT, left, top))
    width = 2 * SPARKLINE_WIDTH + SPARKLINE_GAP
    return Chunk("\n".join(lines), "".join(paths), width, (len(rows) + 1) * LINE_HEIGHT)


def _cells(row: Row) -> tuple[str, ...]:
    return (
        row.loss.value,
        "" if row.loss.mark == row.loss.value else row.loss.mark,
        row.rtt.value,
        row.ipdv.value,
        row.available.value,
        row.zero_loss.value,
        row.estimate.value,
        row.measured.value,
        row.coverage.value,
    )


def _text_line(sign: str, name: str, cells: Sequence[str], widths: Sequence[int]) -> str:
    name_width, *figure_widths = widths
    if len(name) > name_width:
        name = f"{name[: name_width - 1]}…"
    figures = "".join(cell.rjust(width) for cell, width in zip(cells, figure_widths, strict=True))
    return f"{sign} {name.ljust(name_width)}{figures}"
