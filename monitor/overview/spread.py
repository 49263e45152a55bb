"""Bounds of colour bands by quantiles of the values shown, for metrics without absolute bands."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

QUANTILES = (0.25, 0.5, 0.75, 0.95)
# Least ratio of neighbouring bounds.
LEAST_FACTOR = 1.25
# How far beyond the last bound the worst value must be for a band of its own.
FAR_FACTOR = 2.0


def spread_bounds(values: Iterable[float], *, lower_is_worse: bool) -> tuple[float, ...]:
    """At most five increasing bounds, finest at the worse end; none for about equal values."""
    positive = np.array([value for value in values if value > 0], dtype=np.float64)
    if positive.size == 0:
        return ()
    logs = np.sort(-np.log(positive) if lower_is_worse else np.log(positive))
    least, most = logs[0], logs[-1]
    chosen: list[float] = []
    for quantile in np.quantile(logs, QUANTILES, method="lower"):
        if quantile - (chosen[-1] if chosen else least) >= np.log(LEAST_FACTOR) and quantile < most:
            chosen.append(float(quantile))
    last = chosen[-1] if chosen else least
    if most - last >= np.log(FAR_FACTOR):
        chosen.append(float((last + most) / 2))
    bounds = np.exp(-np.array(chosen) if lower_is_worse else np.array(chosen))
    return tuple(sorted({float(f"{bound:.2g}") for bound in bounds}))
