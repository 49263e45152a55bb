"""The figures of a run: latency percentiles and rates."""

from __future__ import annotations

import math
from collections.abc import Sequence

import msgspec

MS_PER_S = 1000.0


class LatencyFigures(msgspec.Struct, frozen=True, kw_only=True):
    """Latencies, and rates over the transactions' own time."""

    transactions: int
    minimum_ms: float
    median_ms: float
    p95_ms: float
    p99_ms: float
    maximum_ms: float
    transactions_per_s: float
    payload_bytes_per_s: float  # both directions


def latency_figures(latencies_ms: Sequence[float], block_bytes: int) -> LatencyFigures | None:
    """Figures of transactions; `block_bytes` counts both blocks. None without transactions."""
    total_ms = sum(latencies_ms)
    if not latencies_ms or total_ms <= 0:
        return None
    ordered = sorted(latencies_ms)
    per_s = MS_PER_S * len(ordered) / total_ms
    return LatencyFigures(
        transactions=len(ordered),
        minimum_ms=ordered[0],
        median_ms=percentile(ordered, 0.5),
        p95_ms=percentile(ordered, 0.95),
        p99_ms=percentile(ordered, 0.99),
        maximum_ms=ordered[-1],
        transactions_per_s=per_s,
        payload_bytes_per_s=per_s * block_bytes,
    )


def percentile(ordered: Sequence[float], ratio: float) -> float:
    """Interpolate linearly, as PostgreSQL's `percentile_cont`."""
    place = ratio * (len(ordered) - 1)
    below = math.floor(place)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (place - below) * (ordered[above] - ordered[below])
