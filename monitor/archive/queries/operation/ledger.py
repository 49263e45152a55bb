"""Outcome of every scheduled measurement; each cycle and slot counts once.

Of several reports, `measured` counts first, and results before gaps.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum

from monitor.archive.models import AgentGap
from monitor.archive.statements import check_period, records, run_statement
from monitor.mesh.document.budgets import RULE
from monitor.mesh.kinds import MESH_KINDS
from monitor.mesh.schedule.endings import NOT_REPORTED, ONE_REPORTED
from probes.kinds import CYCLE_KINDS
from probes.site.wire import PLANNED_LATE, GapReason

# Outcome of scheduled measurements without a report so far.
AWAITED = "awaited"
# Outcome of measurements scheduled before the first account of their agent.
UNKNOWN = "unknown"
DAY_S = 86_400


class SlotReason(StrEnum):
    """Reason of an outcome, besides `GapReason`; the last two are for refused tests."""

    NOT_IN_PLAN = "not_in_plan"
    NOT_REPORTED = "not_reported"
    OVER_BUDGET = "over_budget"
    CONNECTION_REFUSED = "connection_refused"
    TIMEOUT = "timeout"


@dataclass(frozen=True, slots=True)
class LedgerLine:
    """Number of a path's scheduled measurements of a test with the same outcome."""

    path_id: int
    test: str
    outcome: str
    reason: str | None  # a `GapReason` or `SlotReason`; None where unknown or not needed
    count: int


def ledger_of_path(path_id: int, since: datetime, until: datetime) -> list[LedgerLine]:
    """Measurements scheduled in [since, until), by test, measured first."""
    return ledger_of_paths([path_id], since, until)


def ledger_of_paths(path_ids: Sequence[int], since: datetime, until: datetime) -> list[LedgerLine]:
    check_period(since, until)
    parameters = {"since": since, "until": until, "path_ids": list(path_ids)}
    reversed_by = json.dumps({name: mesh_kind.reversed_by for name, mesh_kind in MESH_KINDS.items()})
    kinds = {"kinds_in_cycles": _IN_CYCLES, "reversed_by": reversed_by}
    return records(LedgerLine, *run_statement("ledger", **parameters, **kinds, reasons=[*GapReason], **_SLOTS))


_IN_CYCLES = [kind.name for kind in CYCLE_KINDS]
# Patterns of the details of slots.
_SLOTS = {
    "not_reported": [f"{NOT_REPORTED}%", f"{ONE_REPORTED}%"],
    "budget": f"{RULE}%",
    "planned_late": f"{PLANNED_LATE}%",
    "connection_refused": "%connection refused%",
    "timed_out": "%timed out%",
}


def count_planned(lines: Iterable[LedgerLine]) -> int:
    return sum(line.count for line in lines)


def time_offline(since: datetime, until: datetime) -> dict[int, timedelta]:
    """Reported time without a running agent in [since, until), by site, if any. A query."""
    gaps = AgentGap.objects.filter(test="", reason=GapReason.AGENT_OFFLINE, until__gt=since, since__lt=until)
    offline: dict[int, timedelta] = {}
    for site_id, began, ended in gaps.values_list("site_id", "since", "until"):
        offline[site_id] = offline.get(site_id, timedelta(0)) + (min(ended, until) - max(began, since))
    return offline
