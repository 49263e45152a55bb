"""Loss and RTT of each hop of a route, with intervals, from traces along it.

In: for each trace the RTTs of the probes that expired at each TTL, None where lost. Out: figures of each hop. A router
replies to expired probes when it has time; so its loss counts only where the hops after it lose as much. The difference
of delay between neighbouring hops may be negative, as their replies take different ways back: evidence, no error.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from monitor.analysis.routes.medians import (
    CONFIDENCE_Z,
    Floats,
    MedianInterval,
    median_interval,
    proportion_difference,
    wilson,
)

HopRtts = Sequence[Sequence[float | None]]
"""The RTTs of a trace in ms: of each TTL, of each probe."""

LEAST_DIFFERENCE_MS = 1.0
"""Delay differences that rose by less are not reported, as in Fontugne et al."""


@dataclass(frozen=True, slots=True)
class HopFigures:
    """Figures of a hop. `loss_low` to `loss_high` hold the loss with 95%; all None or 0 where it was not probed.

    `is_limited`: a hop after it loses less, so that the loss is not the path's but the router's own rate limit (or of
    its replies' way back). `is_silent`: it never replied, which says nothing.
    """

    ttl: int
    sent: int
    lost: int
    loss_low: float
    loss_high: float
    rtt_ms: MedianInterval | None
    is_limited: bool
    is_silent: bool


@dataclass(frozen=True, slots=True)
class DelayDifference:
    """RTT of a hop minus that of the hop that replied before it."""

    near_ttl: int
    far_ttl: int
    interval_ms: MedianInterval


@dataclass(frozen=True, slots=True)
class HopDelayRise:
    """A delay difference whose interval lies above that of the baseline."""

    near_ttl: int
    far_ttl: int
    before_ms: MedianInterval
    after_ms: MedianInterval

    @property
    def shift_ms(self) -> float:
        return self.after_ms.median - self.before_ms.median


def hop_figures(traces: Sequence[HopRtts]) -> list[HopFigures]:
    """Figures of each TTL of traces along the same route; the last is the destination.

    A trace that ended early lost its probes to the TTLs beyond.
    """
    columns = _columns(traces)
    counts = [(float(np.isnan(column).sum()), float(len(column))) for column in columns]
    figures = []
    for place, (column, (lost, sent)) in enumerate(zip(columns, counts, strict=True)):
        low, high = wilson(lost, sent)
        is_silent = lost == sent and place < len(columns) - 1
        later = [others for others in counts[place + 1 :] if others[1] and others[0] < others[1]]
        is_limited = not is_silent and any(
            proportion_difference(others, (lost, sent), CONFIDENCE_Z[0.99])[0] > 0.0 for others in later
        )
        figures.append(
            HopFigures(place + 1, int(sent), int(lost), low, high, median_interval(column), is_limited, bool(is_silent))
        )
    return figures


def delay_differences(traces: Sequence[HopRtts]) -> list[DelayDifference]:
    """Differences of neighbouring hops that replied: the median over all pairs of RTTs of the same trace.

    Its interval counts traces, not pairs: the pairs of a trace share their RTTs.
    """
    medians = np.full((len(traces), _length(traces)), np.nan)
    for row, trace in enumerate(traces):
        medians[row, : len(trace)] = [_median(hop) for hop in trace]
    replied = [place for place in range(_length(traces)) if not np.isnan(medians[:, place]).all()]
    differences = []
    for near, far in pairwise(replied):
        pairs = [
            y - x
            for trace in traces
            if far < len(trace)
            for x in trace[near]
            if x is not None
            for y in trace[far]
            if y is not None
        ]
        both = int((~np.isnan(medians[:, near]) & ~np.isnan(medians[:, far])).sum())
        interval = median_interval(np.array(pairs, dtype=np.float64), CONFIDENCE_Z[0.95], float(both))
        if interval is not None:
            differences.append(DelayDifference(near + 1, far + 1, interval))
    return differences


def delay_rises(before: Sequence[HopRtts], after: Sequence[HopRtts]) -> list[HopDelayRise]:
    """Where the intervals part upwards (Fontugne et al., section 4.2.3): delay was added between these hops, or on the
    way back from the far hop."""
    baseline = {(entry.near_ttl, entry.far_ttl): entry.interval_ms for entry in delay_differences(before)}
    rises = []
    for entry in delay_differences(after):
        old, new = baseline.get((entry.near_ttl, entry.far_ttl)), entry.interval_ms
        if old is not None and new.low > old.high and new.median - old.median >= LEAST_DIFFERENCE_MS:
            rises.append(HopDelayRise(entry.near_ttl, entry.far_ttl, old, new))
    return rises


def _length(traces: Sequence[HopRtts]) -> int:
    return max((len(trace) for trace in traces), default=0)


def _columns(traces: Sequence[HopRtts]) -> list[Floats]:
    """The RTTs of all probes of each TTL, NaN where lost."""
    columns = []
    for place in range(_length(traces)):
        rtts: list[float | None] = []
        for trace in traces:
            probes = max((len(hop) for hop in trace), default=0)
            rtts += trace[place] if place < len(trace) else [None] * probes
        columns.append(np.array([np.nan if rtt is None else rtt for rtt in rtts], dtype=np.float64))
    return columns


def _median(rtts: Sequence[float | None]) -> float:
    received = [rtt for rtt in rtts if rtt is not None]
    return float(np.median(received)) if received else np.nan
