"""The newest raw one-way delays of each path as windows for the change detector.

`clock_lo` and `clock_hi` bound the clock offset's share in the delays, NaN where unknown.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime

import numpy as np

from monitor.alerts.detect.past.recent_bursts import FIGURES, RecentBursts, table_of
from monitor.alerts.detect.rtt_windows import SPARE_CYCLES, WINDOW, TripWindows, windows_of
from monitor.alerts.detect.sources import Source
from monitor.archive.queries.for_alerts import DIRECTIONS, Columns
from monitor.arrays import Floats
from monitor.mesh.queries import MeasuredPath

# Prefix of the figures of the other direction.
OTHER = "other_"
CLOCK_LO, CLOCK_HI = "clock_lo", "clock_hi"
# Figures that contain the clock offset; their sum over both directions, the round trip, does not.
DELAYS = ("minimum", "median")


def delay_windows(
    now: datetime,
    paths: Mapping[int, MeasuredPath],
    measured_s: Mapping[int, float],
    judged_s: Mapping[int, float],
    watched: set[int],
    source: Source,
) -> dict[str, TripWindows]:
    """Windows and cycles of each direction, for `watched` paths and those with cycles since they were judged."""
    due = [
        path
        for path_id, path in paths.items()
        if path_id in watched or measured_s.get(path_id, -np.inf) > judged_s.get(path_id, -np.inf)
    ]
    since_s = [judged_s.get(path.path_id, now.timestamp()) - (WINDOW + SPARE_CYCLES) * path.every_s for path in due]
    delays = source.recent_delays([path.path_id for path in due], since_s, now)
    path_id = delays["path_id"].astype(np.int64)
    return {direction: windows_of(table_of(path_id, _bursts(delays, direction)), judged_s) for direction in DIRECTIONS}


def level_ms(values_ms: Mapping[str, Floats], figure: str) -> Floats:
    """A figure without the clock offset: for one-way delays the sum of both directions."""
    other = values_ms.get(f"{OTHER}{figure}")
    return values_ms[figure] if other is None or figure not in DELAYS else values_ms[figure] + other


def _bursts(delays: Columns, direction: str) -> RecentBursts:
    other = next(name for name in DIRECTIONS if name != direction)
    values_ms = {figure: delays[f"{direction}_{figure}"] for figure in FIGURES}
    values_ms |= {f"{OTHER}{figure}": delays[f"{other}_{figure}"] for figure in FIGURES}
    low, high = delays["offset_lo"], delays["offset_hi"]
    if direction != DIRECTIONS[0]:
        low, high = -high, -low
    values_ms |= {CLOCK_LO: low, CLOCK_HI: high}
    return RecentBursts(delays["at_s"], np.full(len(low), np.nan), values_ms, np.zeros((len(low), 0)))
