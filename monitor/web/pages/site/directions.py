"""Figures of a site's paths: a column is current during an open incident of its metric or a trouble of its signal, and
for ten minutes after."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from monitor.alerts.models import Incident, IncidentPath
from monitor.analysis import figures
from monitor.archive.queries.metrics import Metric
from monitor.archive.queries.paths import PathSummary, path_summaries
from monitor.archive.queries.throughput.series import PathThroughput, throughput_summaries
from monitor.mesh.models import Path
from monitor.overview.cell_now import end_of
from monitor.overview.grid import NOW_LENGTH, Grid, GridPeriod, load_grid
from monitor.overview.measures import MEASURES, MetricFormat
from monitor.overview.path_figures import FigureState, KnownFields, PathFigures, figures_of
from monitor.present import read
from monitor.present.read import PresentPath
from monitor.present.track import Signal
from monitor.web.labels import STATE_STYLES, state_label
from monitor.web.pages.grid import cells
from monitor.web.request.window import ShownPeriod

RANK_OPEN = 3.0
RANK_TOTAL_LOSS = 2.0
BEHIND_NAT = "behind NAT"
NONE = "–"
COLUMNS = {
    Metric.LOSS: "loss",
    Metric.RTT_MEDIAN: "median RTT",
    Metric.ESTIMATE: "estimate",
    Metric.THROUGHPUT: "TCP throughput",
}
# Rules about loss, or about none of the columns, belong to the first.
_COLUMN_OF_RULE = {
    **dict.fromkeys(("rtt", "rtt_median", "rtt_p95", "rtt_minimum", "rtt_drift", "jitter"), Metric.RTT_MEDIAN),
    **dict.fromkeys(("throughput", "throughput_drop", "throughput_limit"), Metric.THROUGHPUT),
    "estimate": Metric.ESTIMATE,
}
_SIGNALS = {Metric.LOSS: Signal.LOSS, Metric.RTT_MEDIAN: Signal.RTT, Metric.THROUGHPUT: Signal.RATE}


@dataclass(frozen=True, slots=True)
class DirectionFigure:
    column: str
    text: str
    style: str = ""
    signs: tuple[tuple[str, str], ...] = ()  # each with a class
    sentence: str = ""  # figure in full
    is_now: bool = False  # figure of the grid of now, not of the period


@dataclass(frozen=True, slots=True)
class DirectionSummary:
    """A figure for each of `COLUMNS`."""

    path: Path
    figures: tuple[DirectionFigure, ...]
    rank: float


def load_ways(
    paths: Sequence[Path], shown: ShownPeriod, packet_bytes: int, lasting: Sequence[Incident], now: datetime
) -> dict[int, DirectionSummary]:
    """Directions by path id; `lasting` are these paths' open incidents."""
    ids = [path.pk for path in paths]
    rows = path_summaries(shown.since, shown.until, packet_bytes=packet_bytes, path_ids=ids)
    summaries = {summary.path_id: summary for summary in rows}
    tests = {summary.path_id: summary for summary in throughput_summaries(shown.since, shown.until, path_ids=ids)}
    places: list[KnownFields] = [
        (path.pk, path.source.site.name, path.destination.site.name, path.family, None, False, None) for path in paths
    ]
    states = {path.path_id: path for path in figures_of(places, summaries.values(), shown.since, shown.until)}
    open_columns = _open_columns(paths, lasting)
    ways = {
        path.pk: _way(path, states[path.pk], summaries.get(path.pk), tests.get(path.pk), open_columns[path.pk], shown)
        for path in paths
    }
    presents = read.load(ids)
    for number, column in enumerate(COLUMNS):
        is_open = {path_id for path_id, columns in open_columns.items() if column in columns}
        marked = is_open | {path_id for path_id, present in presents.items() if _is_marked(column, present, now)}
        for path_id, figure, rank in _of_now(column, marked, is_open, packet_bytes, lasting, now):
            way = ways[path_id]
            changed = (*way.figures[:number], figure, *way.figures[number + 1 :])
            rank = None if rank is None else rank + RANK_OPEN * bool(open_columns[path_id])
            ways[path_id] = replace(way, figures=changed, rank=way.rank if rank is None else rank)
    return ways


def _open_columns(paths: Sequence[Path], lasting: Sequence[Incident]) -> Mapping[int, set[Metric]]:
    columns: dict[int, set[Metric]] = defaultdict(set)
    for incident in lasting:
        findings = [finding for finding in incident.paths.all() if not finding.is_over]
        for finding in findings:
            columns[finding.path_id].add(_column(finding))
        # Round trips of a single path may show the loss of the other direction, which the incident names.
        for path in paths:
            if f"{path.source.site.name} → {path.destination.site.name}" == incident.toward:
                columns[path.pk] |= {_column(finding) for finding in findings}
    return columns


def _is_marked(column: Metric, present: PresentPath, now: datetime) -> bool:
    tracks = [track for track in present.tracks if track.signal is _SIGNALS.get(column)]
    return any(track.condition.is_trouble or end_of(track, now - NOW_LENGTH) is not None for track in tracks)


def _column(finding: IncidentPath) -> Metric:
    return _COLUMN_OF_RULE.get(finding.rule, Metric.LOSS)


def _of_now(
    column: Metric,
    path_ids: Collection[int],
    is_open: Collection[int],
    packet_bytes: int,
    lasting: Sequence[Incident],
    now: datetime,
) -> Iterator[tuple[int, DirectionFigure, float | None]]:
    if not path_ids:
        return
    size = None if column is Metric.THROUGHPUT else packet_bytes
    grid = load_grid(column, GridPeriod.NOW, now, packet_bytes=size, path_ids=path_ids, lasting=lasting)
    measure = cells.measure_of_grid(grid)
    for path in grid.figures:
        own = path if path.path_id in is_open else replace(path, incident_id=None)
        rank = RANK_TOTAL_LOSS if own.state is FigureState.TOTAL_LOSS else own.value or 0.0
        yield path.path_id, _now(column, grid, measure, own), rank if column is Metric.LOSS else None


def _now(column: Metric, grid: Grid, measure: MetricFormat, path: PathFigures) -> DirectionFigure:
    is_late = grid.condition_of(path) in cells.STALE
    return DirectionFigure(
        COLUMNS[column],
        cells.cell_text(grid, path),
        # Bands that spread over a few paths say nothing.
        cells.cell_style(grid, measure, path) if column is Metric.LOSS or is_late else "",
        tuple(cells.signs(grid, path)),
        cells.sentence(grid, path),
        is_now=not is_late,
    )


def _way(
    path: Path,
    state: PathFigures,
    summary: PathSummary | None,
    tests: PathThroughput | None,
    columns: set[Metric],
    shown: ShownPeriod,
) -> DirectionSummary:
    texts = dict.fromkeys(COLUMNS, NONE)
    texts[Metric.THROUGHPUT] = NONE if tests is None else figures.bit_rates(tests.figures_bps)
    rank, has_outage = RANK_OPEN * bool(columns), False
    if path.destination.behind_nat:
        texts[Metric.LOSS], style = BEHIND_NAT, ""
    elif summary is None or not state.has_figure:
        texts[Metric.LOSS], style = state_label(state), STATE_STYLES[state.state]
        rank += RANK_TOTAL_LOSS if state.state is FigureState.TOTAL_LOSS else -1.0
    else:
        ratio = summary.lost / summary.sent
        style = MEASURES[Metric.LOSS].style(ratio if state.loss_lower_ratio is None else state.loss_lower_ratio)
        floor = "≥ " if summary.estimate_is_floor else ""
        texts[Metric.LOSS] = figures.loss(summary.lost, summary.sent)
        texts[Metric.RTT_MEDIAN] = figures.milliseconds(summary.rtt_median_ms)
        texts[Metric.ESTIMATE] = floor + figures.bit_rate(summary.estimate_bps)
        rank += ratio
        has_outage = state.has_outage
    ends = f"{path.source.site.name} to {path.destination.site.name}"
    return DirectionSummary(
        path,
        tuple(
            _of_period(column, text, column in columns, has_outage, style, f"{ends}: {COLUMNS[column]}", shown)
            for column, text in texts.items()
        ),
        rank,
    )


def _of_period(
    column: Metric, text: str, is_open: bool, has_outage: bool, style: str, what: str, shown: ShownPeriod
) -> DirectionFigure:
    sentence = f"{what} over {shown.words} {text}"
    signs: tuple[tuple[str, str], ...] = ()
    if is_open:
        sentence, signs = f"{sentence}, incident open", (("sign", cells.INCIDENT_SIGN),)
    elif has_outage and column is Metric.LOSS:
        sentence, signs = f"{sentence}, 100% loss for a time", (("sign outage", cells.OUTAGE_SIGN),)
    return DirectionFigure(COLUMNS[column], text, style if column is Metric.LOSS else "", signs, sentence)
