"""What reports ask of the archive beyond `monitor.archive.queries`: days of many paths, targets, verdicts of tests.

In: periods as aware times, half open [since, until), and paths by their id. Out: frozen records, by path. Each function
is one statement in sql/ and reads summaries; what it reads of raw rows is of throughput and capacity tests, of which
there are few.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from monitor.archive.statements import ask, check_period, records

PathAndSize = tuple[int, int]
"""A path's id and a packet size."""


@dataclass(frozen=True, slots=True)
class PathDay:
    """One UTC day of a path at one packet size."""

    path_id: int
    packet_bytes: int
    day: datetime
    sent: int
    received: int
    rtt_median_ms: float | None


@dataclass(frozen=True, slots=True)
class ThroughputDay:
    """The tests of a path on one UTC day, of which there was a result of one at least."""

    path_id: int
    day: datetime
    tests_measured: int
    throughput_median_bps: float


@dataclass(frozen=True, slots=True)
class Kept:
    """Of so many hours, or tests, of a path: how many were worse than a target."""

    path_id: int
    of: int
    worse: int


@dataclass(frozen=True, slots=True)
class TransferVerdict:
    """What limited most of the tests of a path that have a verdict, with the newest words for it."""

    path_id: int
    verdict: str
    tests: int
    of: int
    sentence: str
    evidence: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Capacity:
    """The median of a path's capacity measurements that gave one."""

    path_id: int
    measured: int
    capacity_bps: float


def days(since: datetime, until: datetime, series: Sequence[PathAndSize]) -> list[PathDay]:
    """Each UTC day that begins in the period, of these paths and sizes, by path and day."""
    check_period(since, until)
    return records(PathDay, *ask("path_days", since=since, until=until, **_series(series)))


def throughput_days(since: datetime, until: datetime, path_ids: Sequence[int]) -> list[ThroughputDay]:
    """Each UTC day that begins in the period with a measured test, by path and day."""
    check_period(since, until)
    return records(ThroughputDay, *ask("throughput_days", since=since, until=until, path_ids=list(path_ids)))


def hours_above(since: datetime, until: datetime, limits_ms: Mapping[PathAndSize, float]) -> list[Kept]:
    """Of the hours that begin in the period and have a median round trip: in how many it was above the path's limit."""
    check_period(since, until)
    asked = {"since": since, "until": until, "limits_ms": list(limits_ms.values()), **_series(list(limits_ms))}
    return records(Kept, *ask("hours_above", **asked))


def tests_below(since: datetime, until: datetime, limits_bps: Mapping[int, float]) -> list[Kept]:
    """Of the throughput tests that began in the period and gave a result: how many were below the path's limit."""
    check_period(since, until)
    asked = {"since": since, "until": until, "path_ids": list(limits_bps), "limits_bps": list(limits_bps.values())}
    return records(Kept, *ask("tests_below", **asked))


def transfer_verdicts(since: datetime, until: datetime, path_ids: Sequence[int]) -> list[TransferVerdict]:
    """The commonest verdict of each path's measured tests that have one; of equally common ones the newest."""
    check_period(since, until)
    names, rows = ask("transfer_verdicts", since=since, until=until, path_ids=list(path_ids))
    return records(TransferVerdict, names, [(*row[:-1], tuple(row[-1] or ())) for row in rows])


def capacities(since: datetime, until: datetime, path_ids: Sequence[int]) -> list[Capacity]:
    """The capacity of each path that has one, by path; what was measured during our own tests is left out."""
    check_period(since, until)
    return records(Capacity, *ask("capacities", since=since, until=until, path_ids=list(path_ids)))


def _series(series: Sequence[PathAndSize]) -> dict[str, Any]:
    return {"path_ids": [path_id for path_id, _ in series], "sizes": [size for _, size in series]}
