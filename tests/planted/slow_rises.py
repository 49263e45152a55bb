"""RTTs that rise slowly, so that no burst is the first of a new level: when the rule `rtt` finds them.

In: paths whose RTT rises by a constant delay, or by waits in a queue that fills: exponential, with a rising mean. Out:
the cycles until half of the paths are found, and nine of ten.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from monitor.alerts.backtest.recorded import RecordedSource
from tests.planted import paths
from tests.planted.paths import SIZES
from tests.planted.simulated import BEFORE_CYCLES, Sizes, _first_found
from tests.reproduce.table import Table

CYCLES = 60
CASES = (
    (20.0, 40.0, 40, "delay"),
    (150.0, 40.0, 40, "delay"),
    (150.0, 40.0, 40, "queue"),
    (150.0, 15.0, 20, "queue"),
    (150.0, 20.0, 60, "delay"),
    (150.0, 10.0, 60, "delay"),
)
"""RTT before in ms, rise in ms and in minutes, what rises."""
UNDETECTABLE_MS = 15.0
"""Rises that are smaller in an hour are below `least_rise_ms` in the compared bursts."""
PATHS = 60


def table(sizes: Sizes) -> Table:
    """The minutes from the beginning of the rise to its finding."""
    results = Table(("RTT", "rises by", "over", "found: half", "9 of 10", "within 1 h"))
    for base_ms, rise_ms, minutes, kind in CASES:
        random = np.random.default_rng(13)
        level_ms = np.r_[np.zeros(BEFORE_CYCLES), rise_ms * np.minimum(np.arange(CYCLES) / minutes, 1.0)]
        is_queue = kind == "queue"
        bursts = paths.bursts(PATHS, len(level_ms), np.zeros(1), random, base_ms + (0.0 if is_queue else level_ms))
        if is_queue:
            waits_ms = np.tile(np.repeat(level_ms, len(SIZES)), PATHS)[:, np.newaxis]
            waits_ms = waits_ms * random.exponential(1.0, bursts.rtts_ms.shape)
            bursts = replace(bursts, rtts_ms=bursts.rtts_ms + waits_ms)
        found = _first_found(paths.scope(paths.apart(PATHS)), RecordedSource(bursts), ("rtt",))
        half, most = (float(np.quantile(found, share, method="higher")) for share in (0.5, 0.9))
        label = f"{base_ms:g} ms", f"{rise_ms:g} ms, {kind}", f"{minutes} min"
        share = f"{np.isfinite(found).mean():.0%}"
        results.rows.append((*label, _minutes(half), _minutes(most), share))
        if rise_ms >= UNDETECTABLE_MS and np.isinf(most):
            results.failures.append(f"{', '.join(label)}: found {share} within an hour")
    return results


def _minutes(cycles: float) -> str:
    return "not" if math.isinf(cycles) else f"{cycles:.0f} min"
