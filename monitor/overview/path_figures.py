"""A path's figures of a metric, over a period or now, for grid, table and site page. Not here: text and colours."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from enum import StrEnum

from monitor.analysis import binomial
from monitor.analysis.directions import DirectionLosses
from monitor.analysis.figures import loss_evidence
from monitor.analysis.loss import loss_bound_ratio
from monitor.archive.queries import recent, tables
from monitor.archive.queries.metrics import Metric
from monitor.archive.queries.paths import PathSummary, newest_failures
from monitor.archive.queries.throughput.series import (
    NewestThroughput,
    PathThroughput,
    newest_throughput,
    on_demand_counts,
    throughput_summaries,
)
from monitor.archive.statements import LONGEST_RAW
from monitor.present.conditions import Condition
from monitor.present.read import PresentPath
from probes.contract import Outcome


class FigureState(StrEnum):
    """The state of a path. Only `VALUE` and `NONE_LOST` have a comparable figure; `UNDEFINED` is conditional loss
    without loss."""

    VALUE = "value"
    NONE_LOST = "none_lost"
    UNDEFINED = "undefined"
    TOTAL_LOSS = "total_loss"
    NO_DATA = "no_data"
    NOT_MEASURED = "not_measured"
    OWN_TEST = "own_test"


@dataclass(frozen=True, slots=True)
class PathFigures:
    """A path's figures over a period. Unknown values are None."""

    path_id: int
    source: str
    destination: str
    family: int
    incident_id: int | None
    in_maintenance: bool = False
    present: PresentPath | None = None  # state now; None without pings
    state: FigureState = FigureState.NO_DATA
    value: float | None = None  # in the unit of the metric's name; now the track's level
    sent: int | None = None
    received: int | None = None
    tests: int | None = None
    tests_measured: int | None = None
    tests_on_demand: int | None = None  # tests counted in no other figure
    not_measured: int | None = None
    outcome: str | None = None  # of the newest failed test
    value_before: float | None = None  # in the period compared with
    bursts: int | None = None
    bursts_all_lost: int | None = None  # bursts without any reply
    loss_lower_ratio: float | None = None  # lower 95% bound
    proven_loss_ratio: float | None = None  # loss by which the path is classed
    measured_by: str | None = None  # words for packets other than pings
    directions: DirectionLosses | None = None  # of STAMP tests; None without a reflector's counts
    value_measured: float | None = None  # of the window, if not the level (monitor.overview.cell_now)

    @property
    def loss_ratio(self) -> float | None:
        return None if not self.sent or self.received is None else (self.sent - self.received) / self.sent

    @property
    def loss_bound_ratio(self) -> float | None:
        """Upper 95% bound of the loss if no packet was lost; else None."""
        return None if not self.sent or self.received is None else loss_bound_ratio(self.sent, self.received)

    @property
    def loss_evidence(self) -> str | None:
        """The counts behind `loss_ratio` in words; None without packets."""
        if not self.sent or self.received is None:
            return None
        return loss_evidence(self.sent, self.received)

    @property
    def condition(self) -> Condition | None:
        """State now by all tracks; None without pings."""
        return None if self.present is None else self.present.condition

    @property
    def is_in_trouble(self) -> bool:
        return self.present is not None and self.present.condition.is_trouble

    @property
    def has_figure(self) -> bool:
        return self.state in (FigureState.VALUE, FigureState.NONE_LOST)

    @property
    def has_outage(self) -> bool:
        """Whether some but not all of its bursts were lost entirely."""
        return bool(self.bursts_all_lost) and self.state is not FigureState.TOTAL_LOSS


# The first fields of `PathFigures`, known without any data.
KnownFields = tuple[int, str, str, int, int | None, bool, PresentPath | None]


def worst(metric: Metric, figures: Iterable[PathFigures]) -> PathFigures:
    return max(figures, key=lambda path: badness(metric, path))


def badness(metric: Metric, path: PathFigures) -> tuple[int, float, int]:
    """Sort key by trouble: the state, then the figure; unique for each path."""
    sign = -1.0 if metric.lower_is_worse else 1.0
    figure = float("-inf") if path.value is None else sign * path.value
    return _SEVERITY[path.state], figure, -path.path_id


_SEVERITY = {
    FigureState.TOTAL_LOSS: 4,
    FigureState.VALUE: 3,
    FigureState.NONE_LOST: 2,
    FigureState.UNDEFINED: 1,
    FigureState.OWN_TEST: 1,
    FigureState.NOT_MEASURED: 1,
    FigureState.NO_DATA: 0,
}


def figures_over(
    metric: Metric,
    packet_bytes: int,
    paths: Sequence[KnownFields],
    since: datetime,
    until: datetime,
    *,
    only_these: bool = False,
) -> tuple[PathFigures, ...]:
    """The paths with figures of the hours overlapping the period, or of its throughput tests; `only_these` restricts
    the query."""
    if metric is Metric.THROUGHPUT:
        summaries = throughput_summaries(since, until)
        figures = _of_tests(paths, {tests.path_id: (tests, tests.figure_bps) for tests in summaries})
        return _with_on_demand(figures, on_demand_counts(since, until))
    path_ids = [path[0] for path in paths] if only_these else None
    cells = tables.grid(metric, since, until, packet_bytes=packet_bytes, path_ids=path_ids)
    return _of_cells(metric, paths, cells, since, until)


def figures_of(
    paths: Sequence[KnownFields], summaries: Iterable[PathSummary], since: datetime, until: datetime
) -> tuple[PathFigures, ...]:
    """The paths with the loss of these summaries of a single packet size."""
    cells = [
        tables.GridCell(
            path_id=summary.path_id,
            packet_bytes=summary.packet_bytes,
            value=summary.loss_ratio,
            bursts=summary.bursts,
            bursts_all_lost=summary.bursts_all_lost,
            bursts_during_test=summary.bursts_during_test,
            bursts_not_measured=summary.bursts_not_measured,
            sent=summary.sent,
            received=summary.received,
        )
        for summary in summaries
    ]
    return _of_cells(Metric.LOSS, paths, cells, since, until)


@dataclass(frozen=True, slots=True)
class PathsNow:
    metric: Metric
    packet_bytes: int  # of the bursts
    paths: Sequence[KnownFields]
    begins: Mapping[int, datetime]  # start of each path's window
    until: datetime

    @property
    def since(self) -> datetime:
        return min(self.begins.values(), default=self.until)

    def before(self, earlier: timedelta) -> PathsNow:
        begins = {path_id: begin - earlier for path_id, begin in self.begins.items()}
        return replace(self, begins=begins, until=self.until - earlier)


def figures_now(asked: PathsNow) -> tuple[PathFigures, ...]:
    """The paths with figures of their newest bursts or throughput test."""
    if asked.metric is Metric.THROUGHPUT:
        newest, on_demand = newest_throughput(asked.begins, asked.until)
        figures = _of_tests(asked.paths, {tests.path_id: (tests, _rate_now_bps(tests)) for tests in newest})
        return _with_on_demand(figures, on_demand)
    cells = recent.grid(asked.metric, asked.begins, asked.until, asked.packet_bytes)
    return _of_cells(asked.metric, asked.paths, cells, asked.since, asked.until)


def _rate_now_bps(tests: NewestThroughput) -> float | None:
    # An earlier test's rate would hide a failure.
    return tests.throughput_bps if tests.latest_outcome == Outcome.MEASURED else None


def _of_cells(
    metric: Metric, paths: Sequence[KnownFields], cells: Iterable[tables.GridCell], since: datetime, until: datetime
) -> tuple[PathFigures, ...]:
    """Figures of bursts; unmeasured paths get their newest outcome of the last day."""
    by_path = {cell.path_id: cell for cell in cells}
    lowest = _lowest_losses(by_path)
    figures = tuple(_with_bursts(metric, path, by_path.get(path[0]), lowest.get(path[0])) for path in paths)
    return with_outcomes(figures, since, until)


def with_outcomes(figures: tuple[PathFigures, ...], since: datetime, until: datetime) -> tuple[PathFigures, ...]:
    """Add the newest outcome of the last day to unmeasured paths."""
    wanted = [path.path_id for path in figures if path.state is FigureState.NOT_MEASURED and path.outcome is None]
    if not wanted:
        return figures
    newest = newest_failures(max(since, until - LONGEST_RAW), until, wanted)
    outcomes = {failure.path_id: failure.outcome for failure in newest}
    return tuple(
        replace(path, outcome=outcomes[path.path_id])
        if path.state is FigureState.NOT_MEASURED and path.path_id in outcomes
        else path
        for path in figures
    )


def _lowest_losses(cells: Mapping[int, tables.GridCell]) -> dict[int, float]:
    lossy = [(key, cell.sent - cell.received, cell.sent) for key, cell in cells.items() if cell.received < cell.sent]
    if not lossy:
        return {}
    path_ids, lost, sent = zip(*lossy, strict=True)
    return dict(zip(path_ids, binomial.lower_bound(lost, sent).tolist(), strict=True))


def _with_bursts(
    metric: Metric, path: KnownFields, cell: tables.GridCell | None, loss_lower_ratio: float | None
) -> PathFigures:
    if cell is None:
        return PathFigures(*path)
    return PathFigures(
        *path,
        state=_ping_state(metric, cell),
        value=cell.value,
        sent=cell.sent,
        received=cell.received,
        not_measured=cell.bursts_not_measured,
        bursts=cell.bursts,
        bursts_all_lost=cell.bursts_all_lost,
        loss_lower_ratio=loss_lower_ratio,
        proven_loss_ratio=loss_lower_ratio,
    )


def _ping_state(metric: Metric, cell: tables.GridCell) -> FigureState:
    if cell.sent == 0:
        if cell.bursts_not_measured > 0:
            return FigureState.NOT_MEASURED
        return FigureState.OWN_TEST if cell.bursts_during_test > 0 else FigureState.NO_DATA
    if cell.received == 0:
        return FigureState.TOTAL_LOSS
    if cell.value is None:
        return FigureState.UNDEFINED
    return FigureState.NONE_LOST if metric is Metric.LOSS and cell.received == cell.sent else FigureState.VALUE


def _of_tests(
    paths: Sequence[KnownFields], by_path: Mapping[int, tuple[PathThroughput | NewestThroughput, float | None]]
) -> tuple[PathFigures, ...]:
    return tuple(_with_tests(path, *by_path[path[0]]) if path[0] in by_path else PathFigures(*path) for path in paths)


def _with_on_demand(figures: Sequence[PathFigures], counts: Mapping[int, int]) -> tuple[PathFigures, ...]:
    return tuple(replace(path, tests_on_demand=counts.get(path.path_id)) for path in figures) if counts else (*figures,)


def _with_tests(
    path: KnownFields, tests: PathThroughput | NewestThroughput, throughput_bps: float | None
) -> PathFigures:
    return PathFigures(
        *path,
        state=FigureState.NOT_MEASURED if throughput_bps is None else FigureState.VALUE,
        value=throughput_bps,
        tests=tests.tests,
        tests_measured=tests.measured,
        not_measured=tests.tests - tests.measured,
        outcome=None if tests.latest_outcome == Outcome.MEASURED else tests.latest_outcome,
    )
