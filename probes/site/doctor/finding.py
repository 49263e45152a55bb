"""What a check of `site doctor` takes and gives: the site as examined, and its findings."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

import msgspec

from probes.ping.resolve import Name
from probes.site.delivery.centre import Centre, CentreError
from probes.site.limits.limits import Limits
from probes.site.wire import Plan

CENTRE_TIMEOUT_S = 10.0
CONNECT_TIMEOUT_S = 3.0


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """What a check found; `mend` says what to do, and is None where all is well."""

    check: str
    found: str
    mend: str | None = None

    @property
    def is_good(self) -> bool:
        return self.mend is None


@dataclass(frozen=True, slots=True)
class Examined:
    """What is known of the site. `answer` is the centre's to the question for the plan: a plan, why there is none, or
    None where no centre is known."""

    data: Path
    token_file: Path
    limits_file: Path | None
    limits: Limits
    centre: Centre | None
    answer: Plan | CentreError | None
    kept_plan: Plan | None

    @property
    def plan(self) -> Plan | None:
        return self.answer if isinstance(self.answer, Plan) else self.kept_plan

    def names(self) -> set[Name]:
        """All that the plan names to be measured from here, by family."""
        if self.plan is None:
            return set()
        targets = {(target.address, target.family) for kind, task in self.plan.cycles for target in kind.targets(task)}
        return targets | {(slot.spec.address, slot.spec.family) for slot in self.plan.slots}


Check = Callable[[Examined], Iterable[Finding]]
