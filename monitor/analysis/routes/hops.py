"""Loss and RTT of each hop of a route, with intervals. Routers rate-limit replies, so a hop's loss counts only where
later hops lose as much."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from monitor.analysis.routes.medians import (
    CONFIDENCE_Z,
    MedianInterval,
    median_interval,
    proportion_difference,
    wilson,
)
from monitor.arrays import Floats

# The RTTs of a trace in ms: of each TTL, of each probe.
HopRtts = Sequence[Sequence[float | None]]


@dataclass(frozen=True, slots=True)
class HopFigures:
    """Figures of a hop; None or 0 where it was not probed."""

    ttl: int
    sent: int
    lost: int
    loss_low: float  # of the 95% interval
    loss_high: float
    rtt_ms: MedianInterval | None
    is_limited: bool  # a later hop loses less: rate limit or reply path
    is_silent: bool  # never replied


def hop_figures(traces: Sequence[HopRtts]) -> list[HopFigures]:
    """Figures of each TTL of traces along the same route; the last is the destination."""
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
    columns = []
    for place in range(_length(traces)):
        rtts: list[float | None] = []
        for trace in traces:
            probes = max((len(hop) for hop in trace), default=0)
            rtts += trace[place] if place < len(trace) else [None] * probes
        columns.append(np.array([np.nan if rtt is None else rtt for rtt in rtts], dtype=np.float64))
    return columns
