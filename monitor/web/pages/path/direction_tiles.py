"""Tiles of a path's directions: loss by the reflector's counters, and the interval of each delay.

In: the directions of the period, from STAMP tests. Out: names, figures and grounds in words; nothing for a path without
such a test.
"""

from __future__ import annotations

from dataclasses import dataclass

from monitor.analysis import figures
from monitor.archive.queries.directions import DirectionFigures
from monitor.mesh.models import Path
from probes.quantities import counted


@dataclass(frozen=True, slots=True)
class DirectionTile:
    """A figure of a direction, and its basis."""

    name: str
    figure: str
    ground: str


def direction_tiles(path: Path, of_period: DirectionFigures | None) -> tuple[DirectionTile, ...]:
    """Loss and delay of each direction, as far as known."""
    if of_period is None:
        return ()
    far = path.destination.site.name
    returned = of_period.counted - of_period.forward_lost
    tiles = []
    if of_period.counted:
        tiles += [
            _loss(f"loss to {far}", of_period.forward_lost, of_period.counted),
            _loss(f"loss from {far}", of_period.reverse_lost, returned),
        ]
    delays = (
        (f"delay to {far}", of_period.forward_delay_lo_ms, of_period.forward_delay_hi_ms),
        (f"delay from {far}", of_period.reverse_delay_lo_ms, of_period.reverse_delay_hi_ms),
    )
    return (
        *tiles,
        *(_delay(name, lo_ms, hi_ms) for name, lo_ms, hi_ms in delays if lo_ms is not None and hi_ms is not None),
    )


def _loss(name: str, lost: int, sent: int) -> DirectionTile:
    return DirectionTile(name, figures.loss(lost, sent), f"{lost:,} of {counted(sent, 'packet')}, by STAMP")


def _delay(name: str, lo_ms: float, hi_ms: float) -> DirectionTile:
    """The middle of the interval, and its ends: the clocks allow all of it."""
    middle_ms, error_ms = (lo_ms + hi_ms) / 2, (hi_ms - lo_ms) / 2
    ground = f"± {figures.milliseconds(error_ms)} by the clocks, by STAMP"
    return DirectionTile(name, figures.milliseconds(middle_ms), ground)
