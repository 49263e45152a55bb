"""Request-response runs of a path over a period: each run, or a figure for each interval of a chart."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from monitor.archive.statements import check_period, select

MOST_INTERVALS = 400
SHORTEST_INTERVAL_S = 60.0


@dataclass(frozen=True, slots=True)
class RequestResponsePoint:
    """A run. Times are in ms, None where not measured; rates are of the transactions, payload in both directions.

    `connect_ms`, `first_ms` and `after_idle_ms` are in no other figure. `during_test`: a throughput test loaded the
    path meanwhile.
    """

    at: datetime
    test: str
    outcome: str
    request_bytes: int
    response_bytes: int
    transactions: int
    errors: int
    minimum_ms: float | None
    median_ms: float | None
    p95_ms: float | None
    p99_ms: float | None
    maximum_ms: float | None
    transactions_per_s: float | None
    payload_bytes_per_s: float | None
    connect_ms: float | None
    setup_ms: float | None
    first_ms: float | None
    after_idle_ms: float | None
    retransmits: int | None
    far_retransmits: int | None
    during_test: bool
    detail: str | None


@dataclass(frozen=True, slots=True)
class ResponseInterval:
    """The runs of a test in an interval: the median over the runs of their medians, their 95th percentiles and their
    rates, and the maximum of all; None without a transaction. `runs` were measured, `failed` were not, or had none."""

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


def request_response_series(path_id: int, since: datetime, until: datetime) -> list[RequestResponsePoint]:
    """All runs of a path that began in the period, oldest first, whatever their outcome."""
    check_period(since, until)
    return select(RequestResponsePoint, "request_response_series", path_id=path_id, since=since, until=until)


def newest_request_response(path_id: int, since: datetime, until: datetime, most: int) -> list[RequestResponsePoint]:
    """The newest runs of the period, newest first, whatever their outcome."""
    check_period(since, until)
    parameters = {"path_id": path_id, "since": since, "until": until, "most": most}
    return select(RequestResponsePoint, "newest_request_response", **parameters)


def response_intervals(path_id: int, since: datetime, until: datetime) -> list[ResponseInterval]:
    """The runs outside of throughput tests, by test and block size, in at most `MOST_INTERVALS` intervals, oldest
    first."""
    check_period(since, until)
    step_s = max(SHORTEST_INTERVAL_S, (until - since).total_seconds() / MOST_INTERVALS)
    return select(ResponseInterval, "response_intervals", path_id=path_id, since=since, until=until, step_s=step_s)
