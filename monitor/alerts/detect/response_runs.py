"""The newest request-response runs of all paths, a row for each path and block sizes."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from monitor.alerts.detect.past.incident_times import NO_TIMES, IncidentTimes, MeasureKind
from monitor.analysis.alarms import ranks
from monitor.archive.queries.for_alerts import Columns
from monitor.arrays import Floats, Ints
from monitor.mesh.queries import MeasuredPath

if TYPE_CHECKING:
    from monitor.alerts.detect.sources import Source


RUNS_WITHIN = timedelta(days=7)
NEWEST = max(ranks.NEWEST)
FIGURES = ("median_ms", "p95_ms")
COLUMNS = ("at_s", *FIGURES)
_NO_IDS: Ints = np.zeros(0, dtype=np.int64)
_NO_RUNS: Floats = np.zeros((0, ranks.LONGEST))


@dataclass(frozen=True, slots=True)
class ResponseRuns:
    """Runs by path and sizes; times and latencies have the shape (rows, runs), newest last, NaN if absent."""

    paths: dict[int, MeasuredPath] = field(default_factory=dict)
    path_id: Ints = field(default_factory=lambda: _NO_IDS)
    request_bytes: Ints = field(default_factory=lambda: _NO_IDS)
    response_bytes: Ints = field(default_factory=lambda: _NO_IDS)
    at_s: Floats = field(default_factory=lambda: _NO_RUNS)
    median_ms: Floats = field(default_factory=lambda: _NO_RUNS)
    p95_ms: Floats = field(default_factory=lambda: _NO_RUNS)
    is_left_out: NDArray[np.bool_] = field(default_factory=lambda: np.zeros(_NO_RUNS.shape, dtype=np.bool_))

    def usual(self, figure: str) -> Floats:
        """This figure, NaN for runs in an earlier incident or maintenance."""
        return np.where(self.is_left_out, np.nan, getattr(self, figure))

    def row_of(self, path_id: int, request_bytes: int, response_bytes: int) -> int | None:
        """The row of these block sizes; None if the path has no such run any more."""
        is_row = (
            (self.path_id == path_id) & (self.request_bytes == request_bytes) & (self.response_bytes == response_bytes)
        )
        return int(np.flatnonzero(is_row)[0]) if is_row.any() else None


def take_responses(
    now: datetime, paths: dict[int, MeasuredPath], hourly: Columns, source: Source, times: IncidentTimes = NO_TIMES
) -> ResponseRuns:
    """Load the newest runs of these paths; `hourly` are runs of earlier hours, of any path."""
    if not paths:
        return ResponseRuns()
    newest = source.newest_responses(list(paths), now - RUNS_WITHIN, now, NEWEST)
    if not newest or not len(newest["path_id"]):
        return ResponseRuns(paths)
    rows, row_of_run = np.unique(_keys(newest), axis=0, return_inverse=True)
    runs = ResponseRuns(
        paths, rows[:, 0], rows[:, 1], rows[:, 2], *(np.full((len(rows), ranks.LONGEST), np.nan) for _ in COLUMNS)
    )
    place = ranks.LONGEST - 1 - newest["place"].astype(np.int64)
    for name in COLUMNS:
        getattr(runs, name)[row_of_run.ravel(), place] = newest[name]
    _add_hours(runs, hourly)
    return replace(runs, is_left_out=times.over(MeasureKind.RESPONSES, runs.path_id, runs.at_s))


def _add_hours(runs: ResponseRuns, hourly: Columns) -> None:
    if not hourly or not len(hourly["path_id"]):
        return
    number = {tuple(key): row for row, key in enumerate(zip(*_ids(runs), strict=True))}
    row = np.array([number.get(tuple(key), -1) for key in _keys(hourly).tolist()], dtype=np.int64)
    oldest_s = np.fmin.reduce(runs.at_s, axis=1)
    listed = np.flatnonzero(row >= 0)
    listed = listed[hourly["at_s"][listed] < oldest_s[row[listed]]]
    order = listed[np.lexsort((-hourly["at_s"][listed], row[listed]))]
    _, firsts, counts = np.unique(row[order], return_index=True, return_counts=True)
    place = np.arange(len(order)) - np.repeat(firsts, counts)
    kept, place = order[place < ranks.MOST_BEFORE], place[place < ranks.MOST_BEFORE]
    for name in COLUMNS:
        getattr(runs, name)[row[kept], ranks.MOST_BEFORE - 1 - place] = hourly[name][kept]


def _ids(runs: ResponseRuns) -> tuple[list[int], list[int], list[int]]:
    return runs.path_id.tolist(), runs.request_bytes.tolist(), runs.response_bytes.tolist()


def _keys(columns: Columns) -> Ints:
    return np.column_stack([columns[name] for name in ("path_id", "request_bytes", "response_bytes")]).astype(np.int64)
