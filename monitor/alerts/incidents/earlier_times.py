"""The time before an incident without earlier incidents and maintenance, unless hardly any bursts would remain."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import numpy as np

from monitor.alerts.detect.past.incident_times import IncidentTimes, MeasureKind
from monitor.alerts.incidents.past_times import incident_times
from monitor.alerts.models import Incident
from monitor.archive.queries.around import BurstColumns, TestAround
from monitor.archive.queries.directions import PathStretch
from monitor.mesh.models import Path
from monitor.mesh.queries import groups_of_sites, place_of

# Throughput tests this long before an incident are compared with those since.
LOOK_BACK = timedelta(days=7)
PINGS = (MeasureKind.PACKETS, MeasureKind.DELAYS)
# Share of a path's bursts of a day: the rest, an hour of the day, still shows its usual figures.
MOST_LEFT_OUT = 0.95


@dataclass(frozen=True, slots=True)
class EarlierTimes:
    """The times of other incidents before `until`."""

    times: IncidentTimes
    until: datetime

    def usual(self, bursts: BurstColumns) -> BurstColumns:
        keep, until_s = np.ones(len(bursts.at_s), dtype=np.bool_), self.until.timestamp()
        for path_id in np.unique(bursts.path_id):
            own = (bursts.path_id == path_id) & (bursts.at_s < until_s)
            at_s, ids = bursts.at_s[own][np.newaxis], np.array([path_id], dtype=np.int64)
            keep[own] = ~self.times.within(PINGS, ids, at_s, MOST_LEFT_OUT)[0]
        return bursts.where(keep)

    def usual_tests(self, tests: list[TestAround]) -> list[TestAround]:
        if not tests:
            return tests
        at_s, ids = np.array([[test.at.timestamp() for test in tests]]), np.array([tests[0].path_id], dtype=np.int64)
        is_left_out = self.times.within((MeasureKind.TESTS,), ids, at_s, MOST_LEFT_OUT)[0]
        return [test for test, out in zip(tests, is_left_out.tolist(), strict=True) if not out]

    def stretches(self, bursts: BurstColumns) -> tuple[PathStretch, ...]:
        """The times to leave out of STAMP tests, on paths where `usual` leaves out bursts."""
        kept = self.usual(bursts).path_id
        paths = {
            path_id
            for path_id in np.unique(bursts.path_id)
            if (bursts.path_id == path_id).sum() > (kept == path_id).sum()
        }
        return tuple(
            PathStretch(time.path_id, *(datetime.fromtimestamp(at_s, UTC) for at_s in (time.begin_s, time.end_s)))
            for time in self.times.times.get(MeasureKind.PACKETS, ())
            if time.path_id in paths
        )


def earlier_times(incident: Incident, paths: Sequence[Path], until: datetime) -> EarlierTimes:
    """Find incidents and maintenance before `until`, except `incident` unless reopened: three queries."""
    groups = groups_of_sites()
    places = {path.pk: place_of(path, groups) for path in paths}
    but = None if incident.reopenings else incident.pk
    return EarlierTimes(incident_times(until - LOOK_BACK, until, places, list(places), but), until)
