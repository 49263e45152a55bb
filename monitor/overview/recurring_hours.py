"""Daily congestion of a path over two weeks, by local time and in words (`monitor.analysis.daily_congestion`)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, tzinfo

import numpy as np
from numpy.typing import NDArray

from monitor.analysis.daily_congestion import LEAST_DAYS, DailyCongestion, daily_congestion, in_words
from monitor.archive.periods import SLOTS_AN_HOUR, start_of
from monitor.archive.queries.trends import slot_minima
from monitor.mesh.models import Path

DAYS = 14
SLOTS_A_DAY = 24 * SLOTS_AN_HOUR
SLOT = timedelta(hours=1) / SLOTS_AN_HOUR
LONGITUDE_OF_AN_HOUR_DEG = 15.0


@dataclass(frozen=True, slots=True)
class PathCongestion:
    """The daily congestion in whole days [since, until)."""

    since: datetime
    until: datetime
    zone: str  # of the hours
    congestion: DailyCongestion
    sentences: tuple[str, ...]  # for each of its hours, or that it is unknown


def path_congestion(path: Path, now: datetime, zone: tzinfo = UTC) -> PathCongestion:
    """Daily congestion in the 14 days before the running hour. `path` needs its source site."""
    return congestion_of([path], now, zone)[path.pk]


def congestion_of(paths: Iterable[Path], now: datetime, zone: tzinfo) -> dict[int, PathCongestion]:
    """The daily congestion of these paths by id, by a single query."""
    until = start_of("hour", now)
    since = until - timedelta(days=DAYS)
    by_id = {path.pk: path for path in paths}
    minima = slot_minima(list(by_id), since, until)
    places = _local_places(since, until, zone)
    nothing = np.full((len(places), SLOTS_AN_HOUR), np.nan)
    return {
        path_id: _of_path(path, minima.get(path_id, nothing), places, since, until, zone)
        for path_id, path in by_id.items()
    }


def _local_places(since: datetime, until: datetime, zone: tzinfo) -> NDArray[np.int64]:
    """Number local slots from the midnight before `since`, for each hour's start."""
    midnight = since.astimezone(zone).replace(hour=0, minute=0, second=0, microsecond=0, tzinfo=None)
    hours = (since + timedelta(hours=number) for number in range((until - since) // timedelta(hours=1)))
    return np.array([(hour.astimezone(zone).replace(tzinfo=None) - midnight) // SLOT for hour in hours])


def _of_path(
    path: Path, minima_ms: NDArray[np.float64], places: NDArray[np.int64], since: datetime, until: datetime,
    zone: tzinfo,
) -> PathCongestion:  # fmt: skip
    first = since.astimezone(zone).date()
    by_clock_ms = np.full((DAYS + 1) * SLOTS_A_DAY, np.nan)
    # The hour that the clock repeats at the end of daylight saving time has the lower of both.
    np.fmin.at(by_clock_ms, places[:, np.newaxis] + np.arange(SLOTS_AN_HOUR), minima_ms)
    weekdays = [(first + timedelta(days=day)).weekday() for day in range(DAYS + 1)]
    congestion = daily_congestion(by_clock_ms.reshape(DAYS + 1, SLOTS_A_DAY), weekdays)
    name = until.astimezone(zone).tzname() or "UTC"
    offset = until.astimezone(zone).utcoffset() or timedelta(0)
    solar_h = path.source.site.longitude_deg / LONGITUDE_OF_AN_HOUR_DEG - offset.total_seconds() / 3600.0
    sentences = tuple(in_words(hours, name, solar_h) for hours in congestion.hours)
    if not congestion.can_tell and np.isfinite(minima_ms).any():
        sentences = (f"cannot tell: fewer than {LEAST_DAYS} days with pings",)
    return PathCongestion(since, until, name, congestion, sentences)
