"""Outcome of every scheduled measurement: each cycle and slot counts once, so that counts add up to the schedule.

Out: `LedgerLine`s of paths over a period. The schedule comes from the mesh's
`MeasurementPeriod`s and slots; `monitor.archive.ingest.ledger` stores the agents' reports. If a cycle is reported more
than once, `measured` counts before any other outcome, and a result before a gap of the agent. A cycle without a report
is `awaited`.
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

AWAITED = "awaited"
"""Outcome of scheduled measurements without a report so far."""
UNKNOWN = "unknown"
"""Outcome of measurements scheduled before the first account of their agent."""
DAY_S = 86_400


class SlotReason(StrEnum):
    """Reason of an outcome, besides the `GapReason`s of an agent. The last two are of a test that was refused."""

    NOT_IN_PLAN = "not_in_plan"
    NOT_REPORTED = "not_reported"
    OVER_BUDGET = "over_budget"
    CONNECTION_REFUSED = "connection_refused"
    TIMEOUT = "timeout"


@dataclass(frozen=True, slots=True)
class LedgerLine:
    """Number of scheduled measurements of a path's test with the same outcome. `reason` is a `GapReason`, `not_in_plan`
    or `not_reported` where the outcome is `missed`, `over_budget` where a budget of mesh.toml did not permit it,
    `connection_refused` or `timeout` where it is `refused` and the tool said so, else None."""

    path_id: int
    test: str
    outcome: str
    reason: str | None
    count: int


def ledger_of_path(path_id: int, since: datetime, until: datetime) -> list[LedgerLine]:
    """Measurements of a path scheduled in [since, until), by test, measured first."""
    return ledger_of_paths([path_id], since, until)


def ledger_of_paths(path_ids: Sequence[int], since: datetime, until: datetime) -> list[LedgerLine]:
    """Measurements of these paths scheduled in [since, until), as `ledger_of_path`."""
    check_period(since, until)
    parameters = {"since": since, "until": until, "path_ids": list(path_ids)}
    reversed_by = json.dumps({name: mesh_kind.reversed_by for name, mesh_kind in MESH_KINDS.items()})
    kinds = {"kinds_in_cycles": _IN_CYCLES, "reversed_by": reversed_by}
    return records(LedgerLine, *run_statement("ledger", **parameters, **kinds, reasons=[*GapReason], **_SLOTS))


_IN_CYCLES = [kind.name for kind in CYCLE_KINDS]
_SLOTS = {
    "not_reported": [f"{NOT_REPORTED}%", f"{ONE_REPORTED}%"],
    "budget": f"{RULE}%",
    "planned_late": f"{PLANNED_LATE}%",
    "connection_refused": "%connection refused%",
    "timed_out": "%timed out%",
}
"""Patterns of the details of slots."""


def count_planned(lines: Iterable[LedgerLine]) -> int:
    """Total number of measurements."""
    return sum(line.count for line in lines)


def time_offline(since: datetime, until: datetime) -> dict[int, timedelta]:
    """How long the agent of each site did not run in [since, until), as far as agents that run again have reported; by
    site, without those that ran all the time. A query."""
    gaps = AgentGap.objects.filter(test="", reason=GapReason.AGENT_OFFLINE, until__gt=since, since__lt=until)
    offline: dict[int, timedelta] = {}
    for site_id, began, ended in gaps.values_list("site_id", "since", "until"):
        offline[site_id] = offline.get(site_id, timedelta(0)) + (min(ended, until) - max(began, since))
    return offline
