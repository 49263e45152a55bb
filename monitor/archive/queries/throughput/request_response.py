"""Request-response runs of a path over a period: a figure for each interval of a chart."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from monitor.archive.statements import check_period, select

MOST_INTERVALS = 400
SHORTEST_INTERVAL_S = 60.0


@dataclass(frozen=True, slots=True)
class ResponseInterval:
    """Runs in an interval: medians over runs, maximum of all; None without a transaction."""

    at: datetime
    test: str
    request_bytes: int
    response_bytes: int
    runs: int
    failed: int
    median_ms: float | None
    p95_ms: float | None
    maximum_ms: float | None
    transactions_per_s: float | None


def response_intervals(path_id: int, since: datetime, until: datetime) -> list[ResponseInterval]:
    """Runs outside throughput tests, by test and size, in at most `MOST_INTERVALS` intervals, oldest first."""
    check_period(since, until)
    step_s = max(SHORTEST_INTERVAL_S, (until - since).total_seconds() / MOST_INTERVALS)
    return select(ResponseInterval, "response_intervals", path_id=path_id, since=since, until=until, step_s=step_s)
