"""Metrics for Prometheus: counters, and the newest result of each path.

Path counters reset with the UTC day, delivery counters never.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

import numpy as np
from numpy.typing import NDArray

from monitor.analysis.sketches import RTT_MS, Sketches
from monitor.archive.periods import start_of
from monitor.archive.statements import records, run_statement


@dataclass(frozen=True, slots=True)
class Waiting:
    tier: str
    summaries: int
    since: datetime


@dataclass(frozen=True, slots=True)
class PathCounter:
    """Counters of a path and packet size since the UTC day began. `address`, `measured_at` and `ttl` are of the newest
    burst."""

    path_id: int
    packet_bytes: int
    source_site: str
    destination_site: str
    source: str
    host: str
    family: int
    address: str | None
    measured_at: datetime | None
    ttl: int | None
    sent: int
    received: int
    duplicates: int
    rtt_sum_ms: float  # over all received
    rtt_sketch: bytes | None  # as in monitor.analysis.sketches


@dataclass(frozen=True, slots=True)
class NewestResponse:
    path_id: int
    test: str
    source_site: str
    destination_site: str
    source: str
    host: str
    measured_at: datetime
    median_ms: float
    p95_ms: float
    p99_ms: float
    transactions_per_s: float


@dataclass(frozen=True, slots=True)
class DeliveredCount:
    """Results received from a site, rejected results included."""

    site: str
    delivered: int


@dataclass(frozen=True, slots=True)
class RouteCounter:
    path_id: int
    traced_at: datetime  # newest trace with a reply
    hops: int | None  # None if no trace on its route reached the destination
    changes: int  # over all flows


@dataclass(frozen=True, slots=True)
class RouteChangeCount:
    site: str
    changes: int


@dataclass(frozen=True, slots=True)
class TraceCount:
    site: str
    outcome: str
    traces: int


def path_counters(now: datetime, *, source: str | None = None, most: int) -> list[PathCounter]:
    """Counters of active paths, optionally of a source site; at most `most` rows."""
    parameters = {"since": start_of("day", now), "now": now, "source": source, "most": most}
    return records(PathCounter, *run_statement("path_counters", **parameters))


def newest_responses(now: datetime, *, source: str | None = None, most: int) -> list[NewestResponse]:
    """Newest runs of active paths, optionally of a source site; at most `most` rows."""
    return records(NewestResponse, *run_statement("newest_response_runs", now=now, source=source, most=most))


def route_counters(now: datetime, path_ids: Sequence[int]) -> dict[int, RouteCounter]:
    names, rows = run_statement("route_counters", since=start_of("day", now), path_ids=list(path_ids))
    return {counter.path_id: counter for counter in records(RouteCounter, names, rows)}


def route_change_counts(now: datetime) -> list[RouteChangeCount]:
    return records(RouteChangeCount, *run_statement("route_changes_of_day", since=start_of("day", now)))


def trace_counts(now: datetime) -> list[TraceCount]:
    return records(TraceCount, *run_statement("traces_of_day", since=start_of("day", now)))


def received_within(counters: Sequence[PathCounter], bounds_ms: Sequence[float]) -> NDArray[np.int64]:
    """Number of RTTs up to each ascending bound, shape (counters, bounds), exact within 0.25%."""
    sketches = Sketches.of_bytes([counter.rtt_sketch for counter in counters])
    place = np.searchsorted(np.asarray(bounds_ms), RTT_MS.values_of(sketches.key), side="left")
    counts = np.zeros((len(counters), len(bounds_ms) + 1), dtype=np.int64)
    np.add.at(counts, (sketches.group, place), sketches.count)
    within: NDArray[np.int64] = counts.cumsum(axis=1)[:, :-1]
    return within


def delivered_counts() -> list[DeliveredCount]:
    return records(DeliveredCount, *run_statement("delivered_counts"))


def waiting() -> list[Waiting]:
    return records(Waiting, *run_statement("waiting"))
