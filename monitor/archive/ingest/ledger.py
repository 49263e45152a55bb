"""Store the cycle outcomes that agents report, and the gaps in which they ran none.

All reports are stored, in any order and idempotently; `monitor.archive.queries.operation.ledger` decides which report
counts.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from itertools import pairwise

from monitor.archive.ingest.checks import EARLIEST
from monitor.archive.queries.operation.ledger import DAY_S
from monitor.archive.statements import statement
from monitor.prepared import run_prepared
from probes.site.wire import Account, Delivered

ReportedCycle = tuple[int, str, int, str, int]
"""Path, test, every_s, outcome, and the cycle's number."""


def reported_cycle(delivered: Delivered) -> ReportedCycle | None:
    """Cycle that a result belongs to; None for a result without a cycle."""
    if delivered.cycle is None or delivered.every_s is None:
        return None
    return delivered.path_id, delivered.test, delivered.every_s, delivered.result.outcome.value, delivered.cycle


def record_cycles(cycles: Iterable[ReportedCycle], latest: datetime) -> None:
    """Store cycle outcomes; those with implausible times are left out."""
    first_s, last_s = EARLIEST.timestamp(), latest.timestamp()
    of_day: dict[tuple[int, str, int, int, str], set[int]] = defaultdict(set)
    for path_id, test, every_s, outcome, cycle in cycles:
        begins_s = cycle * every_s
        if first_s <= begins_s <= last_s:
            of_day[path_id, test, every_s, begins_s // DAY_S, outcome].add(cycle)
    if not of_day:
        return
    path_ids, tests, every, days, outcomes = zip(*of_day, strict=True)
    run_prepared(
        statement("record_cycles"),
        {
            "path_ids": list(path_ids),
            "tests": list(tests),
            "every_s": list(every),
            "days": [_EPOCH_DAY + timedelta(days=day) for day in days],
            "outcomes": list(outcomes),
            "cycles": [_ranges(cycles) for cycles in of_day.values()],
        },
    )


def record_account(site_id: int, account: Account, now: datetime) -> None:
    """Store the agent's account of cycles without a result, and the time up to which it is complete."""
    gaps = [gap for gap in account.gaps if EARLIEST <= gap.since < gap.until and "\0" not in (gap.test or "")]
    if gaps:
        run_prepared(
            statement("record_gaps"),
            {
                "site_id": site_id,
                "tests": [gap.test or "" for gap in gaps],
                "every_s": [gap.every_s or 0 for gap in gaps],
                "reasons": [gap.reason.value for gap in gaps],
                "since": [gap.since for gap in gaps],
                "until": [min(gap.until, now) for gap in gaps],
            },
        )
    if account.until is not None:
        run_prepared(statement("record_account"), {"site_id": site_id, "until": account_until(account.until, now)})


def account_until(until: datetime, now: datetime) -> datetime:
    """Time up to which an account is complete, as it can be stored."""
    return min(max(until, EARLIEST), now)


_EPOCH_DAY = datetime(1970, 1, 1, tzinfo=UTC).date()


def _ranges(numbers: set[int]) -> str:
    """Numbers in PostgreSQL's int8multirange syntax."""
    ordered = sorted(numbers)
    starts = [ordered[0], *(after for before, after in pairwise(ordered) if after != before + 1)]
    ends = [*(before for before, after in pairwise(ordered) if after != before + 1), ordered[-1]]
    return "{" + ",".join(f"[{start},{end}]" for start, end in zip(starts, ends, strict=True)) + "}"
