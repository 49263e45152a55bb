"""Queries of the reports: days of many paths, service levels, verdicts of tests.

Periods are half open. Raw rows are read only of throughput and capacity tests.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from monitor.archive.statements import check_period, records, run_statement

# A path's id and a packet size.
PathAndSize = tuple[int, int]


@dataclass(frozen=True, slots=True)
class PathDay:
    """UTC day of a path and packet size."""

    path_id: int
    packet_bytes: int
    day: datetime
    sent: int
    received: int
    rtt_median_ms: float | None


@dataclass(frozen=True, slots=True)
class PathThroughputDay:
    path_id: int
    day: datetime
    tests_measured: int
    throughput_median_bps: float


@dataclass(frozen=True, slots=True)
class TargetCounts:
    """Hours or tests of a path, and the number that missed the target."""

    path_id: int
    of: int
    worse: int


@dataclass(frozen=True, slots=True)
class TransferVerdict:
    """Most frequent verdict of a path's tests, with its newest sentence, and the newest sentence of all."""

    path_id: int
    verdict: str
    tests: int
    of: int
    sentence: str
    newest_sentence: str
    evidence: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ResponseSummary:
    """Request-response runs of a path by test and sizes: medians over runs, None without a transaction."""

    path_id: int
    test: str
    request_bytes: int
    response_bytes: int
    runs: int
    failed: int
    median_ms: float | None
    p95_ms: float | None
    transactions_per_s: float | None


@dataclass(frozen=True, slots=True)
class Capacity:
    """Median of a path's successful capacity measurements."""

    path_id: int
    measured: int
    capacity_bps: float


def days(since: datetime, until: datetime, series: Sequence[PathAndSize]) -> list[PathDay]:
    check_period(since, until)
    return records(PathDay, *run_statement("path_days", since=since, until=until, **_series(series)))


def throughput_days(since: datetime, until: datetime, path_ids: Sequence[int]) -> list[PathThroughputDay]:
    """UTC days that begin in the period with a measured test, by path and day."""
    check_period(since, until)
    return records(
        PathThroughputDay, *run_statement("throughput_days", since=since, until=until, path_ids=list(path_ids))
    )


def hours_above(since: datetime, until: datetime, limits_ms: Mapping[PathAndSize, float]) -> list[TargetCounts]:
    """Count hours with a median RTT, and hours above the limit."""
    check_period(since, until)
    parameters = {"since": since, "until": until, "limits_ms": list(limits_ms.values()), **_series(list(limits_ms))}
    return records(TargetCounts, *run_statement("hours_above", **parameters))


def tests_below(since: datetime, until: datetime, limits_bps: Mapping[int, float]) -> list[TargetCounts]:
    """Count measured throughput tests, and tests below the limit."""
    check_period(since, until)
    parameters = {"since": since, "until": until, "path_ids": list(limits_bps), "limits_bps": list(limits_bps.values())}
    return records(TargetCounts, *run_statement("tests_below", **parameters))


def transfer_verdicts(since: datetime, until: datetime, path_ids: Sequence[int]) -> list[TransferVerdict]:
    """Most frequent verdict of each path; the newest on a tie."""
    check_period(since, until)
    names, rows = run_statement("transfer_verdicts", since=since, until=until, path_ids=list(path_ids))
    return records(TransferVerdict, names, [(*row[:-1], tuple(row[-1] or ())) for row in rows])


def capacities(since: datetime, until: datetime, path_ids: Sequence[int]) -> list[Capacity]:
    """Capacity of each path, if measured outside throughput tests."""
    check_period(since, until)
    return records(Capacity, *run_statement("capacities", since=since, until=until, path_ids=list(path_ids)))


def response_summaries(since: datetime, until: datetime, path_ids: Sequence[int]) -> list[ResponseSummary]:
    """Request-response runs by path, test and sizes, outside throughput tests."""
    check_period(since, until)
    parameters = {"since": since, "until": until, "path_ids": list(path_ids)}
    return records(ResponseSummary, *run_statement("response_summaries", **parameters))


def _series(series: Sequence[PathAndSize]) -> dict[str, Any]:
    return {"path_ids": [path_id for path_id, _ in series], "sizes": [size for _, size in series]}


def data_since(path_ids: Sequence[int]) -> datetime | None:
    """Begin of the first measured hour; None without any."""
    ((since,),) = run_statement("data_since", path_ids=list(path_ids))[1]
    first: datetime | None = since
    return first
