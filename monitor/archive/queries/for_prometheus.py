"""Metrics for Prometheus: counters, and the newest result of each path.

Counters of a path cover the UTC day and reset with it; those of deliveries never reset. Out: frozen records, None where
empty. Each function runs a statement of sql/, which reads summaries and, by index, the newest burst of a path.
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
    """Pending summaries of a tier, the oldest since `since`."""

    tier: str
    summaries: int
    since: datetime


@dataclass(frozen=True, slots=True)
class PathCounter:
    """A path and packet size since the UTC day began. `address`, `measured_at` and `ttl` are of the newest burst of the
    last day; `rtt_sum_ms` is over all received, `rtt_sketch` as in monitor.analysis.sketches."""

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
    rtt_sum_ms: float
    rtt_sketch: bytes | None


@dataclass(frozen=True, slots=True)
class NewestResponse:
    """The newest request-response run of a path and test within a day."""

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
    """Total results received from a site, rejected results included."""

    site: str
    delivered: int


@dataclass(frozen=True, slots=True)
class RouteCounter:
    """Routes of a path since the UTC day began. `traced_at` is its newest trace with a reply; `hops` those of its route
    then, None if no trace on it reached the destination; `changes` counts those of each flow."""

    path_id: int
    traced_at: datetime
    hops: int | None
    changes: int


@dataclass(frozen=True, slots=True)
class RouteChangeCount:
    """Changes of route on the paths from a site since the UTC day began."""

    site: str
    changes: int


@dataclass(frozen=True, slots=True)
class TraceCount:
    """Scheduled traces from a site since the UTC day began."""

    site: str
    outcome: str
    traces: int


def path_counters(now: datetime, *, source: str | None = None, most: int) -> list[PathCounter]:
    """Active paths, with `source` only those from that site, by path and size; `most` rows at most."""
    parameters = {"since": start_of("day", now), "now": now, "source": source, "most": most}
    return records(PathCounter, *run_statement("path_counters", **parameters))


def newest_responses(now: datetime, *, source: str | None = None, most: int) -> list[NewestResponse]:
    """Of active paths, with `source` only those from that site, by path and test; `most` rows at most."""
    return records(NewestResponse, *run_statement("newest_response_runs", now=now, source=source, most=most))


def route_counters(now: datetime, path_ids: Sequence[int]) -> dict[int, RouteCounter]:
    """Those of these paths that were ever traced."""
    names, rows = run_statement("route_counters", since=start_of("day", now), path_ids=list(path_ids))
    return {counter.path_id: counter for counter in records(RouteCounter, names, rows)}


def route_change_counts(now: datetime) -> list[RouteChangeCount]:
    """Each site that traced, by name."""
    return records(RouteChangeCount, *run_statement("route_changes_of_day", since=start_of("day", now)))


def trace_counts(now: datetime) -> list[TraceCount]:
    """By site and outcome, as agents reported their cycles."""
    return records(TraceCount, *run_statement("traces_of_day", since=start_of("day", now)))


def received_within(counters: Sequence[PathCounter], bounds_ms: Sequence[float]) -> NDArray[np.int64]:
    """Number of RTTs up to each bound, shape (counters, bounds); bounds ascend. RTTs count as the middle of their
    sketch bucket, exact within 0.25%."""
    sketches = Sketches.of_bytes([counter.rtt_sketch for counter in counters])
    place = np.searchsorted(np.asarray(bounds_ms), RTT_MS.values_of(sketches.key), side="left")
    counts = np.zeros((len(counters), len(bounds_ms) + 1), dtype=np.int64)
    np.add.at(counts, (sketches.group, place), sketches.count)
    within: NDArray[np.int64] = counts.cumsum(axis=1)[:, :-1]
    return within


def delivered_counts() -> list[DeliveredCount]:
    """Each site that ever delivered, by name."""
    return records(DeliveredCount, *run_statement("delivered_counts"))


def waiting() -> list[Waiting]:
    """Tiers with pending summaries."""
    return records(Waiting, *run_statement("waiting"))
