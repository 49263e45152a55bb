"""Shares of sites on the status page.

For many sites a thread counts while readers get the last result: 1,000 sites with 100 paths each have nine million
summaries of 90 days.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

import numpy as np

from monitor.archive.queries.operation.uptime import (
    MeasuredShare,
    UptimeStep,
    incident_shares,
    measured_shares,
    measured_since,
)
from monitor.archive.queries.path_states import PathState
from monitor.mesh.models import Path, Site
from monitor.overview.path_conditions import conditions_at
from monitor.overview.wide.losses import SHARED_FROM_SITES
from monitor.overview.wide.shared import SharedResults

Key = tuple[int, datetime]
NEW_FOR, SHOWN_FOR = timedelta(minutes=2), timedelta(minutes=5)
# Results that arrive late change the earlier days and hours, seldom; the page says as of when they are.
EARLIER_NEW_FOR, EARLIER_SHOWN_FOR = timedelta(minutes=10), timedelta(days=1)


@dataclass(frozen=True, slots=True)
class StepShares:
    incident: dict[Key, float] = field(default_factory=dict)
    measured: dict[Key, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class SiteShares:
    """Uptime is the share of measured path time without an open incident, None if nothing was measured."""

    since: dict[int, datetime]
    days: StepShares
    hours: StepShares
    uptime: dict[int, float | None]
    at: datetime | None  # when the last two days and hours were counted; None for now
    earlier_at: datetime | None  # when earlier steps were counted; None for now


@dataclass(frozen=True, slots=True)
class _Earlier:
    at: datetime
    until_day: datetime
    until_hour: datetime
    since: dict[int, datetime]
    days: list[MeasuredShare]
    hours: list[MeasuredShare]


_counted: SharedResults[None, SiteShares] = SharedResults(new_for=NEW_FOR, shown_for=SHOWN_FOR, is_large=lambda _: True)
_earlier: SharedResults[None, _Earlier] = SharedResults(
    new_for=EARLIER_NEW_FOR, shown_for=EARLIER_SHOWN_FOR, is_large=lambda _: True
)


def load_shares(
    days: Sequence[datetime], hours: Sequence[datetime], now: datetime, over_at: Mapping[int, datetime]
) -> SiteShares:
    """The last day and hour are running. `over_at` are ends of incidents that wait to be closed."""
    if Site.objects.in_use().count() < SHARED_FROM_SITES:
        daily = measured_shares(UptimeStep.DAY, days[0], days[-1], now)
        hourly = measured_shares(UptimeStep.HOUR, hours[0], hours[-1] + timedelta(hours=1), now)
        return _shares(days, hours, now, over_at, measured_since(), daily, hourly)
    return _counted.get(None, now, lambda: _count_of_many(days, hours, now, over_at))


def _count_of_many(
    days: Sequence[datetime], hours: Sequence[datetime], now: datetime, over_at: Mapping[int, datetime]
) -> SiteShares:
    kept = _earlier.get(None, now, lambda: _load_earlier(days, hours, now))
    day, hour = max(kept.until_day, days[0]), max(kept.until_hour, hours[0])
    daily = [share for share in kept.days if share.at >= days[0]]
    daily += measured_shares(UptimeStep.DAY, day, days[-1], now)
    hourly = [share for share in kept.hours if share.at >= hours[0]]
    hourly += measured_shares(UptimeStep.HOUR, hour, hours[-1] + timedelta(hours=1), now)
    return replace(_shares(days, hours, now, over_at, kept.since, daily, hourly), at=now, earlier_at=kept.at)


def _shares(
    days: Sequence[datetime],
    hours: Sequence[datetime],
    now: datetime,
    over_at: Mapping[int, datetime],
    since: dict[int, datetime],
    daily: Sequence[MeasuredShare],
    hourly: Sequence[MeasuredShare],
) -> SiteShares:
    in_days, in_hours = (
        _incident(step, steps, since, now, over_at)
        for step, steps in ((UptimeStep.DAY, days), (UptimeStep.HOUR, hours))
    )
    by_day = StepShares(in_days, _ratios([*daily, *_of_day(hourly, days[-1])]))
    by_hour = StepShares(in_hours, _ratios(hourly))
    begun = [site_id for site_id, began_at in since.items() if began_at >= hours[-1]]
    for site_id, share in _current_shares(begun, now).items():
        by_day.measured[site_id, days[-1]] = by_hour.measured[site_id, hours[-1]] = share
    return SiteShares(since, by_day, by_hour, _uptimes(days, by_day, since, now), at=None, earlier_at=None)


def _load_earlier(days: Sequence[datetime], hours: Sequence[datetime], now: datetime) -> _Earlier:
    """Count all but the last two days and hours."""
    # Results of these may still be on their way.
    day, hour = days[-2], max(hours[0], hours[-1] - timedelta(hours=1))
    hourly = measured_shares(UptimeStep.HOUR, hours[0], hour, now) if hours[0] < hour else []
    return _Earlier(now, day, hour, measured_since(), measured_shares(UptimeStep.DAY, days[0], day, now), hourly)


def forget() -> None:
    _counted.clear()
    _earlier.clear()


def _current_shares(site_ids: Sequence[int], now: datetime) -> dict[int, float]:
    """Share of paths with current data, of sites in their first hour."""
    if not site_ids:
        return {}
    # Only whole hours have counts of planned measurements.
    sources = dict(Path.objects.filter(source__site__in=site_ids, retired_at=None).values_list("id", "source__site_id"))
    states: dict[int, list[PathState]] = defaultdict(list)
    for path_id, condition in conditions_at(now, sources).items():
        if condition.state is not PathState.AWAITED:
            states[sources[path_id]].append(condition.state)
    return {site_id: 1.0 - of_site.count(PathState.NO_DATA) / len(of_site) for site_id, of_site in states.items()}


def _uptimes(
    days: Sequence[datetime], shares: StepShares, since_of: Mapping[int, datetime], now: datetime
) -> dict[int, float | None]:
    # Mean share without incidents; unmeasured time is neither up nor down.
    row = {site_id: number for number, site_id in enumerate(since_of)}
    column = {at: number for number, at in enumerate(days)}
    incident, measured = np.zeros((len(row), len(column))), np.zeros((len(row), len(column)))
    for filled, ratios in ((incident, shares.incident), (measured, shares.measured)):
        for (site_id, at), ratio in ratios.items():
            if site_id in row and at in column:
                filled[row[site_id], column[at]] = ratio
    begins_s = np.array([at.timestamp() for at in days])
    since_s = np.array([since.timestamp() for since in since_of.values()]).reshape(-1, 1)
    lengths_s = np.minimum(begins_s + timedelta(days=1).total_seconds(), now.timestamp()) - np.maximum(
        begins_s, since_s
    )
    lengths_s = np.maximum(lengths_s, 1.0)
    measured_s = (lengths_s * np.where(incident > 0.0, 1.0, measured)).sum(axis=1).tolist()
    down_s = (lengths_s * incident).sum(axis=1).tolist()
    return {
        site_id: None if measured_s[number] == 0.0 else 1.0 - down_s[number] / measured_s[number]
        for site_id, number in row.items()
    }


def elapsed_s(at: datetime, length: timedelta, since: datetime, now: datetime) -> float:
    return max(1.0, (min(at + length, now) - max(at, since)).total_seconds())


def _of_day(hourly: Sequence[MeasuredShare], midnight: datetime) -> list[MeasuredShare]:
    planned: dict[int, int] = {}
    measured: dict[int, float] = {}
    for share in hourly:
        planned[share.site_id] = planned.get(share.site_id, 0) + share.planned
        measured[share.site_id] = measured.get(share.site_id, 0.0) + share.measured
    return [MeasuredShare(site_id, midnight, number, measured[site_id]) for site_id, number in planned.items()]


def _ratios(shares: Sequence[MeasuredShare]) -> dict[Key, float]:
    return {(share.site_id, share.at): min(1.0, share.measured / share.planned) for share in shares}


def _incident(
    step: UptimeStep,
    steps: Sequence[datetime],
    since: dict[int, datetime],
    now: datetime,
    over_at: Mapping[int, datetime],
) -> dict[Key, float]:
    length = timedelta(hours=1) if step is UptimeStep.HOUR else timedelta(days=1)
    ratios = {}
    for share in incident_shares(step, steps[0], steps[-1] + length, now, over_at):
        path_s = share.paths * elapsed_s(share.at, length, since.get(share.site_id, share.at), now)
        ratios[share.site_id, share.at] = min(1.0, share.incident_s / path_s)
    return ratios
