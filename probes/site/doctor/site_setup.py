from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

from probes.contract import CheckResult
from probes.packets.resolve import Name
from probes.site.delivery.centre import Centre, CentreError
from probes.site.limits.limits import Limits
from probes.site.wire import Plan

CENTRE_TIMEOUT_S = 10.0
CONNECT_TIMEOUT_S = 3.0


@dataclass(frozen=True, slots=True)
class SiteSetup:
    """Files, limits and plan of the site."""

    data: Path
    token_file: Path
    limits_file: Path | None
    limits: Limits
    centre: Centre | None
    answer: Plan | CentreError | None  # to the request for the plan; None without a centre
    cached_plan: Plan | None

    @property
    def plan(self) -> Plan | None:
        return self.answer if isinstance(self.answer, Plan) else self.cached_plan

    def names(self) -> set[Name]:
        if self.plan is None:
            return set()
        targets = {(target.address, target.family) for kind, task in self.plan.cycles for target in kind.targets(task)}
        return targets | {(slot.spec.address, slot.spec.family) for slot in self.plan.slots}


Check = Callable[[SiteSetup], Iterable[CheckResult]]
