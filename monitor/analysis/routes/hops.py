"""Loss and RTT of each hop of a route, with intervals, from traces along it.

In: for each trace the RTTs of the probes that expired at each TTL, None where lost. Out: figures of each hop. A router
replies to expired probes when it has time; so its loss counts only where the hops after it lose as much.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

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
