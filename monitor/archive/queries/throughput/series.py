"""Throughput tests of paths: series and summaries; and the newest capacity of a path.

Periods, paths and records as in `monitor.archive.queries.paths`; single tests with their intervals are in
`monitor.archive.queries.throughput.transfers`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import groupby
from operator import attrgetter, itemgetter

from monitor.archive.kinds.capacity import KIND as CAPACITY
from monitor.archive.kinds.kind import Point
from monitor.archive.path_groups import groups_of
from monitor.archive.statements import check_period, optional_list, records, run_statement, select
from monitor.mesh.document.entries import ON_DEMAND

# Maximum age of a capacity estimate shown for a path; links change seldom.
CAPACITY_HOLDS = timedelta(days=30)
# Maximum age of a test shown as the newest of its path.
LONGEST_NEWEST = timedelta(days=366)


@dataclass(frozen=True, slots=True)
class ThroughputPoint:
    """Throughput test; `throughput_bps` is None unless measured."""

    at: datetime
    test: str
    protocol: str
    outcome: str
    throughput_bps: float | None
    average_bps: float | None
    steady_s: float | None  # length after slow start; None where `throughput_bps` is the average
    verdict: str | None
    sentence: str | None
    congestion_control: str | None
    peer_window_bytes: float | None
    streams: int
    duration_s: float | None
    retransmits: int | None
    rtt_mean_ms: float | None
    detail: str | None


# The median of so many tests would be a rate that neither had.
WITHOUT_MEDIAN = 2


@dataclass(frozen=True, slots=True)
class PathThroughput:
    path_id: int
    tests: int
    measured: int
    throughput_median_bps: float | None
    throughput_min_bps: float | None
    throughput_max_bps: float | None
    newest_bps: float | None  # newest measured rate
    latest_at: datetime
    latest_outcome: str
    latest_bps: float | None  # rate of the latest test; None where it failed
    latest_detail: str | None
    not_run: int  # missed by the agent

    @property
    def is_median(self) -> bool:
        return self.measured != WITHOUT_MEDIAN

    @property
    def figure_bps(self) -> float | None:
        """Median; of two tests the newest rate."""
        return self.throughput_median_bps if self.is_median else self.newest_bps

    @property
    def figures_bps(self) -> tuple[float, ...]:
        """Median; of two tests both rates, ascending; empty without measured tests."""
        of_two = self.throughput_min_bps, self.throughput_max_bps
        rates = (self.throughput_median_bps,) if self.is_median else dict.fromkeys(of_two)
        return tuple(rate for rate in rates if rate is not None)


@dataclass(frozen=True, slots=True)
class NewestThroughput:
    """Newest rate among a path's tests since a moment; None if not measured."""

    path_id: int
    tests: int
    measured: int
    throughput_bps: float | None
    latest_outcome: str


def throughput_series(path_id: int, since: datetime, until: datetime) -> list[ThroughputPoint]:
    """All throughput tests of any outcome, oldest first."""
    check_period(since, until)
    return select(ThroughputPoint, "throughput_series", path_id=path_id, since=since, until=until)


@dataclass(frozen=True, slots=True)
class PathRate:
    path_id: int
    at: datetime
    throughput_bps: float


def rates_of_paths(path_ids: Sequence[int], since: datetime, until: datetime) -> list[PathRate]:
    """Rates of scheduled TCP tests, by path and time."""
    check_period(since, until)
    parameters = {"path_ids": list(path_ids), "since": since, "until": until, "left_out": ON_DEMAND}
    return records(PathRate, *run_statement("rates_of_paths", **parameters))


def scheduled_bps(tests: Iterable[ThroughputPoint]) -> list[float]:
    """Rates of scheduled TCP tests, without UDP and on-demand tests."""
    planned = (test for test in tests if test.protocol == "tcp" and test.test != ON_DEMAND)
    return [test.throughput_bps for test in planned if test.throughput_bps is not None]


def on_demand_tests(tests: Iterable[ThroughputPoint]) -> int:
    """Count on-demand TCP tests, sweeps included; summaries do not."""
    return sum(test.protocol == "tcp" and test.test == ON_DEMAND for test in tests)


def throughput_summaries(
    since: datetime, until: datetime, *, path_ids: Sequence[int] | None = None
) -> list[PathThroughput]:
    check_period(since, until)
    answer = run_statement("throughput_summaries", since=since, until=until, path_ids=optional_list(path_ids))
    return records(PathThroughput, *answer)


def newest_throughput(begins: Mapping[int, datetime], until: datetime) -> tuple[list[NewestThroughput], dict[int, int]]:
    """Newest scheduled TCP rate of each path since its moment, and counts of on-demand TCP tests, if any."""
    newest, on_demand = [], {}
    path_ids, first_s = list(begins), [at.timestamp() for at in begins.values()]
    for group in groups_of(first_s, until, LONGEST_NEWEST):
        of_group = [path_ids[place] for place in group.places.tolist()]
        _, rows = run_statement("tests_since", path_ids=of_group, since=group.since, until=until)
        for path_id, of_path in groupby(rows, key=itemgetter(0)):
            tests = [test for test in of_path if test[1] >= begins[path_id]]
            scheduled = [
                (outcome, throughput_bps) for _, _, name, outcome, throughput_bps in tests if name != ON_DEMAND
            ]
            if scheduled:
                newest.append(_newest(path_id, scheduled))
            if len(tests) > len(scheduled):
                on_demand[path_id] = len(tests) - len(scheduled)
    return sorted(newest, key=attrgetter("path_id")), on_demand


def _newest(path_id: int, tests: Sequence[tuple[str, float | None]]) -> NewestThroughput:
    rates_bps = [throughput_bps for _, throughput_bps in tests if throughput_bps is not None]
    return NewestThroughput(
        path_id, len(tests), len(rates_bps), rates_bps[-1] if rates_bps else None, latest_outcome=tests[-1][0]
    )


def on_demand_counts(since: datetime, until: datetime) -> dict[int, int]:
    """On-demand TCP tests (sweeps included) by path, if any; summaries are without them."""
    check_period(since, until)
    return dict(run_statement("on_demand_counts", since=since, until=until)[1])


def newest_capacities(path_id: int, until: datetime) -> list[Point]:
    """Newest and newest successful capacity measurement before `until`, within `CAPACITY_HOLDS`."""
    return select(CAPACITY.point, "newest_capacities", path_id=path_id, since=until - CAPACITY_HOLDS, until=until)
