"""Count tests that reached or missed their paths' promised service."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from monitor.analysis.promised_service import SHORT_OF, ServiceCounts
from monitor.analysis.transfer import Verdict
from monitor.archive.statements import check_period, records, run_statement

# Verdicts that blame the network for a slow test, not a host, a window or the test.
NETWORK_LIMITS = (
    Verdict.RANDOM_LOSS,
    Verdict.LOSS,
    Verdict.POLICER,
    Verdict.BOTTLENECK_QUEUE,
    Verdict.REORDERING,
)


@dataclass(frozen=True, slots=True)
class PromisedTests:
    path_id: int
    tests: int
    short: int
    left_out: int
    bursts: int
    bursts_short: int


def promised_tests(
    since: datetime, until: datetime, promises: Mapping[int, tuple[float, float | None]]
) -> dict[int, ServiceCounts]:
    """Counts of scheduled tests by path, if any; `promises` are bit/s and bytes."""
    check_period(since, until)
    if not promises:
        return {}
    names, rows = run_statement(
        "promised_tests",
        since=since,
        until=until,
        path_ids=list(promises),
        short_bps=[SHORT_OF * rate_bps for rate_bps, _ in promises.values()],
        short_bytes=[None if burst is None else SHORT_OF * burst for _, burst in promises.values()],
        network_limits=[str(verdict) for verdict in NETWORK_LIMITS],
    )
    counted = records(PromisedTests, names, rows)
    return {
        row.path_id: ServiceCounts(row.tests, row.short, row.left_out, row.bursts, row.bursts_short) for row in counted
    }
