"""What became of each planned measurement: each cycle and slot is in exactly one line; the sum is what was planned.

In: results and the agents' accounts, as `ingest` stores them. Out: `Line`s of a path, or of all paths of a site, over a
period. What was planned is what the mesh's `MeasurementPeriod`s and slots say. All that is known of a cycle is kept, in
any order and as often as it comes; which of it counts is said when it is asked for: measured before any other outcome,
any result before a gap of the agent, and what nobody has accounted for yet is `awaited`.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from itertools import pairwise

from django.db import connection

from monitor.archive.checks import EARLIEST, CheckedDelivered
from monitor.archive.queries import ask, check_period, records
from monitor.archive.statements import statement
from monitor.mesh.budgets import RULE
from monitor.mesh.endings import NOT_REPORTED, ONE_REPORTED
from probes.site.wire import Account, GapReason

AWAITED = "awaited"
"""The outcome of what nobody has accounted for yet."""
UNKNOWN = "unknown"
"""The outcome of what was planned before the agent's first account."""
DAY_S = 86_400


class Reason(StrEnum):
    """Why something was missed, besides the `GapReason`s; and why it was not permitted, where that was here."""

    NOT_IN_PLAN = "not_in_plan"
    NOT_REPORTED = "not_reported"
    OVER_BUDGET = "over_budget"


Reported = tuple[int, str, int, str, int]
"""Path, test, every_s, outcome, and the cycle's number."""


@dataclass(frozen=True, slots=True)
class Line:
    """So many planned measurements of a path's test that ended alike. `reason` is a `GapReason` or a `Reason` where the
    outcome is `missed`, `over_budget` where a budget of mesh.toml did not permit it, else None."""

    path_id: int
    test: str
    outcome: str
    reason: str | None
    count: int


def of_path(path_id: int, since: datetime, until: datetime) -> list[Line]:
    """What was planned of a path to begin in [since, until), by test, what was measured first."""
    return _lines(since, until, path_ids=[path_id], site_id=None)


def of_paths(path_ids: Sequence[int], since: datetime, until: datetime) -> list[Line]:
    """What was planned of these paths to begin in [since, until), as `of_path`."""
    return _lines(since, until, path_ids=list(path_ids), site_id=None)


def of_site(site_id: int, since: datetime, until: datetime) -> list[Line]:
    """What a site was to measure, by path."""
    return _lines(since, until, path_ids=None, site_id=site_id)


def _lines(since: datetime, until: datetime, *, path_ids: Sequence[int] | None, site_id: int | None) -> list[Line]:
    check_period(since, until)
    asked = {"since": since, "until": until, "path_ids": path_ids, "site_id": site_id}
    return records(Line, *ask("ledger", **asked, reasons=[*GapReason], **_SLOTS))


_SLOTS = {"not_reported": [f"{NOT_REPORTED}%", f"{ONE_REPORTED}%"], "budget": f"{RULE}%"}
"""How the details of slots begin."""


def planned(lines: Iterable[Line]) -> int:
    """How many measurements there are in all."""
    return sum(line.count for line in lines)


def reported(delivered: CheckedDelivered) -> Reported | None:
    """What a result says of its cycle; None where it has none."""
    if delivered.cycle is None or delivered.every_s is None:
        return None
    return delivered.path_id, delivered.test, delivered.every_s, delivered.result.outcome.value, delivered.cycle


def record_cycles(found: Iterable[Reported], latest: datetime) -> None:
    """Keep the outcomes of cycles; those of no time that one could believe are left out."""
    first_s, last_s = EARLIEST.timestamp(), latest.timestamp()
    of_day: dict[tuple[int, str, int, int, str], set[int]] = defaultdict(set)
    for path_id, test, every_s, outcome, cycle in found:
        begins_s = cycle * every_s
        if first_s <= begins_s <= last_s:
            of_day[path_id, test, every_s, begins_s // DAY_S, outcome].add(cycle)
    if not of_day:
        return
    path_ids, tests, every, days, outcomes = zip(*of_day, strict=True)
    with connection.cursor() as cursor:
        cursor.execute(
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
    """Keep what the agent said of cycles without a result, and up to when it has accounted for all."""
    gaps = [gap for gap in account.gaps if EARLIEST <= gap.since < gap.until and "\0" not in (gap.test or "")]
    with connection.cursor() as cursor:
        cursor.execute(
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
            until = min(max(account.until, EARLIEST), now)
            cursor.execute(statement("record_account"), {"site_id": site_id, "until": until})


_EPOCH_DAY = datetime(1970, 1, 1, tzinfo=UTC).date()


def _ranges(numbers: set[int]) -> str:
    """Numbers as PostgreSQL writes an int8multirange."""
    ordered = sorted(numbers)
    starts = [ordered[0], *(after for before, after in pairwise(ordered) if after != before + 1)]
    ends = [*(before for before, after in pairwise(ordered) if after != before + 1), ordered[-1]]
    return "{" + ",".join(f"[{start},{end}]" for start, end in zip(starts, ends, strict=True)) + "}"
