"""The daily congestion of a path over the last two weeks, from hourly summaries, and in words.

In: a path, a moment and a time zone. Out: `PathCongestion`, to the hour: an hour counts as congested if its minimum RTT
is above the base, so hours that are congested in part are left out. `monitor.analysis.daily_congestion` has the method.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, tzinfo

import numpy as np

from monitor.analysis.daily_congestion import LEAST_DAYS, DailyCongestion, daily_congestion, in_words
from monitor.archive.periods import start_of
from monitor.archive.statements import run_statement
from monitor.mesh.models import Path

DAYS = 14
HOURS = 24
LONGITUDE_OF_AN_HOUR_DEG = 15.0


@dataclass(frozen=True, slots=True)
class PathCongestion:
    """The daily congestion in whole days [since, until), by the hours of `zone`; a sentence for each of its hours.
    `sentences` has one that it cannot be told, if so."""

    since: datetime
    until: datetime
    zone: str
    congestion: DailyCongestion
    sentences: tuple[str, ...]


def path_congestion(path: Path, now: datetime, zone: tzinfo = UTC) -> PathCongestion:
    """The daily congestion of a path in the 14 days before the running hour. `path` needs its source site."""
    return congestion_of([path], now, zone)[path.pk]


def congestion_of(paths: Iterable[Path], now: datetime, zone: tzinfo) -> dict[int, PathCongestion]:
    """The daily congestion of these paths by their ids, by a single query."""
    until = start_of("hour", now)
    since = until - timedelta(days=DAYS)
    by_id = {path.pk: path for path in paths}
    _, rows = run_statement("hourly_minima", path_ids=list(by_id), since=since, until=until)
    minima = {path_id: list(zip(hours, minima_ms, strict=True)) for path_id, hours, minima_ms in rows}
    return {path_id: _of_path(path, minima.get(path_id, []), since, until, zone) for path_id, path in by_id.items()}


def _of_path(
    path: Path, minima: list[tuple[datetime, float]], since: datetime, until: datetime, zone: tzinfo
) -> PathCongestion:
    first = since.astimezone(zone).date()
    minimum_ms = np.full((DAYS + 1, HOURS), np.nan)
    for at, rtt_min_ms in minima:
        local = at.astimezone(zone)
        day = (local.date() - first).days
        # The hour that the clock repeats at the end of daylight saving time has the lower of both.
        minimum_ms[day, local.hour] = np.fmin(minimum_ms[day, local.hour], rtt_min_ms)
    weekdays = [(first + timedelta(days=day)).weekday() for day in range(DAYS + 1)]
    congestion = daily_congestion(minimum_ms, weekdays)
    name = until.astimezone(zone).tzname() or "UTC"
    offset = until.astimezone(zone).utcoffset() or timedelta(0)
    solar_h = path.source.site.longitude_deg / LONGITUDE_OF_AN_HOUR_DEG - offset.total_seconds() / 3600.0
    sentences = tuple(in_words(hours, name, solar_h, is_least=True) for hours in congestion.hours)
    if not congestion.can_tell and minima:
        sentences = (f"cannot tell: fewer than {LEAST_DAYS} days with pings",)
    return PathCongestion(since, until, name, congestion, sentences)
