"""The RTT of a path now, and since when it is back at that before its incident.

In: a finding of the RTT, and the bursts of the snapshot. Out: a `FindingLevel`, from the first burst on that is back.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

import numpy as np
from numpy.typing import NDArray

from monitor.alerts.detect.delay_windows import DELAYS, level_ms
from monitor.alerts.detect.past.recent_bursts import RecentBursts
from monitor.alerts.detect.rules.by_direction import DIRECTION
from monitor.alerts.detect.snapshot import Snapshot
from monitor.alerts.incidents.finding_level import FindingLevel, LevelUnit, is_normal, level_of
from monitor.alerts.models import IncidentPath
from monitor.analysis.changes.present import newest_run
from monitor.archive.queries.recent import fresh_s

Floats = NDArray[np.float64]

NOW_BURSTS = 5
"""The newest bursts whose median is the present RTT."""


def present_rtt(row: IncidentPath, figure: str, snapshot: Snapshot, window_s: float, every_s: float) -> FindingLevel:
    """The median of the newest bursts of the present, of `window_s`, since the onset; of a direction, of its STAMP
    cycles. `every_s` is the interval of these."""
    one_way = snapshot.directions.get(row.figures.get(DIRECTION, ""))
    bursts = snapshot.trips if one_way is None else one_way.trips
    now_s, trips = snapshot.now.timestamp(), bursts.bursts_of(row.path_id)
    since_s = max(now_s - window_s, row.since.timestamp())
    first = 0 if trips is None else int(np.searchsorted(trips.at_s, since_s))
    if trips is None or first == len(trips.at_s):
        return FindingLevel(LevelUnit.MILLISECONDS, None, 0.0)
    of_window = trips.part(first, len(trips.at_s))
    newest = of_window.newest(NOW_BURSTS)
    median_ms = float(np.median(level_ms(newest.values_ms, figure)))
    level = FindingLevel(LevelUnit.MILLISECONDS, median_ms, median_ms)
    is_back_by = False
    if is_normal(level, row):
        # Bursts of before the end are not part of the present.
        first_back = first + _first_back(of_window, figure, row.figures)
        is_back_by = _is_after_gap(trips.at_s, first_back, level_of(row), fresh_s(every_s))
        of_window = trips.part(first_back, len(trips.at_s))
        newest = of_window.newest(NOW_BURSTS)
        median_ms = float(np.median(level_ms(newest.values_ms, figure)))
    return FindingLevel(
        LevelUnit.MILLISECONDS,
        median_ms,
        median_ms,
        window_s=now_s - float(newest.at_s[0]),
        since=_time(newest.at_s[0]),
        newest_at=_time(newest.at_s[-1]),
        is_back_by=is_back_by,
    )


def _is_after_gap(at_s: Floats, first: int, before: FindingLevel | None, longest_s: float) -> bool:
    """Whether the burst before the first of these is so much older that the RTT may have been back long since."""
    newest_at = None if before is None else before.newest_at
    if first == 0 and newest_at is None:
        return False
    before_s = float(at_s[first - 1]) if first else min(newest_at.timestamp(), float(at_s[0])) if newest_at else 0.0
    return float(at_s[first]) - before_s > longest_s


def _first_back(bursts: RecentBursts, figure: str, figures: Mapping[str, Any]) -> int:
    """The first of the newest bursts that are nearer to the level before than to that of the finding, without one that
    began at that of the finding: the change was within it."""

    def is_back(values_ms: Floats) -> NDArray[np.bool_]:
        return np.abs(values_ms - figures["before_ms"]) < np.abs(values_ms - figures["after_ms"])

    first = newest_run(is_back(level_ms(bursts.values_ms, figure)))
    rtts_ms = bursts.rtts_ms[first]
    answered = rtts_ms[~np.isnan(rtts_ms)]
    began_before = figure in DELAYS and len(answered) > 0 and not is_back(answered)[0]
    return first + 1 if began_before and first + 1 < len(bursts.at_s) else first


def _time(at_s: float) -> datetime:
    return datetime.fromtimestamp(at_s, UTC)
