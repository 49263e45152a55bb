"""What the path page says of the path's narrowest link: the newest capacity with its interval, or why there is none.

In: the newest measurements, as `monitor.archive.queries.throughput.newest_capacities` has them. Out: sentences.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from monitor.analysis import figures
from monitor.archive.queries.throughput import CAPACITY_HOLDS, CapacityPoint
from monitor.web.labels import outcome_label


@dataclass(frozen=True, slots=True)
class CapacityView:
    """`known` is the newest measurement that found a capacity, `newest` a newer one, or the only one, that found none.
    Both are None where nothing was measured for `CAPACITY_HOLDS`."""

    known: CapacityPoint | None
    newest: CapacityPoint | None

    @property
    def headline(self) -> str:
        """The capacity with its interval, else what is known of it."""
        if self.known is not None:
            low, high = map(figures.bit_rate, (self.known.capacity_low_bps, self.known.capacity_high_bps))
            return f"{figures.bit_rate(self.known.capacity_bps)} ({low} to {high})"
        if self.newest is None:
            return f"Not measured in the {CAPACITY_HOLDS.days} days before the end of the period"
        if self.newest.capacity_low_bps is not None:
            return f"At least {figures.bit_rate(self.newest.capacity_low_bps)}"
        return "Unknown"

    @property
    def why(self) -> str:
        """How the newest measurement ended where it found none, as in "rate limited: ICMP is limited on the way"."""
        if self.newest is None:
            return ""
        reason = outcome_label(self.newest.verdict or self.newest.outcome)
        return reason if self.newest.detail is None else f"{reason}: {self.newest.detail}"


def capacity_view(found: Sequence[CapacityPoint]) -> CapacityView:
    """Of the newest measurements, newest first."""
    known = next((one for one in found if one.capacity_bps is not None), None)
    newest = next((one for one in found[:1] if one is not known), None)
    return CapacityView(known, newest)
