"""Load PingER's table; a figure is the median over the pair's paths (`monitor.archive.queries.tables.table`)."""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from io import StringIO
from statistics import median
from typing import NamedTuple

from monitor.analysis import figures as shown
from monitor.api.summaries import TABLE_TICKS, TICK_LENGTHS, too_large
from monitor.archive.periods import start_of
from monitor.archive.queries import tables
from monitor.archive.queries.metrics import Metric
from monitor.archive.queries.paths import measured_packet_sizes
from monitor.archive.queries.tables import Grouping, TableCell, Tick
from monitor.archive.upkeep import freshness
from monitor.mesh.models import Family, KindName
from monitor.overview.grid import choose_packet_bytes
from monitor.overview.measures import MetricFormat, measure_of
from monitor.overview.path_figures import FigureState, PathFigures, figures_over, worst
from monitor.overview.wide.shared import SharedResults
from monitor.web.labels import STATE_STYLES, state_label

MOST_ROWS = 500
# A table of so many figures of paths, as 10,000 paths in five days, is read once for all readers.
SHARED_FROM_FIGURES = 50_000
FORMATS = {Tick.HOUR: "%a %H:00", Tick.DAY: "%a %-d %b", Tick.MONTH: "%b %Y", Tick.YEAR: "%Y"}

Figures = dict[datetime, TableCell]
# Source and destination of a pair.
Ends = tuple[str, str]


@dataclass(frozen=True, slots=True)
class TableQuery:
    by: Grouping = Grouping.SITE
    metric: Metric = Metric.LOSS
    tick: Tick = Tick.DAY
    packet_bytes: int | None = None
    family: Family | None = None
    source: str = ""  # restricts the table to pairs from it
    destination: str = ""  # restricts the table to pairs to it
    sort: str = "worst"  # a column; a minus reverses its order


@dataclass(frozen=True, slots=True)
class TableCellView:
    style: str
    text: str
    paths: int
    has_outage: bool = False


@dataclass(frozen=True, slots=True)
class PairRow:
    """A pair; `middle` and `worst` are over its ticks."""

    source: str
    destination: str
    middle: TableCellView
    worst: TableCellView
    cells: tuple[TableCellView, ...]


@dataclass(frozen=True, slots=True)
class TableView:
    query: TableQuery
    measure: MetricFormat
    packet_sizes: tuple[int, ...]
    ticks: tuple[datetime, ...]
    heads: tuple[str, ...]
    rows: tuple[PairRow, ...]
    left_out: int
    sources: tuple[str, ...]
    destinations: tuple[str, ...]
    complaint: str | None  # reason if there is no table
    # The arrival of the oldest result that the latest columns lack; None where they have all.
    lacks_since: datetime | None


class Figure(NamedTuple):
    """Ordered by value, then upper bound of a loss of 0."""

    value: float
    loss_bound_ratio: float


NOTHING = TableCellView("no-data", "–", 0)


@dataclass(frozen=True, slots=True)
class _Pair:
    source: str
    destination: str
    figures: Figures
    middle: Figure | None
    worst: Figure | None


def load_table(query: TableQuery, now: datetime) -> TableView:
    """Raises `UnknownChoice` where there are no packets of that size."""
    sizes = tuple(measured_packet_sizes())
    complaint = _complaint(query)
    figures = _Figures(now, (), {}) if complaint else _figures_of(query, now, sizes)
    cells, states, running = figures.cells, figures.states, start_of(query.tick.value, figures.at)
    pairs = _in_order(query, _pairs(query, cells, states))
    at_all = {at for pair in pairs for at in pair.figures} | ({running} if states else set())
    ticks = tuple(sorted(at_all, reverse=True))
    measure = _measure(query.metric, cells)
    return TableView(
        query=query,
        measure=measure,
        packet_sizes=() if query.metric is Metric.THROUGHPUT else sizes,
        ticks=ticks,
        heads=tuple(at.astimezone(UTC).strftime(FORMATS[query.tick]) for at in ticks),
        rows=tuple(_row(measure, pair, ticks, running, states) for pair in pairs[:MOST_ROWS]),
        left_out=sum(1 for pair in pairs[MOST_ROWS:] if pair.figures),
        sources=tuple(sorted({cell.source for cell in cells} | {source for source, _ in states})),
        destinations=tuple(sorted({cell.destination for cell in cells} | {to for _, to in states})),
        complaint=complaint,
        lacks_since=None if complaint else _lacks_since(query, figures.at, now),
    )


@dataclass(frozen=True, slots=True)
class _Figures:
    at: datetime
    cells: Sequence[TableCell]
    states: dict[Ends, TableCellView]


_shared: SharedResults[tuple[object, ...], _Figures] = SharedResults(
    new_for=timedelta(seconds=30),
    shown_for=timedelta(minutes=5),
    is_large=lambda figures: sum(cell.paths for cell in figures.cells) >= SHARED_FROM_FIGURES,
)


def _figures_of(query: TableQuery, now: datetime, sizes: tuple[int, ...]) -> _Figures:
    def load() -> _Figures:
        cells = _cells(query, now, sizes)
        return _Figures(now, cells, _states(query, now, sizes, cells, start_of(query.tick.value, now)))

    return _shared.get((query.by, query.metric, query.tick, query.packet_bytes, query.family), now, load)


def _lacks_since(query: TableQuery, read_at: datetime, now: datetime) -> datetime | None:
    """Since when the latest column lacks results; None within the usual lag."""
    since = freshness.table_lacks_since(query.metric, query.tick, now)
    if since is not None:
        return min(since, read_at)
    return read_at if now - read_at > freshness.LEAST_LAG else None


def _measure(metric: Metric, cells: Iterable[TableCell]) -> MetricFormat:
    """The metric's format, with bands over the cells."""
    measure = measure_of(metric)
    # Lower bounds, which are in no band, cannot be told from estimates here.
    if metric is Metric.ESTIMATE:
        return measure
    return measure.over((cell.value for cell in cells), lower_is_worse=metric.lower_is_worse)


def as_tsv(query: TableQuery, now: datetime) -> str:
    """Write UTC times and full figures in the metric's unit, empty if missing.

    Raises `UnknownChoice`, and `ValueError` where it would be too large.
    """
    if complaint := _complaint(query):
        raise ValueError(complaint)
    pairs = _in_order(query, _pairs(query, _cells(query, now, tuple(measured_packet_sizes())), ()))
    ticks = sorted({at for pair in pairs for at in pair.figures})
    out = StringIO()
    writer = csv.writer(out, dialect="excel-tab", lineterminator="\n")
    writer.writerow(["source", "destination", *(f"{query.metric} {tick_name(at)}" for at in ticks)])
    for pair in pairs:
        row = [pair.figures.get(at) for at in ticks]
        writer.writerow([pair.source, pair.destination, *("" if cell is None else repr(cell.value) for cell in row)])
    return out.getvalue()


def tick_name(at: datetime) -> str:
    return f"{at.astimezone(UTC):%Y-%m-%dT%H:%MZ}"


def _length(tick: Tick) -> timedelta:
    return TABLE_TICKS[tick] * TICK_LENGTHS[tick]


def _complaint(query: TableQuery) -> str | None:
    return too_large(query.by, query.tick, _length(query.tick))


def _cells(query: TableQuery, now: datetime, sizes: tuple[int, ...]) -> list[TableCell]:
    since, packet_bytes = now - _length(query.tick), choose_packet_bytes(sizes, query.packet_bytes)
    return tables.table(query.by, query.metric, query.tick, since, now, packet_bytes, family=query.family, now=now)


def _states(
    query: TableQuery, now: datetime, sizes: tuple[int, ...], cells: Iterable[TableCell], running: datetime
) -> dict[Ends, TableCellView]:
    kind = KindName.THROUGHPUT if query.metric is Metric.THROUGHPUT else KindName.PING
    current = {(cell.source, cell.destination) for cell in cells if cell.at == running}
    lacking = {
        ends: path_ids
        for ends, path_ids in tables.planned_pairs(query.by, kind.alternatives, family=query.family).items()
        if ends not in current
    }
    places = [(path_id, *ends, 0, None, False, None) for ends, path_ids in lacking.items() for path_id in path_ids]
    if not places:
        return {}
    size = choose_packet_bytes(sizes, query.packet_bytes)
    by_pair: dict[Ends, list[PathFigures]] = {}
    for path in figures_over(query.metric, size, places, running, now, only_these=True):
        by_pair.setdefault((path.source, path.destination), []).append(path)
    states = {ends: worst(query.metric, paths) for ends, paths in by_pair.items()}
    if not cells and all(path.state is FigureState.NO_DATA for path in states.values()):
        return {}
    return {
        ends: NOTHING if path.has_figure else TableCellView(STATE_STYLES[path.state], state_label(path), 0)
        for ends, path in states.items()
    }


def _pairs(query: TableQuery, cells: Iterable[TableCell], others: Iterable[Ends]) -> Iterator[_Pair]:
    by_pair: dict[Ends, Figures] = {ends: {} for ends in others if _is_wanted(query, *ends)}
    for cell in cells:
        if _is_wanted(query, cell.source, cell.destination):
            by_pair.setdefault((cell.source, cell.destination), {})[cell.at] = cell
    worst = min if query.metric.lower_is_worse else max
    for (source, destination), by_tick in by_pair.items():
        figures = [Figure(cell.value, cell.loss_bound_ratio or 0.0) for cell in by_tick.values()]
        yield _Pair(source, destination, by_tick, _middle(figures), worst(figures, default=None))


def _is_wanted(query: TableQuery, source: str, destination: str) -> bool:
    return query.source in ("", source) and query.destination in ("", destination)


def _middle(figures: list[Figure]) -> Figure | None:
    if not figures:
        return None
    value = median(figure.value for figure in figures)
    bounds = [figure.loss_bound_ratio for figure in figures if figure.value == value]
    return Figure(value, median(bounds) if bounds else 0.0)


def _in_order(query: TableQuery, pairs: Iterable[_Pair]) -> list[_Pair]:
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


def _figure(column: str) -> Callable[[_Pair], Figure | None]:
    if column == "median":
        return lambda pair: pair.middle
    if column == "worst":
        return lambda pair: pair.worst
    try:
        at = datetime.fromisoformat(column)
    except ValueError:
        return lambda _: None

    def value(pair: _Pair) -> Figure | None:
        cell = pair.figures.get(at) if at.tzinfo else None
        return None if cell is None else Figure(cell.value, cell.loss_bound_ratio or 0.0)

    return value


def _row(
    measure: MetricFormat,
    pair: _Pair,
    ticks: Iterable[datetime],
    running: datetime,
    states: Mapping[Ends, TableCellView],
) -> PairRow:
    state = states.get((pair.source, pair.destination), NOTHING)
    return PairRow(
        pair.source,
        pair.destination,
        NOTHING if pair.middle is None else _cell(measure, *pair.middle),
        NOTHING if pair.worst is None else _cell(measure, *pair.worst),
        tuple(
            (state if at == running else NOTHING)
            if cell is None
            else _cell(measure, cell.value, cell.loss_bound_ratio or 0.0, cell.paths, cell.has_outage)
            for at, cell in ((at, pair.figures.get(at)) for at in ticks)
        ),
    )


def _cell(
    measure: MetricFormat, value: float, loss_bound_ratio: float, paths: int = 0, has_outage: bool = False
) -> TableCellView:
    # A loss of 0 is shown as its upper bound, as everywhere.
    text = shown.loss_bound(loss_bound_ratio) if loss_bound_ratio > 0 else measure.words(value)
    return TableCellView(measure.style(value) + " outage" * has_outage, text, paths, has_outage)
