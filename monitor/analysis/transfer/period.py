"""Statistics of a path's tests over a period, and bit-metres per second of the records page."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Spread:
    tests: int
    min_bps: float
    max_bps: float
    mean_bps: float
    deviation_bps: float | None  # of the sample; None for a single test


def spread(throughputs_bps: Sequence[float]) -> Spread | None:
    """Statistics of the measured tests; None without any."""
    if not throughputs_bps:
        return None
    return Spread(
        tests=len(throughputs_bps),
        min_bps=min(throughputs_bps),
        max_bps=max(throughputs_bps),
        mean_bps=statistics.fmean(throughputs_bps),
        deviation_bps=statistics.stdev(throughputs_bps) if len(throughputs_bps) > 1 else None,
    )


def bit_metres_per_s(throughput_bps: float, distance_km: float) -> float:
    """Rate times great-circle distance, as in the Internet land speed record."""
    return throughput_bps * distance_km * 1000.0
