"""The data of the table page: PingER's table, a row for each pair of nodes, sites, countries, regions or groups and a
column for each tick, the newest first.

In: the parameters of the address and the time. Out: a `TableView` for the template, or the same figures as
tab-separated values. Each figure is the median over the paths between the two, computed by
`monitor.archive.queries.tables.table`.
"""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from io import StringIO
from statistics import median

from monitor.api.summaries import TABLE_TICKS, TICK_LENGTHS, too_large
from monitor.archive.queries import tables
from monitor.archive.queries.metrics import Metric
from monitor.archive.queries.paths import measured_packet_sizes
from monitor.archive.queries.tables import Grouping, TableCell, Tick
from monitor.mesh.models import Family
from monitor.overview.grid import choose_packet_bytes
from monitor.overview.measures import MetricFormat, measure_of

MOST_ROWS = 500
FORMATS = {Tick.HOUR: "%a %H:00", Tick.DAY: "%a %-d %b", Tick.MONTH: "%b %Y", Tick.YEAR: "%Y"}

Figures = dict[datetime, TableCell]


@dataclass(frozen=True, slots=True)
class TableQuery:
    """The parameters of the address. `sort` is a column, a minus reverses its order; `source` and `destination`
    restrict the table to pairs from or to them."""

    by: Grouping = Grouping.SITE
    metric: Metric = Metric.LOSS
    tick: Tick = Tick.DAY
    packet_bytes: int | None = None
    family: Family | None = None
    source: str = ""
    destination: str = ""
    sort: str = "worst"


@dataclass(frozen=True, slots=True)
class TableCellView:
    """A figure with its class and the number of paths that it is the median of."""

    style: str
    text: str
    paths: int


@dataclass(frozen=True, slots=True)
class PairRow:
    """A pair. `middle` and `worst` are over its ticks."""

    source: str
    destination: str
    middle: TableCellView
    worst: TableCellView
    cells: tuple[TableCellView, ...]


@dataclass(frozen=True, slots=True)
class TableView:
    """The data of the template. `complaint` is the reason if there is no table."""

    query: TableQuery
    measure: MetricFormat
    packet_sizes: tuple[int, ...]
    ticks: tuple[datetime, ...]
    heads: tuple[str, ...]
    rows: tuple[PairRow, ...]
    left_out: int
    sources: tuple[str, ...]
    destinations: tuple[str, ...]
    complaint: str | None


NOTHING = TableCellView("no-data", "–", 0)


@dataclass(frozen=True, slots=True)
class _Pair:
    source: str
    destination: str
    figures: Figures
    middle: float
    worst: float


def load_table(query: TableQuery, now: datetime) -> TableView:
    """The page's table. Raises `UnknownChoice` where there are no packets of that size."""
    sizes = tuple(measured_packet_sizes())
    complaint = _complaint(query)
    cells = () if complaint else _cells(query, now, sizes)
    pairs = _in_order(query, _pairs(query, cells))
    ticks = tuple(sorted({at for pair in pairs for at in pair.figures}, reverse=True))
    measure = measure_of(query.metric)
    return TableView(
        query=query,
        measure=measure,
        packet_sizes=() if query.metric is Metric.THROUGHPUT else sizes,
        ticks=ticks,
        heads=tuple(at.astimezone(UTC).strftime(FORMATS[query.tick]) for at in ticks),
        rows=tuple(_row(measure, pair, ticks) for pair in pairs[:MOST_ROWS]),
        left_out=max(0, len(pairs) - MOST_ROWS),
        sources=tuple(sorted({cell.source for cell in cells})),
        destinations=tuple(sorted({cell.destination for cell in cells})),
        complaint=complaint,
    )


def as_tsv(query: TableQuery, now: datetime) -> str:
    """All of the table as tab-separated values: a row for each pair, times in UTC, figures in the metric's unit and in
    full, nothing where there is none. Raises `UnknownChoice`, and `ValueError` where it would be too large."""
    if complaint := _complaint(query):
        raise ValueError(complaint)
    pairs = _in_order(query, _pairs(query, _cells(query, now, tuple(measured_packet_sizes()))))
    ticks = sorted({at for pair in pairs for at in pair.figures})
    out = StringIO()
    writer = csv.writer(out, dialect="excel-tab", lineterminator="\n")
    writer.writerow(["source", "destination", *(f"{query.metric} {tick_name(at)}" for at in ticks)])
    for pair in pairs:
        row = [pair.figures.get(at) for at in ticks]
        writer.writerow([pair.source, pair.destination, *("" if cell is None else repr(cell.value) for cell in row)])
    return out.getvalue()


def tick_name(at: datetime) -> str:
    """A tick as addresses and files name it."""
    return f"{at.astimezone(UTC):%Y-%m-%dT%H:%MZ}"


def _length(tick: Tick) -> timedelta:
    return TABLE_TICKS[tick] * TICK_LENGTHS[tick]


def _complaint(query: TableQuery) -> str | None:
    return too_large(query.by, query.tick, _length(query.tick))


def _cells(query: TableQuery, now: datetime, sizes: tuple[int, ...]) -> list[TableCell]:
    since, packet_bytes = now - _length(query.tick), choose_packet_bytes(sizes, query.packet_bytes)
    return tables.table(query.by, query.metric, query.tick, since, now, packet_bytes, family=query.family)


def _pairs(query: TableQuery, cells: Iterable[TableCell]) -> Iterator[_Pair]:
    by_pair: dict[tuple[str, str], Figures] = {}
    for cell in cells:
        if query.source in ("", cell.source) and query.destination in ("", cell.destination):
            by_pair.setdefault((cell.source, cell.destination), {})[cell.at] = cell
    worst = min if query.metric.lower_is_worse else max
    for (source, destination), figures in by_pair.items():
        values = [cell.value for cell in figures.values()]
        yield _Pair(source, destination, figures, median(values), worst(values))


def _in_order(query: TableQuery, pairs: Iterable[_Pair]) -> list[_Pair]:
    """Names from A on, figures the worst first, pairs without a figure last."""
    column = query.sort.removeprefix("-")
    ordered = sorted(pairs, key=lambda pair: (pair.source, pair.destination))
    if column in ("source", "destination"):
        return sorted(ordered, key=lambda pair: str(getattr(pair, column)), reverse=query.sort.startswith("-"))
    best_first = query.sort.startswith("-")
    figure = _figure(column)
    figures = [(figure(pair), pair) for pair in ordered]
    with_figure = sorted(
        ((value, pair) for value, pair in figures if value is not None),
        key=lambda entry: entry[0],
        reverse=query.metric.lower_is_worse == best_first,
    )
    return [pair for _, pair in with_figure] + [pair for value, pair in figures if value is None]


def _figure(column: str) -> Callable[[_Pair], float | None]:
    """The figure of a pair in a column; None for an unknown column."""
    if column == "median":
        return lambda pair: pair.middle
    if column == "worst":
        return lambda pair: pair.worst
    try:
        at = datetime.fromisoformat(column)
    except ValueError:
        return lambda _: None

    def value(pair: _Pair) -> float | None:
        cell = pair.figures.get(at) if at.tzinfo else None
        return None if cell is None else cell.value

    return value


def _row(measure: MetricFormat, pair: _Pair, ticks: Iterable[datetime]) -> PairRow:
    return PairRow(
        pair.source,
        pair.destination,
        _cell(measure, pair.middle, 0),
        _cell(measure, pair.worst, 0),
        tuple(
            NOTHING if cell is None else _cell(measure, cell.value, cell.paths) for cell in map(pair.figures.get, ticks)
        ),
    )


def _cell(measure: MetricFormat, value: float, paths: int) -> TableCellView:
    return TableCellView(measure.style(value), measure.words(value), paths)
