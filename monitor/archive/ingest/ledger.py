"""Store cycle outcomes and gaps reported by agents, idempotently and in any order."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta

from monitor.archive.ingest.checks import EARLIEST
from monitor.archive.queries.operation.ledger import DAY_S
from monitor.archive.statements import statement
from monitor.prepared import SqlStatement, array_text, run_prepared
from probes.site.wire import Account, Delivered

# Path, test, every_s, outcome, and the cycle's number.
ReportedCycle = tuple[int, str, int, str, int]


def reported_cycle(delivered: Delivered) -> ReportedCycle | None:
    if delivered.cycle is None or delivered.every_s is None:
        return None
    return delivered.path_id, delivered.test, delivered.every_s, delivered.result.outcome.value, delivered.cycle


def record_cycles(cycles: Iterable[ReportedCycle], latest: datetime) -> None:
    """Store cycle outcomes, except implausible times."""
    first_s, last_s = EARLIEST.timestamp(), latest.timestamp()
    paths: dict[tuple[str, int, str, int], set[int]] = defaultdict(set)
    for path_id, test, every_s, outcome, cycle in cycles:
        paths[test, every_s, outcome, cycle].add(path_id)
    # All paths of a test mostly end a cycle alike, so that there are few of these.
    alike = [(key, path_ids) for key, path_ids in paths.items() if first_s <= key[1] * key[3] <= last_s]
    if not alike:
        return
    tests, every, outcomes, numbers = zip(*(key for key, _ in alike), strict=True)
    run_prepared(
        statement("record_cycles"),
        {
            "path_ids": [array_text(path_ids) for _, path_ids in alike],
            "tests": list(tests),
            "every_s": list(every),
            "days": [_EPOCH_DAY + timedelta(days=every_s * cycle // DAY_S) for (_, every_s, _, cycle), _ in alike],
            "outcomes": list(outcomes),
            "cycles": list(numbers),
        },
    )


def record_account(site_id: int, account: Account, now: datetime) -> None:
    """Store the agent's account of cycles without a result."""
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
    for part in account_statements(site_id, account, now):
        run_prepared(*part)


def account_statements(site_id: int, account: Account | None, now: datetime) -> list[SqlStatement]:
    """Statements that store the time up to which an account is complete."""
    if account is None or account.until is None:
        return []
    until = min(max(account.until, EARLIEST), now)
    return [SqlStatement(statement("record_account"), {"site_id": site_id, "until": until})]


_EPOCH_DAY = datetime(1970, 1, 1, tzinfo=UTC).date()
