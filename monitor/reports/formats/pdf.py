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
LONGEST_NAME = 44
COLUMNS = (
    ("loss", 10),
    ("", 11),
    ("RTT", 11),
    ("IPDV", 11),
    ("avail.", 9),
    ("no loss", 9),
    ("estimate", 15),
    ("measured", 14),
    ("coverage", 10),
)


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
    name_width = min(max((len(_name(row)) for row in view.rows), default=0), LONGEST_NAME) + 1
    context = {
        "view": view,
        "heads": HEADS,
        "line_heads": _heads(name_width),
        "line_height": LINE_HEIGHT,
        "sparklines_left": len(_heads(name_width)) + 2,
        "chunks": [
            _chunk(view.rows[first : first + LINES_A_PAGE], name_width)
            for first in range(0, len(view.rows), LINES_A_PAGE)
        ],
    }
    made: bytes = HTML(string=render_to_string("reports/pdf.html", context), url_fetcher=_nothing_else).write_pdf()
    return made


def _nothing_else(url: str, *_: object, **__: object) -> NoReturn:
    raise ValueError(f"a report must not fetch {url}: all content is embedded")


def _heads(name_width: int) -> str:
    return "  " + "path".ljust(name_width) + "".join(head.rjust(width) for head, width in COLUMNS)


def _name(row: Row) -> str:
    return f"{row.name} ({row.note})" if row.note else row.name


def _chunk(rows: Sequence[Row], name_width: int) -> Chunk:
    lines, paths = [], []
    for number, row in enumerate(rows):
        lines.append(_line(row, name_width))
        top = (number + 1) * LINE_HEIGHT + (LINE_HEIGHT - SPARKLINE_HEIGHT) / 2
        paths.append(svg_path(row.loss_days, SPARKLINE_WIDTH, SPARKLINE_HEIGHT, 0, top))
        left = SPARKLINE_WIDTH + SPARKLINE_GAP
        paths.append(svg_path(row.rtt_days_ms, SPARKLINE_WIDTH, SPARKLINE_HEIGHT, left, top))
    width = 2 * SPARKLINE_WIDTH + SPARKLINE_GAP
    return Chunk("\n".join(lines), "".join(paths), width, (len(rows) + 1) * LINE_HEIGHT)


def _line(row: Row, name_width: int) -> str:
    name = _name(row)
    if len(name) >= name_width:
        name = f"{name[: name_width - 2]}…"
    cells = (
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
    figures = "".join(cell.rjust(width) for cell, (_, width) in zip(cells, COLUMNS, strict=True))
    return f"{row.sign or ' '} {name.ljust(name_width)}{figures}"
