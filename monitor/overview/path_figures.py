"""A path's figures of a metric, over a period or now, with its state. Grid, table and site page share them.

In: paths with what is known of them without data, a metric, a packet size, and a period or a window for each path. Out:
`PathFigures`. No text for people and no colours: those belong to the pages.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from enum import StrEnum

from monitor.alerts.detect.packet_times import last_replies
from monitor.analysis import binomial
from monitor.analysis.changes.present import LostPackets
from monitor.analysis.directions import DirectionLosses
from monitor.analysis.figures import loss_evidence
from monitor.analysis.loss import OUTAGE_CYCLES, is_outage, loss_bound_ratio
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
from probes.contract import Outcome


class FigureState(StrEnum):
    """The state of a path. Only `VALUE` and `NONE_LOST` have a figure to compare; `UNDEFINED`
    was measured but leaves the metric undefined: conditional loss without loss."""

    VALUE = "value"
    NONE_LOST = "none_lost"
    UNDEFINED = "undefined"
    TOTAL_LOSS = "total_loss"
    NO_DATA = "no_data"
    NOT_MEASURED = "not_measured"
    OWN_TEST = "own_test"


@dataclass(frozen=True, slots=True)
class PathFigures:
    """A path over the period. `value` is the metric's, in the unit of its name. Unknown values are None; `outcome` is
    that of the newest failed test, `tests_on_demand` counts tests that are in no other figure, `value_before` is the
    metric's in the period compared with; `bursts_all_lost` counts those of `bursts` without any reply, `bursts_arrived`
    those of any outcome. `loss_lower_ratio` is the lower 95% bound of a loss. `value` is of `value_sent` packets,
    `value_received` of them answered, if of counted packets.

    `unanswered_since` is the last reply of a path that has lost its newest cycles as a whole, so that its state is
    `TOTAL_LOSS` though others of its bursts were answered.

    Where `value` is the present level of an open incident, of an outage or of a raised RTT, a loss that is being
    checked, or that since its end, `value_measured` is that of the window, and `level_since` the first burst of the
    level of an incident or after such an end, `level_s` before the last evaluation; `incident_peak` is its worst.
    `value_loss` and `worst_loss` are the packets of both, of a loss that the rules follow. `value_lower_ratio` is the
    lower 95% bound of a loss that is or was being checked.
    `ended_at` is when the path's last incident ended, if within the window; its worst is then `incident_peak`, and all
    figures are those since its end if `is_since_end`.

    `measured_by` are the words for the packets of its bursts where they are no pings; `directions` the packets of its
    STAMP tests in the same time, None where no reflector counts them. `stale_at` is the newest burst if it is
    too old for figures of now; `is_set_aside`: newer bursts arrived, all sent during our own throughput tests.
    """

    path_id: int
    source: str
    destination: str
    family: int
    incident_id: int | None
    in_maintenance: bool = False
    state: FigureState = FigureState.NO_DATA
    value: float | None = None
    sent: int | None = None
    received: int | None = None
    loss_ratio: float | None = None
    loss_bound_ratio: float | None = None
    tests: int | None = None
    tests_measured: int | None = None
    tests_on_demand: int | None = None
    not_measured: int | None = None
    outcome: str | None = None
    value_before: float | None = None
    bursts: int | None = None
    bursts_all_lost: int | None = None
    bursts_arrived: int | None = None
    value_measured: float | None = None
    level_s: float | None = None
    level_since: datetime | None = None
    loss_lower_ratio: float | None = None
    incident_peak: float | None = None
    value_loss: LostPackets | None = None
    worst_loss: LostPackets | None = None
    ended_incident_id: int | None = None
    ended_at: datetime | None = None
    is_since_end: bool = False
    unanswered_since: datetime | None = None
    value_sent: int | None = None
    value_received: int | None = None
    measured_by: str | None = None
    directions: DirectionLosses | None = None
    stale_at: datetime | None = None
    is_set_aside: bool = False
    value_lower_ratio: float | None = None

    @property
    def proven_loss_ratio(self) -> float | None:
        """The loss by which a path is classed: the lower bound of a loss of its own packets. An incident has a proof of
        its own, so its level stands."""
        if self.value_lower_ratio is not None:
            return self.value_lower_ratio
        return self.value if self.value_measured is not None else self.loss_lower_ratio

    @property
    def loss_evidence(self) -> str | None:
        """The counts behind `loss_ratio` in words; None without packets."""
        if not self.sent or self.received is None:
            return None
        return loss_evidence(self.sent, self.received)

    @property
    def is_of_ended(self) -> bool:
        """Whether its figure is from an incident that ended, for want of any since."""
        return self.ended_at is not None and self.incident_peak is not None and not self.is_since_end

    @property
    def value_peak(self) -> float | None:
        """The incident's worst; of a loss only if its packets prove that it was above that of now."""
        is_proven = self.value_loss is None or self.worst_loss is None or self.worst_loss.is_above(self.value_loss)
        return self.incident_peak if is_proven else None

    @property
    def has_figure(self) -> bool:
        return self.state in (FigureState.VALUE, FigureState.NONE_LOST)

    @property
    def has_outage(self) -> bool:
        """Whether some of its bursts were lost as a whole, and others not."""
        return bool(self.bursts_all_lost) and self.state is not FigureState.TOTAL_LOSS


KnownFields = tuple[int, str, str, int, int | None, bool]
"""The first fields of `PathFigures`, known without any data."""


def worst(metric: Metric, figures: Iterable[PathFigures]) -> PathFigures:
    """The worst of several paths between the same two sites."""
    return max(figures, key=lambda path: badness(metric, path))


def badness(metric: Metric, path: PathFigures) -> tuple[int, float, int]:
    """Orders paths by trouble: the state first, then the figure. No two paths are equal."""
    sign = -1.0 if metric.lower_is_worse else 1.0
    figure = float("-inf") if path.value is None else sign * path.value
    return _SEVERITY[path.state], figure, -path.path_id


def judged(metric: Metric, path: PathFigures) -> tuple[int, float]:
    """Orders figures by their class: the state first, then the figure by which a cell is classed."""
    figure = path.proven_loss_ratio if metric is Metric.LOSS else path.value
    sign = -1.0 if metric.lower_is_worse else 1.0
    return _SEVERITY[path.state], float("-inf") if figure is None else sign * figure


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
    """The paths with the figures of the hours that overlap the period, or of its throughput tests. With `only_these`
    the archive is not asked for all paths."""
    if metric is Metric.THROUGHPUT:
        summaries = throughput_summaries(since, until)
        figures = _of_tests(paths, {tests.path_id: (tests, tests.figure_bps) for tests in summaries})
        return _with_on_demand(figures, on_demand_counts(since, until))
    path_ids = [path[0] for path in paths] if only_these else None
    cells = tables.grid(metric, since, until, packet_bytes=packet_bytes, path_ids=path_ids)
    return of_cells(metric, paths, cells, since, until)


def figures_of(
    paths: Sequence[KnownFields], summaries: Iterable[PathSummary], since: datetime, until: datetime
) -> tuple[PathFigures, ...]:
    """The paths with the loss of these summaries of the period, of a single packet size."""
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
    return of_cells(Metric.LOSS, paths, cells, since, until)


@dataclass(frozen=True, slots=True)
class PathsNow:
    """The figures of now that are asked for: of paths with packets of this size, each measured every `every_s` seconds,
    since its moment in `begins`."""

    metric: Metric
    packet_bytes: int
    paths: Sequence[KnownFields]
    begins: Mapping[int, datetime]
    until: datetime
    every_s: Mapping[int, int]

    @property
    def since(self) -> datetime:
        """Where the longest window begins."""
        return min(self.begins.values(), default=self.until)

    def before(self, earlier: timedelta) -> PathsNow:
        """The same at an earlier time."""
        begins = {path_id: begin - earlier for path_id, begin in self.begins.items()}
        return replace(self, begins=begins, until=self.until - earlier)

    def since_each(self, begins: Mapping[int, datetime]) -> PathsNow:
        """Those of these paths alone, each since another moment."""
        return replace(self, paths=[path for path in self.paths if path[0] in begins], begins=begins)


def figures_now(asked: PathsNow) -> tuple[PathFigures, ...]:
    """The paths with the figures of their newest bursts, or with their newest throughput test. A path that lost its
    newest cycles as a whole is in an outage."""
    metric, until, every_s = asked.metric, asked.until, asked.every_s
    if metric is Metric.THROUGHPUT:
        newest, on_demand = newest_throughput(asked.begins, until)
        figures = _of_tests(asked.paths, {tests.path_id: (tests, _rate_now_bps(tests)) for tests in newest})
        return _with_on_demand(figures, on_demand)
    fresh_s = {path_id: recent.fresh_s(every) for path_id, every in every_s.items()}
    fresh_since = until - timedelta(seconds=min(fresh_s.values(), default=0.0))
    cells = recent.grid(metric, asked.begins, until, asked.packet_bytes, fresh_since)
    figures = of_cells(metric, asked.paths, cells, asked.since, until)
    stale = {
        cell.path_id: cell
        for cell in cells
        if cell.stale_at is not None and (until - cell.stale_at).total_seconds() > fresh_s[cell.path_id]
    }
    if stale:
        figures = tuple(
            replace(path, stale_at=cell.stale_at, is_set_aside=_is_set_aside(cell, until, fresh_s[path.path_id]))
            if (cell := stale.get(path.path_id)) is not None
            else path
            for path in figures
        )
    silent = {
        cell.path_id: cell.answered_at
        for cell in cells
        if cell.answered_at is not None and _is_silent(cell, every_s[cell.path_id])
    }
    last = silent | last_replies(silent)
    return tuple(_in_outage(metric, path, last[path.path_id]) if path.path_id in last else path for path in figures)


def _is_set_aside(cell: recent.RecentCell, until: datetime, fresh_s: float) -> bool:
    """Whether the newest bursts of a path arrive, but count nowhere."""
    return cell.set_aside_at is not None and (until - cell.set_aside_at).total_seconds() <= fresh_s


def _is_silent(cell: recent.RecentCell, every_s: int) -> bool:
    if cell.measured_at is None or cell.answered_at is None or not cell.bursts:
        return False
    silent_s = (cell.measured_at - cell.answered_at).total_seconds()
    if silent_s < OUTAGE_CYCLES * every_s:
        return False
    unanswered = min(silent_s / every_s * cell.sent / cell.bursts, cell.sent - cell.received)
    return is_outage(cell.sent, cell.received, unanswered)


def _in_outage(metric: Metric, path: PathFigures, last_reply: datetime) -> PathFigures:
    path = replace(path, state=FigureState.TOTAL_LOSS, unanswered_since=last_reply)
    if metric is not Metric.LOSS:
        return path
    return replace(path, value=1.0, value_measured=path.value, value_sent=None, value_received=None)


def _rate_now_bps(tests: NewestThroughput) -> float | None:
    """The rate of the newest test; an earlier rate would hide that it failed."""
    return tests.throughput_bps if tests.latest_outcome == Outcome.MEASURED else None


def of_cells(
    metric: Metric, paths: Sequence[KnownFields], cells: Iterable[tables.GridCell], since: datetime, until: datetime
) -> tuple[PathFigures, ...]:
    """The paths with the figures of their bursts; where none was measured, with the newest outcome of a day."""
    by_path = {cell.path_id: cell for cell in cells}
    lowest = _lowest_losses(by_path)
    figures = [_with_bursts(metric, path, by_path.get(path[0]), lowest.get(path[0])) for path in paths]
    wanted = [path.path_id for path in figures if path.state is FigureState.NOT_MEASURED]
    if not wanted:
        return tuple(figures)
    newest = newest_failures(max(since, until - LONGEST_RAW), until, wanted)
    outcomes = {failure.path_id: failure.outcome for failure in newest}
    return tuple(
        replace(path, outcome=outcomes.get(path.path_id)) if path.state is FigureState.NOT_MEASURED else path
        for path in figures
    )


def _lowest_losses(cells: Mapping[int, tables.GridCell]) -> dict[int, float]:
    """The lower 95% bounds of the loss of all paths with loss, at once."""
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
        loss_ratio=cell.loss_ratio,
        loss_bound_ratio=loss_bound_ratio(cell.sent, cell.received),
        not_measured=cell.bursts_not_measured,
        bursts=cell.bursts,
        bursts_all_lost=cell.bursts_all_lost,
        bursts_arrived=cell.bursts + cell.bursts_during_test + cell.bursts_not_measured,
        loss_lower_ratio=loss_lower_ratio,
        value_sent=cell.sent,
        value_received=cell.received,
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
    """The paths with their throughput tests, each with the throughput that is shown for them."""
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
