"""The shares of sites on the status page: path time with an open incident, and planned measurements that arrived.

In: the days and the hours that have bars, and the time. Out: `SiteShares`. Of many sites, those of days and hours that
ended some time ago are shared by all readers for some minutes: 1,000 sites with 100 paths each have nine million
summaries of 90 days.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from monitor.archive.queries.operation.uptime import (
    MeasuredShare,
    UptimeStep,
    incident_shares,
    measured_shares,
    measured_since,
)
from monitor.mesh.models import Site
from monitor.overview.wide.losses import SHARED_FROM_SITES
from monitor.overview.wide.shared import SharedResults

Key = tuple[int, datetime]
EARLIER_NEW_FOR, EARLIER_SHOWN_FOR = timedelta(minutes=10), timedelta(days=1)
"""Results that arrive late change the earlier days and hours, seldom; the page says as of when they are."""


@dataclass(frozen=True, slots=True)
class StepShares:
    """By site and step: the share of path time with an open incident, and that of planned measurements that arrived."""

    incident: dict[Key, float] = field(default_factory=dict)
    measured: dict[Key, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class SiteShares:
    """The shares of days and of hours, and when each site began to be measured. `earlier_at` is when those of earlier
    days and hours were counted; None where that is now."""

    since: dict[int, datetime]
    days: StepShares
    hours: StepShares
    earlier_at: datetime | None


@dataclass(frozen=True, slots=True)
class _Earlier:
    """Those of the days before `until_day` and of the hours before `until_hour`."""

    at: datetime
    until_day: datetime
    until_hour: datetime
    since: dict[int, datetime]
    days: list[MeasuredShare]
    hours: list[MeasuredShare]


_earlier: SharedResults[None, _Earlier] = SharedResults(
    new_for=EARLIER_NEW_FOR, shown_for=EARLIER_SHOWN_FOR, is_large=lambda _: True
)


def load_shares(days: Sequence[datetime], hours: Sequence[datetime], now: datetime) -> SiteShares:
    """The shares of these days and hours; the last of both is running."""
    midnight, running = days[-1], hours[-1]
    if Site.objects.in_use().count() < SHARED_FROM_SITES:
        since = measured_since()
        daily = measured_shares(UptimeStep.DAY, days[0], midnight, now)
        hourly = measured_shares(UptimeStep.HOUR, hours[0], running + timedelta(hours=1), now)
        earlier_at = None
    else:
        kept = _earlier.get(None, now, lambda: _load_earlier(days, hours, now))
        since, earlier_at = kept.since, kept.at
        day, hour = max(kept.until_day, days[0]), max(kept.until_hour, hours[0])
        daily = [share for share in kept.days if share.at >= days[0]]
        daily += measured_shares(UptimeStep.DAY, day, midnight, now)
        hourly = [share for share in kept.hours if share.at >= hours[0]]
        hourly += measured_shares(UptimeStep.HOUR, hour, running + timedelta(hours=1), now)
    return SiteShares(
        since,
        StepShares(_incident(UptimeStep.DAY, days, since, now), _ratios([*daily, *_of_day(hourly, midnight)])),
        StepShares(_incident(UptimeStep.HOUR, hours, since, now), _ratios(hourly)),
        earlier_at,
    )


def _load_earlier(days: Sequence[datetime], hours: Sequence[datetime], now: datetime) -> _Earlier:
    """All but the running day and hour and those before them, whose results may still be on their way."""
    day, hour = days[-2], max(hours[0], hours[-1] - timedelta(hours=1))
    hourly = measured_shares(UptimeStep.HOUR, hours[0], hour, now) if hours[0] < hour else []
    return _Earlier(now, day, hour, measured_since(), measured_shares(UptimeStep.DAY, days[0], day, now), hourly)


def forget() -> None:
    """Count everything anew for the next reader."""
    _earlier.clear()


def elapsed_s(at: datetime, length: timedelta, since: datetime, now: datetime) -> float:
    """Seconds of a step that have passed since the site began to be measured."""
    return max(1.0, (min(at + length, now) - max(at, since)).total_seconds())


def _of_day(hourly: Sequence[MeasuredShare], midnight: datetime) -> list[MeasuredShare]:
    """The running day of each site, from its hours."""
    planned: dict[int, int] = {}
    measured: dict[int, float] = {}
    for share in hourly:
        planned[share.site_id] = planned.get(share.site_id, 0) + share.planned
        measured[share.site_id] = measured.get(share.site_id, 0.0) + share.measured
    return [MeasuredShare(site_id, midnight, number, measured[site_id]) for site_id, number in planned.items()]


def _ratios(shares: Sequence[MeasuredShare]) -> dict[Key, float]:
    return {(share.site_id, share.at): min(1.0, share.measured / share.planned) for share in shares}


def _incident(
    step: UptimeStep, steps: Sequence[datetime], since: dict[int, datetime], now: datetime
) -> dict[Key, float]:
    length = timedelta(hours=1) if step is UptimeStep.HOUR else timedelta(days=1)
    ratios = {}
    for share in incident_shares(step, steps[0], steps[-1] + length, now):
        path_s = share.paths * elapsed_s(share.at, length, since.get(share.site_id, share.at), now)
        ratios[share.site_id, share.at] = min(1.0, share.incident_s / path_s)
    return ratios
