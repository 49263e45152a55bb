"""Compare figures of an incident's paths before and after its beginning: loss and minimum RTT."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from monitor.alerts.detect.causes import SHARE_OF_FLOOR
from monitor.alerts.evidence.facts import Direction, Facts, PeriodFigures
from monitor.analysis import figures as shown

# RTT changes below both this and `MATTERS_SHARE` are ignored.
MATTERS_MS = 1.0
MATTERS_SHARE = 0.05


@dataclass(frozen=True, slots=True)
class DelayRise:
    """How much a path's median and minimum RTT (of most bursts) rose."""

    name: str
    median_ms: float
    minimum_ms: float

    @property
    def is_of_route(self) -> bool:
        return self.minimum_ms >= SHARE_OF_FLOOR * self.median_ms


def directions(facts: Facts) -> Iterator[Direction]:
    """The paths of the incident, then their reverse paths."""
    yield from (path.there for path in facts.paths)
    yield from (path.back for path in facts.paths if path.back is not None)


def loss_rose(direction: Direction) -> bool:
    """Whether loss rose: the intervals before and after do not overlap."""
    was, now = direction.before.loss_high_ratio, direction.after.loss_low_ratio
    return was is not None and now is not None and now > was


def pings_compared(facts: Facts) -> str:
    """State that pings show no more loss than before, or too few packets before the onset to tell."""
    unclear = [direction for direction in directions(facts) if not loss_rose(direction) and is_above_mean(direction)]
    if not unclear:
        return "pings show no more loss than before"
    return f"too few pings before the onset to tell whether they lose more: {loss_text(unclear)}"


def is_above_mean(direction: Direction) -> bool:
    """Whether loss since the onset exceeds the loss before, however few the packets."""
    was, now = direction.before.loss_ratio, direction.after.loss_low_ratio
    return now is not None and now > (was or 0.0)


def loss_text(lossy: Iterable[Direction]) -> str:
    """As in `20.3% since the onset (41 of 202 packets), before < 0.23%`, pooled over paths."""
    paths = list(lossy)
    lost, sent = _totals(direction.after for direction in paths)
    before = shown.loss(*_totals(direction.before for direction in paths))
    several = f", {len(paths)} paths" if len(paths) > 1 else ""
    return (
        f"{shown.loss(lost, sent)} since the onset ({shown.count(lost)} of {shown.count(sent)} packets{several}), "
        f"before {before}"
    )


def delay_rise(direction: Direction) -> DelayRise | None:
    """The rise of the RTT; None where it does not matter or is unknown."""
    was, now = direction.before, direction.after
    # Facts of an earlier version have the minimum of all packets only.
    is_new = was.rtt_floor_ms is not None and now.rtt_floor_ms is not None
    floors = (was.rtt_floor_ms, now.rtt_floor_ms) if is_new else (was.rtt_min_ms, now.rtt_min_ms)
    if was.rtt_median_ms is None or now.rtt_median_ms is None or floors[0] is None or floors[1] is None:
        return None
    rise_ms = now.rtt_median_ms - was.rtt_median_ms
    if rise_ms < max(MATTERS_MS, MATTERS_SHARE * was.rtt_median_ms):
        return None
    return DelayRise(direction.name, rise_ms, floors[1] - floors[0])


def is_normal(direction: Direction) -> bool:
    """Whether a direction is measured, and neither its loss nor its RTT rose."""
    return direction.after.received > 0 and not loss_rose(direction) and delay_rise(direction) is None


def _totals(periods: Iterable[PeriodFigures]) -> tuple[int, int]:
    every = list(periods)
    return sum(figures.lost for figures in every), sum(figures.sent for figures in every)
