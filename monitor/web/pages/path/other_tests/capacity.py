"""Bottleneck capacity of a path, or why there is none."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from monitor.analysis import figures
from monitor.archive.kinds.kind import Point
from monitor.archive.queries.throughput.series import CAPACITY_HOLDS
from monitor.web.labels import outcome_label


@dataclass(frozen=True, slots=True)
class CapacityView:
    """Newest measured capacity, and newest failure since; both None without a test in `CAPACITY_HOLDS`."""

    measured: Point | None  # newest measurement with a capacity
    newest: Point | None  # later measurement without

    @property
    def headline(self) -> str:
        """Capacity with interval, else a lower bound or "Unknown"."""
        if self.measured is not None:
            low, high = map(figures.bit_rate, (self.measured.capacity_low_bps, self.measured.capacity_high_bps))
            return f"{figures.bit_rate(self.measured.capacity_bps)} ({low} to {high})"
        if self.newest is None:
            return f"Not measured in the {CAPACITY_HOLDS.days} days before the end of the period"
        if self.newest.capacity_low_bps is not None:
            return f"At least {figures.bit_rate(self.newest.capacity_low_bps)}"
        return "Unknown"

    @property
    def why(self) -> str:
        """`rate limited: ICMP is limited on the way`."""
        if self.newest is None:
            return ""
        reason = outcome_label(self.newest.verdict or self.newest.outcome)
        return reason if self.newest.detail is None else f"{reason}: {self.newest.detail}"


def capacity_view(points: Sequence[Point]) -> CapacityView:
    """`points` are newest first."""
    measured = next((point for point in points if point.capacity_bps is not None), None)
    newest = next((point for point in points[:1] if point is not measured), None)
    return CapacityView(measured, newest)
