"""Medians with intervals by ranks, and intervals of proportions by Wilson's score (JASA 22, 1927).

Fontugne, Pelsser, Aben and Bush, "Pinpointing delay and forwarding anomalies" (IMC 2017, section 4.2); differences by
Newcombe's method 10 (Statistics in Medicine 17, 1998).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from monitor.arrays import Floats

CONFIDENCE_Z = {0.95: 1.96, 0.99: 2.576, 0.999: 3.291}


@dataclass(frozen=True, slots=True)
class MedianInterval:
    median: float
    low: float
    high: float
    count: int


def wilson(events: float, trials: float, z: float = CONFIDENCE_Z[0.95]) -> tuple[float, float]:
    """The interval of a proportion; counts need not be integers. (0, 1) without trials."""
    if trials <= 0:
        return 0.0, 1.0
    ratio, square = events / trials, z * z / trials
    middle = (ratio + square / 2.0) / (1.0 + square)
    half = z / (1.0 + square) * math.sqrt(ratio * (1.0 - ratio) / trials + square / (4.0 * trials))
    return max(middle - half, 0.0), min(middle + half, 1.0)


def median_interval(
    values: Floats, z: float = CONFIDENCE_Z[0.95], effective: float | None = None
) -> MedianInterval | None:
    """The median of values without NaN, `effective` of them independent; None without values."""
    ordered = np.sort(values[~np.isnan(values)])
    count = len(ordered)
    if not count:
        return None
    trials = count if effective is None else effective
    low, high = wilson(trials / 2.0, trials, z)
    ranks = math.floor(count * low), math.ceil(count * high) - 1
    return MedianInterval(
        float(np.median(ordered)), float(ordered[max(ranks[0], 0)]), float(ordered[min(ranks[1], count - 1)]), count
    )


def effective_count(values: Floats) -> float:
    """The number of independent samples with the same information, by the autocorrelation at lag 1."""
    count = len(values)
    if count < 3:
        return float(count)
    ranks = np.argsort(np.argsort(values)).astype(np.float64)
    centred = ranks - ranks.mean()
    power = float(centred @ centred)
    correlation = float(centred[1:] @ centred[:-1]) / power if power else 0.0
    # The estimate of a short series is too low by about (1 + 4 r) / n (Kendall 1954).
    correlation = min(max(correlation + (1.0 + 4.0 * correlation) / count, 0.0), 0.95)
    return max(count * (1.0 - correlation) / (1.0 + correlation), 1.0)


def proportion_difference(
    before: tuple[float, float], after: tuple[float, float], z: float = CONFIDENCE_Z[0.95]
) -> tuple[float, float]:
    """The interval of the second proportion minus the first, each given as (events, trials)."""
    first, second = wilson(*before, z), wilson(*after, z)
    p, q = (events / trials if trials else 0.0 for events, trials in (before, after))
    low = q - p - math.sqrt((q - second[0]) ** 2 + (first[1] - p) ** 2)
    high = q - p + math.sqrt((second[1] - q) ** 2 + (p - first[0]) ** 2)
    return low, high
