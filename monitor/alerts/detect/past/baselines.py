"""The baseline of each path: its counts and daily figures from data older than all tested windows.

In: a source of measurements, a moment, and the time of earlier incidents, which the counts leave out. Out: `Baselines`,
valid for an hour. The rules compare the newest data of a `Snapshot` against them.
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

TESTED_HOURS = 12
"""The longest period tested for a regression: the running hour and this many before it."""
BASELINE_DAYS = 28
SCATTER_DAYS = 3
SEASON_WEEKS = 4
DRIFT_DAYS = ranks.LONGEST
RESPONSE_DAYS = 7
"""Of runs an hour apart the newest two days are the baseline, of rarer ones so many."""


@dataclass(frozen=True, slots=True)
class Baselines:
    """The baseline of each path for the running hour, named as in `for_alerts.baseline_counts`, and of its directions,
    as in `for_alerts.baseline_directions`; made once an hour. `as_paths` are the paths through each AS by then,
    `responses` the request-response runs of past hours as in `for_alerts.hourly_responses`. `times` are the incidents
    and maintenance by then; the counts are without them."""

    hour: datetime
    columns: for_alerts.Columns
    daily: for_alerts.Columns
    directions: for_alerts.Columns
    as_paths: Mapping[str, frozenset[int]] = field(default_factory=dict)
    responses: for_alerts.Columns = field(default_factory=dict)
    times: IncidentTimes = NO_TIMES


def baselines_since(now: datetime) -> datetime:
    """The beginning of the counts of the baselines of the hour of `now`."""
    return _hours_since(start_of("hour", now)) - BASELINE_DAYS * for_alerts.DAY


def baselines_at(now: datetime, source: Source = STORED, times: IncidentTimes = NO_TIMES) -> Baselines:
    """The baselines of the hour of `now`, from data older than all tested windows and without these times."""
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
