"""Directions of a path: loss by the reflector's counters, delay as the middle of the interval that the clocks allow."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from monitor.analysis import figures
from monitor.analysis.binomial import lower_bound, upper_bound
from monitor.archive.queries.directions import (
    DirectionFigures,
    DirectionPoint,
    direction_figures,
    direction_series,
)
from monitor.mesh.models import Path
from monitor.web.charts import directions as charts
from monitor.web.charts.marks import TimeAxis
from monitor.web.charts.svg import delays_svg, direction_losses_svg
from monitor.web.pages.path.drawing import PathChart
from probes.quantities import counted

# Of each end of a 95% interval.
ONE_SIDED = 0.975


@dataclass(frozen=True, slots=True)
class DirectionView:
    tiles: tuple[DirectionTile, ...]
    far: str
    loss: PathChart
    delay: PathChart | None  # None without timestamps of the reflector
    is_loose: bool  # delays are bound so loosely that lines tell no direction
    keys: frozenset[str]  # styles of stretches in the charts


@dataclass(frozen=True, slots=True)
class DirectionTile:
    name: str
    figure: str
    ground: str


def load_directions(path: Path, since: datetime, until: datetime, window: TimeAxis) -> DirectionView | None:
    """Figures of the charts' cycles, or of hours where these are deleted; None without STAMP tests."""
    of_hours = direction_figures(path.pk, since, until)
    if of_hours is None:
        return None
    series = direction_series(path.pk, since, until)
    here, far = path.source.site.name, path.destination.site.name
    name = f"{here} to {far}"
    losses, delays = charts.loss_spec(series, window, far), charts.delay_spec(series, window)
    return DirectionView(
        tiles=direction_tiles(path, _figures(series.points) or of_hours),
        far=far,
        loss=PathChart(direction_losses_svg(losses), charts.loss_sentence(name, far, window, series)),
        delay=None
        if delays is None
        else PathChart(delays_svg(delays), charts.delay_sentence(name, far, window, delays)),
        is_loose=delays is not None and charts.is_loose(delays),
        keys=frozenset(kind for kind in ("no-data", "all-lost") if losses["datasets"][kind]),
    )


def _figures(points: Sequence[DirectionPoint]) -> DirectionFigures | None:
    if not points:
        return None
    (forward_lost, sent), (reverse_lost, _) = (
        charts.losses_of(points, losses) for losses in (charts.forward_losses, charts.reverse_losses)
    )
    return DirectionFigures(
        counted=sent,
        forward_lost=forward_lost,
        reverse_lost=reverse_lost,
        undecided=max(0, sum(point.sent - point.received for point in points) - forward_lost - reverse_lost),
        forward_delay_lo_ms=_mean(points, "forward_delay_lo_ms"),
        forward_delay_hi_ms=_mean(points, "forward_delay_hi_ms"),
        reverse_delay_lo_ms=_mean(points, "reverse_delay_lo_ms"),
        reverse_delay_hi_ms=_mean(points, "reverse_delay_hi_ms"),
    )


def _mean(points: Sequence[DirectionPoint], field: str) -> float | None:
    pairs = [(value, point.received) for point in points if (value := getattr(point, field)) is not None]
    replies = sum(weight for _, weight in pairs)
    return sum(value * weight for value, weight in pairs) / replies if replies else None


def direction_tiles(path: Path, of_period: DirectionFigures) -> tuple[DirectionTile, ...]:
    far = path.destination.site.name
    returned = of_period.counted - of_period.forward_lost
    tiles = []
    if of_period.counted:
        tiles += [
            _loss(f"loss to {far}", of_period.forward_lost, of_period.counted, of_period.undecided),
            _loss(f"loss from {far}", of_period.reverse_lost, returned, of_period.undecided),
        ]
    delays = (
        (f"delay to {far}", of_period.forward_delay_lo_ms, of_period.forward_delay_hi_ms),
        (f"delay from {far}", of_period.reverse_delay_lo_ms, of_period.reverse_delay_hi_ms),
    )
    return (
        *tiles,
        *(_delay(name, lo_ms, hi_ms) for name, lo_ms, hi_ms in delays if lo_ms is not None and hi_ms is not None),
    )


def _loss(name: str, lost: int, sent: int, undecided: int) -> DirectionTile:
    # Losses of unknown direction are one's: the 95% interval spans none and all of them.
    ground = f"{lost:,} of {counted(sent, 'packet')}, by STAMP"
    if not undecided:
        return DirectionTile(name, figures.loss(lost, sent), ground)
    least = float(lower_bound(lost, sent + undecided, ONE_SIDED))
    most = float(upper_bound(lost + undecided, sent + undecided, ONE_SIDED))
    ground = f"95% interval: {ground}; the direction of {undecided:,} more lost is not known"
    return DirectionTile(name, figures.percent_interval(least, most), ground)


def _delay(name: str, lo_ms: float, hi_ms: float) -> DirectionTile:
    if charts.is_loose_interval(lo_ms, hi_ms):
        ends = figures.milliseconds_between(lo_ms, hi_ms)
        return DirectionTile(name, "not known", f"the clocks allow {ends}, by STAMP")
    middle_ms, error_ms = (lo_ms + hi_ms) / 2, (hi_ms - lo_ms) / 2
    ground = f"± {figures.milliseconds(error_ms)} by the clocks, by STAMP"
    return DirectionTile(name, figures.milliseconds(middle_ms), ground)
