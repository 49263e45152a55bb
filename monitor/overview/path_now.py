"""A path now and in the last hour: loss and RTT cells, counts by packet size and direction."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from monitor.analysis.directions import DirectionLosses
from monitor.archive.queries import recent
from monitor.archive.queries.directions import direction_counts_since
from monitor.archive.queries.metrics import Metric
from monitor.archive.queries.paths import PathSummary
from monitor.overview.cell_now import rtt_begins, with_levels
from monitor.overview.grid import Grid, GridPeriod, load_grid
from monitor.overview.path_figures import KnownFields, PathsNow, figures_now
from monitor.present.read import PresentPath

HOUR = timedelta(hours=1)


@dataclass(frozen=True, slots=True)
class PathNow:
    loss: Grid  # grid of this path alone; without figures without pings
    rtt: Grid  # grid of this path alone; without figures without pings
    present: PresentPath | None
    of_hour: tuple[PathSummary, ...]  # sizes with packets in the last hour
    directions_of_hour: DirectionLosses | None  # STAMP counts


def load_path_now(path_id: int, packet_bytes: int | None, now: datetime) -> PathNow:
    """Load a path now and in the last hour. Raises `UnknownChoice` for an unmeasured size."""
    loss = load_grid(Metric.LOSS, GridPeriod.NOW, now, packet_bytes=packet_bytes, path_ids=[path_id])
    summaries = [recent.summary(path_id, size, now - HOUR, now) for size in loss.packet_sizes if loss.figures]
    has_directions = any(path.directions is not None for path in loss.figures)
    counts = direction_counts_since({path_id: now - HOUR}, now) if has_directions else {}
    return PathNow(
        loss,
        _rtt_beside(loss),
        next((path.present for path in loss.figures), None),
        tuple(summary for summary in summaries if summary is not None and summary.sent),
        counts.get(path_id),
    )


def _rtt_beside(loss: Grid) -> Grid:
    assert loss.packet_bytes is not None
    paths: list[KnownFields] = [
        (path.path_id, path.source, path.destination, path.family, path.incident_id, path.in_maintenance, path.present)
        for path in loss.figures
    ]
    begins = {path.path_id: loss.since for path in loss.figures}
    if not loss.is_smallest_size:
        begins = rtt_begins(begins, {path.path_id: path.present for path in loss.figures})
    figures = figures_now(PathsNow(Metric.RTT_MEDIAN, loss.packet_bytes, paths, begins, loss.until))
    is_smallest_size = loss.is_smallest_size
    figures = with_levels(Metric.RTT_MEDIAN, loss.packet_bytes, figures, loss.since, is_smallest_size=is_smallest_size)
    return replace(loss, metric=Metric.RTT_MEDIAN, figures=figures)
