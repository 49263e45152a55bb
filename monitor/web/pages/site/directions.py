"""The figures of a site's paths: those of the period, and in the column of an incident those of now, as in the grid.

In: paths, a period, a packet size, the open incidents, and the paths that are being checked. Out: a `DirectionSummary`
of each path. A column is of now under an open incident of its metric, while that is being checked, and after it for as
long as the grid of now marks its end.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from django.db.models import Max

from monitor.alerts.incidents import listing
from monitor.alerts.incidents.queries import ended_findings
from monitor.alerts.models import Incident, IncidentPath
from monitor.analysis import figures
from monitor.archive.queries.metrics import Metric
from monitor.archive.queries.paths import PathSummary, path_summaries
from monitor.archive.queries.throughput.series import PathThroughput, throughput_summaries
from monitor.mesh.models import Path, Test
from monitor.overview.grid import NOW_CYCLES, NOW_LENGTH, Grid, GridPeriod, load_grid
from monitor.overview.measures import MEASURES, MetricFormat
from monitor.overview.now.checked_paths import CheckedPaths
from monitor.overview.path_figures import FigureState, PathFigures, figures_of
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
_COLUMN_OF_RULE = {
    **dict.fromkeys(("rtt", "rtt_median", "rtt_p95", "rtt_minimum", "rtt_drift", "jitter"), Metric.RTT_MEDIAN),
    **dict.fromkeys(("throughput", "throughput_drop", "throughput_limit"), Metric.THROUGHPUT),
    "estimate": Metric.ESTIMATE,
}
"""Of a rule that none of the columns is about, and of all of loss, it is the first."""

PathColumns = Mapping[int, set[Metric]]


@dataclass(frozen=True, slots=True)
class DirectionFigure:
    """A figure in words with its class and its signs, each with a class; `sentence` has it in full. `is_now` says
    whether it is that of the grid of now, not of the period."""

    column: str
    text: str
    style: str = ""
    signs: tuple[tuple[str, str], ...] = ()
    sentence: str = ""
    is_now: bool = False


@dataclass(frozen=True, slots=True)
class DirectionSummary:
    """A direction between two sites: a figure for each of `COLUMNS`."""

    path: Path
    figures: tuple[DirectionFigure, ...]
    rank: float


@dataclass(frozen=True, slots=True)
class _Marked:
    """The columns of paths that are marked, by the id of the path: of open incidents, of checks, and of incidents that
    ended, there by the path and the incident."""

    open: PathColumns
    checked: PathColumns
    ended: Mapping[tuple[int, int], set[Metric]]

    def paths_of(self, column: Metric) -> set[int]:
        of_paths = [*self.open.items(), *self.checked.items()]
        of_ended = [(path_id, columns) for (path_id, _), columns in self.ended.items()]
        return {path_id for path_id, columns in (*of_paths, *of_ended) if column in columns}


def load_ways(
    paths: Sequence[Path],
    shown: ShownPeriod,
    packet_bytes: int,
    lasting: Sequence[Incident],
    checked: CheckedPaths,
    now: datetime,
) -> dict[int, DirectionSummary]:
    """The directions by the id of their path. `lasting` are the open incidents of these paths."""
    ids = [path.pk for path in paths]
    rows = path_summaries(shown.since, shown.until, packet_bytes=packet_bytes, path_ids=ids)
    summaries = {summary.path_id: summary for summary in rows}
    tests = {summary.path_id: summary for summary in throughput_summaries(shown.since, shown.until, path_ids=ids)}
    places = [(path.pk, path.source.site.name, path.destination.site.name, path.family, None, False) for path in paths]
    states = {path.path_id: path for path in figures_of(places, summaries.values(), shown.since, shown.until)}
    marked = _marked(paths, lasting, checked, now)
    ways = {
        path.pk: _way(
            path, states[path.pk], summaries.get(path.pk), tests.get(path.pk), marked.open.get(path.pk, set()), shown
        )
        for path in paths
    }
    for number, column in enumerate(COLUMNS):
        for path_id, figure, rank in _of_now(column, marked, packet_bytes, lasting, checked, now):
            way = ways[path_id]
            changed = (*way.figures[:number], figure, *way.figures[number + 1 :])
            ways[path_id] = replace(way, figures=changed, rank=way.rank if rank is None else rank)
    return ways


def _marked(paths: Sequence[Path], lasting: Sequence[Incident], checked: CheckedPaths, now: datetime) -> _Marked:
    ids = {path.pk for path in paths}
    of_open: dict[int, set[Metric]] = defaultdict(set)
    for incident in lasting:
        findings = [finding for finding in incident.paths.all() if not finding.is_over]
        for finding in findings:
            if finding.path_id in ids:
                of_open[finding.path_id].add(_column(finding))
        # Round trips of a single path may show the loss of the other direction, which the incident names.
        for path in paths:
            if f"{path.source.site.name} → {path.destination.site.name}" == incident.toward:
                of_open[path.pk] |= {_column(finding) for finding in findings}
    of_ended: dict[tuple[int, int], set[Metric]] = defaultdict(set)
    longest_s = Test.objects.aggregate(longest_s=Max("every_s"))["longest_s"] or 0
    since = now - max(NOW_LENGTH, NOW_CYCLES * timedelta(seconds=longest_s))
    for finding in ended_findings(since, now):
        if finding.path_id in ids:
            of_ended[finding.path_id, finding.incident_id].add(_column(finding))
    return _Marked(of_open, _of_checked(ids, checked), of_ended)


def _of_checked(ids: set[int], checked: CheckedPaths) -> PathColumns:
    by_column = {
        Metric.LOSS: (checked.without_reply, checked.losses, checked.ended, checked.unclear),
        Metric.RTT_MEDIAN: (checked.longer_rtt,),
        Metric.THROUGHPUT: (checked.low_tests,),
    }
    of_checked: dict[int, set[Metric]] = defaultdict(set)
    for column, kinds in by_column.items():
        for path_id in ids & {path_id for names in kinds for path_id in names}:
            of_checked[path_id].add(column)
    if ids & checked.pending.keys():
        pending = listing.incidents(listing.IncidentFilter(which=listing.StateFilter.PENDING))
        for finding in (finding for incident in pending for finding in incident.paths.all()):
            if finding.path_id in ids & checked.pending.keys() and not finding.is_over:
                of_checked[finding.path_id].add(_column(finding))
    return of_checked


def _column(finding: IncidentPath) -> Metric:
    return _COLUMN_OF_RULE.get(finding.rule, Metric.LOSS)


def _of_now(
    column: Metric,
    marked: _Marked,
    packet_bytes: int,
    lasting: Sequence[Incident],
    checked: CheckedPaths,
    now: datetime,
) -> Iterator[tuple[int, DirectionFigure, float | None]]:
    """The paths with a mark in this column, each with its figure of now, and its rank by that if it is the loss."""
    path_ids = marked.paths_of(column)
    if not path_ids:
        return
    size = None if column is Metric.THROUGHPUT else packet_bytes
    grid = load_grid(column, GridPeriod.NOW, now, packet_bytes=size, path_ids=path_ids, lasting=lasting)
    measure = cells.measure_of_grid(grid)
    for path in grid.figures:
        is_open = column in marked.open.get(path.path_id, ())
        is_checked = not is_open and column in marked.checked.get(path.path_id, ())
        is_ended = column in marked.ended.get((path.path_id, path.ended_incident_id or 0), ())
        if not (is_open or is_checked or is_ended):
            continue
        of_path = replace(grid, figures=(path if is_open else replace(path, incident_id=None),))
        if is_checked:
            of_path = of_path.with_checks(checked)
        (alone,) = of_path.figures
        rank = None
        if column is Metric.LOSS:
            rank = RANK_TOTAL_LOSS if alone.state is FigureState.TOTAL_LOSS else alone.value or 0.0
            rank += RANK_OPEN * bool(marked.open.get(path.path_id))
        yield path.path_id, _now(column, of_path, measure, alone), rank


def _now(column: Metric, grid: Grid, measure: MetricFormat, path: PathFigures) -> DirectionFigure:
    is_late = path.stale_at is not None
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
    """The direction with the figures of the period; `columns` are those with an open incident."""
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
