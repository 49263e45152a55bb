"""The baseline of each path: counts and daily figures older than all tested windows, without earlier incidents.

Valid for an hour.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from monitor.alerts.detect.past.incident_times import NO_TIMES, IncidentTimes
from monitor.alerts.detect.sources import STORED, Source
from monitor.analysis.alarms import ranks
from monitor.archive.periods import start_of
from monitor.archive.queries import for_alerts

# Longest period tested for a regression: the running hour and this many before it.
TESTED_HOURS = 12
BASELINE_DAYS = 28
SCATTER_DAYS = 3
SEASON_WEEKS = 4
DRIFT_DAYS = ranks.LONGEST
# The baseline of hourly runs is the newest two days, of rarer runs this many.
RESPONSE_DAYS = 7


@dataclass(frozen=True, slots=True)
class Baselines:
    """Baselines of paths (`for_alerts.baseline_counts`) and directions (`baseline_directions`), made once an hour."""

    hour: datetime
    columns: for_alerts.Columns
    daily: for_alerts.Columns
    directions: for_alerts.Columns
    as_paths: Mapping[str, frozenset[int]] = field(default_factory=dict)
    responses: for_alerts.Columns = field(default_factory=dict)
    times: IncidentTimes = NO_TIMES


def baselines_since(now: datetime) -> datetime:
    return _hours_since(start_of("hour", now)) - BASELINE_DAYS * for_alerts.DAY


def baselines_at(now: datetime, source: Source = STORED, times: IncidentTimes = NO_TIMES) -> Baselines:
    hour = start_of("hour", now)
    until = hour - TESTED_HOURS * for_alerts.HOUR
    hours_since = _hours_since(hour)
    season = [
        hour - timedelta(weeks=weeks, hours=apart) for weeks in range(1, SEASON_WEEKS + 1) for apart in (-1, 0, 1)
    ]
    today = start_of("day", now)
    since = baselines_since(now)
    past = (since, hours_since, until, season, times.hours(since, until))
    return Baselines(
        hour=hour,
        columns=source.baseline_counts(*past),
        daily=source.daily_figures(today - DRIFT_DAYS * for_alerts.DAY, today),
        directions=source.baseline_directions(*past),
        as_paths=source.as_paths(now),
        responses=source.hourly_responses(hour - RESPONSE_DAYS * for_alerts.DAY, hour),
        times=times,
    )


def _hours_since(hour: datetime) -> datetime:
    return start_of("day", hour - TESTED_HOURS * for_alerts.HOUR) - SCATTER_DAYS * for_alerts.DAY
