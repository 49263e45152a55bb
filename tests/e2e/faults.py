"""Common parts of the fault tests: a stack over the lab, and the ledger that must balance after each fault.

In: a running stack of `three-sites`. The ledger's columns have different sources: planned cycles and their outcomes,
from the centre's ledger; spooled results, from the agents' own files; accepted, refused and stored results, from the
tables. `make test-faults` sets SOUNDINGS_TEST_FAULTS=whole: the outages of ten minutes and the twenty rounds. By
default everything is done, but shorter.
"""

from __future__ import annotations

import os
import sqlite3
from collections import Counter
from contextlib import closing
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

import psycopg

from probes.site.spool.results import COUNT
from tests.e2e.stack import RunningStack, wait_for

WHOLE = os.environ.get("SOUNDINGS_TEST_FAULTS") == "whole"
SITES = ("bern", "rome", "oslo")
RTT_MS = {("bern", "rome"): 20.0, ("bern", "oslo"): 60.0, ("rome", "oslo"): 120.0}
"""Paths of the scenario in both directions."""
PING_EVERY_S = 10
SIZES = 2
EARLIEST = datetime(2026, 1, 1, tzinfo=UTC)
OPEN = ("awaited", "unknown")
"""The centre's outcomes of cycles without an account yet, and of those before the agent's first account."""


@dataclass(frozen=True, slots=True)
class Ledger:
    """All pings since all agents measured: cycles planned, with a result, and without a result by reason. All results
    ever: spooled by agents, and accepted, refused and stored by the centre."""

    planned: int
    measured: int
    missing: dict[str, int]
    spooled: int
    waiting: int
    accepted: int
    refused: int
    stored: int

    @property
    def balances(self) -> bool:
        """Whether all planned cycles are accounted for, and all spooled results are stored at the centre, once."""
        return (
            self.planned > 0
            and self.planned == self.measured + sum(self.missing.values())
            and not any(self.missing.get(outcome) for outcome in OPEN)
            and self.waiting == 0
            and self.spooled == self.accepted + self.refused
            and self.accepted == self.stored
        )

    def __str__(self) -> str:
        why = ", ".join(f"{count} {reason}" for reason, count in sorted(self.missing.items())) or "none"
        return (
            f"planned {self.planned} = measured {self.measured} + missing ({why}); spooled {self.spooled} = accepted "
            f"{self.accepted} + refused {self.refused}, {self.waiting} wait; stored {self.stored}"
        )


def balanced(stack: RunningStack, timeout_s: float, capsys) -> Ledger:
    """Wait until everything is delivered and the ledger of the stack's whole life balances; print it."""
    latest: list[Ledger] = []

    def look() -> Ledger | None:
        latest[:] = [take(stack, stack.measuring_since)]
        return latest[0] if latest[0].balances else None

    try:
        ledger = wait_for(look, timeout_s, "the ledger balances")
    except AssertionError:
        raise AssertionError(f"does not balance within {timeout_s} s: {latest[0]}") from None
    assert gaps_in_batches(stack) == []
    with capsys.disabled():
        print(f"\nledger: {ledger}")
    return ledger


def take(stack: RunningStack, since: datetime) -> Ledger:
    """The current ledger. The spools are read first: results spooled meanwhile give a ledger that does not balance."""
    # Cycles that have not ended yet need no account.
    until = datetime.fromtimestamp(datetime.now(UTC).timestamp() - 2 * PING_EVERY_S, UTC)
    spools = [spool_counts(stack.spool_file(site)) for site in SITES]
    accepted, refused, stored = counts(stack)
    outcomes = Counter[str]()
    for path in stack.get("paths") if until >= since + timedelta(seconds=1) else []:
        outcomes += cycles(stack, path["id"], since, until)
    missing = {name: number for name, number in outcomes.items() if name not in ("planned", "measured")}
    return Ledger(
        planned=outcomes["planned"],
        measured=outcomes["measured"],
        missing=missing,
        spooled=sum(ever for ever, _ in spools),
        waiting=sum(waiting for _, waiting in spools),
        accepted=accepted,
        refused=refused,
        stored=stored,
    )


def cycles(stack: RunningStack, path_id: int, since: datetime, until: datetime) -> Counter[str]:
    """The pings of a path scheduled in [since, until): `planned`, `measured` (any result), and the others by their
    reason, or outcome."""
    query = f"since={_query(since)}&until={_query(until)}"
    body = stack.get(f"paths/{path_id}/ledger?{query}")
    assert sum(line["count"] for line in body["lines"]) == body["planned"]
    outcomes = Counter[str]()
    for line in body["lines"]:
        if line["test"] == "ping":
            has_result = line["reason"] is None and line["outcome"] not in OPEN
            outcomes["planned"] += line["count"]
            outcomes["measured" if has_result else line["reason"] or line["outcome"]] += line["count"]
    return outcomes


def spool_counts(path: Path) -> tuple[int, int]:
    """The number of results an agent has ever spooled, and the number that still wait."""
    if not path.exists():
        return 0, 0
    with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True, timeout=10)) as spool:
        if not spool.execute("SELECT 1 FROM sqlite_master WHERE name = 'result'").fetchone():
            # The file is created before its tables.
            return 0, 0
        ever = spool.execute("SELECT seq FROM sqlite_sequence WHERE name = 'result'").fetchone()
        return (ever[0] if ever else 0), spool.execute(f"SELECT {COUNT} FROM result").fetchone()[0]


def counts(stack: RunningStack) -> tuple[int, int, int]:
    """Results accepted, refused and stored, at a single moment."""
    [row] = rows(
        stack,
        "SELECT (SELECT coalesce(sum(accepted), 0) FROM received_batch),"
        " (SELECT coalesce(sum(refused), 0) FROM received_batch),"
        " (SELECT count(*) FROM burst) + (SELECT count(*) FROM throughput_test) + (SELECT count(served) FROM slot)"
        " + (SELECT count(*) FROM disk_to_disk_test) + (SELECT count(*) FROM capacity_result)",
    )
    return row


def gaps_in_batches(stack: RunningStack) -> list[tuple[str]]:
    """The spools with a missing batch; each agent always has the same spool."""
    assert len(rows(stack, "SELECT DISTINCT spool FROM received_batch")) <= len(SITES)
    return rows(stack, "SELECT spool FROM received_batch GROUP BY site_id, spool HAVING count(*) <> max(number)")


def rows(stack: RunningStack, query: str, *values: object) -> list[tuple]:
    with psycopg.connect(stack.database_url) as connection:
        return connection.execute(query, values).fetchall()


def agent_processes(stack: RunningStack, site: str, *words: str) -> list[int]:
    """Process ids of a site's agent, by words of their command line."""
    return [pid for pid in stack.processes(*words) if f"/sites/{site}" in _told_of(pid)]


def _told_of(pid: int) -> str:
    folder = Path(f"/proc/{pid}")
    try:
        return (folder / "environ").read_text() + (folder / "cmdline").read_text()
    except OSError:
        return ""


def path_ids(stack: RunningStack) -> dict[tuple[str, str], int]:
    """The paths by the sites at their ends."""
    return {(path["source"]["site"], path["destination"]["site"]): path["id"] for path in stack.get("paths")}


def wait_until_all_measure(stack: RunningStack) -> None:
    """Wait until a result of each agent is stored, hence each has accounted for its first cycles."""
    wait_for(lambda: measured_since(stack, EARLIEST), 120, "every agent measures")


def measured_since(stack: RunningStack, since: datetime) -> bool:
    """Whether every path was measured after `since`."""
    measuring = "SELECT count(DISTINCT path_id) FROM burst WHERE outcome = 'measured' AND measured_at > %s"
    return rows(stack, measuring, since)[0][0] == len(SITES) * (len(SITES) - 1)


def _query(at: datetime) -> str:
    return at.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
