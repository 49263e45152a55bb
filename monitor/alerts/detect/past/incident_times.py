"""Incidents and maintenance that baselines leave out, by path and measure. No database, no clock.

A path bad for over half of its measurements keeps all: that is its usual state.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum

import numpy as np

from monitor.archive.queries.for_alerts import LeftOutHours
from monitor.arrays import Bools, Floats, Ints

# Share of a path's measurements that may be left out (docs/method/planted.md counts paths on either side).
MOST_LEFT_OUT = 0.5

# Trouble at the same hour on this many days is usual for the path at that hour.
PATTERN_DAYS = 5

HOUR_S = 3600
DAY_H = 24
# A path ID stands above the epoch milliseconds in 64 bits; these fit into 41 bits until 2039.
_PATH_BITS = 41


class MeasureKind(StrEnum):
    PACKETS = "packets"
    DELAYS = "delays"
    TESTS = "tests"
    RESPONSES = "responses"


@dataclass(frozen=True, slots=True)
class PathTime:
    """A stretch of time of a path, in seconds since the epoch."""

    path_id: int
    begin_s: float
    end_s: float
    is_over: bool = True  # False while it lasts


@dataclass(frozen=True, slots=True)
class IncidentTimes:
    """The stretches of all paths, by measure."""

    times: Mapping[MeasureKind, tuple[PathTime, ...]] = field(default_factory=dict)

    def hours(self, since: datetime, until: datetime) -> LeftOutHours:
        """The hours in [since, until), both on the hour, in which packets were affected, without daily patterns."""
        first, end = (round(at.timestamp()) // HOUR_S for at in (since, until))
        of_paths: dict[int, list[Ints]] = defaultdict(list)
        for path_id, begin_s, end_s in _merged(self.times.get(MeasureKind.PACKETS, ())):
            hours = np.arange(max(int(begin_s // HOUR_S), first), min(math.ceil(end_s / HOUR_S), end), dtype=np.int64)
            of_paths[path_id].append(hours)
        path_ids, begins, ends = list[int](), list[int](), list[int]()
        for path_id, parts in of_paths.items():
            hours = np.unique(np.concatenate(parts))
            hours = hours[np.bincount(hours % DAY_H, minlength=DAY_H)[hours % DAY_H] < PATTERN_DAYS]
            is_begin = np.diff(hours, prepend=-1) > 1
            path_ids += [path_id] * int(is_begin.sum())
            begins += hours[is_begin].tolist()
            ends += (hours[np.append(is_begin, True)[1:]] + 1).tolist()
        return LeftOutHours(tuple(path_ids), tuple(begins), tuple(ends), MOST_LEFT_OUT)

    def over(self, measure: MeasureKind, path_ids: Ints, at_s: Floats) -> Bools:
        """Mask measurements in ended stretches; `at_s` has the shape (paths, measurements), NaN where there is none."""
        times = [time for time in self.times.get(measure, ()) if time.is_over]
        return _masked(times, path_ids, at_s, MOST_LEFT_OUT)

    def within(self, measures: Iterable[MeasureKind], path_ids: Ints, at_s: Floats, most: float) -> Bools:
        """Mask as `over` does, lasting stretches too, unless they have more than the share `most` of a path's
        measurements."""
        return _masked([time for measure in measures for time in self.times.get(measure, ())], path_ids, at_s, most)


NO_TIMES = IncidentTimes()


def _masked(times: Iterable[PathTime], path_ids: Ints, at_s: Floats, most: float) -> Bools:
    mask = np.zeros(at_s.shape, dtype=np.bool_)
    merged = _merged(times)
    rows = np.flatnonzero(np.isin(path_ids, [path_id for path_id, *_ in merged]))
    if not len(rows):
        return mask
    of_path = np.array([path_id for path_id, *_ in merged], dtype=np.int64)
    begins, ends = (_keys(of_path, np.array([time[place] for time in merged])) for place in (1, 2))
    is_measured = ~np.isnan(at_s[rows])
    keys = _keys(path_ids[rows][:, np.newaxis], np.nan_to_num(at_s[rows]))
    place = np.searchsorted(begins, keys, side="right") - 1
    is_within = is_measured & (place >= 0) & (keys < ends[np.maximum(place, 0)])
    is_usual = is_within.sum(axis=1) > most * is_measured.sum(axis=1)
    mask[rows] = is_within & ~is_usual[:, np.newaxis]
    return mask


def _merged(times: Iterable[PathTime]) -> list[tuple[int, float, float]]:
    merged: list[tuple[int, float, float]] = []
    for time in sorted(times, key=lambda time: (time.path_id, time.begin_s)):
        if merged and merged[-1][0] == time.path_id and time.begin_s <= merged[-1][2]:
            merged[-1] = (time.path_id, merged[-1][1], max(merged[-1][2], time.end_s))
        else:
            merged.append((time.path_id, time.begin_s, time.end_s))
    return merged


def _keys(path_ids: Ints, at_s: Floats) -> Ints:
    return np.asarray((path_ids << _PATH_BITS) + np.rint(at_s * 1e3).astype(np.int64), dtype=np.int64)
