"""A kind of measurement from outside the tree: the time that this host takes to look an address up. The agent's
half."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from typing import Annotated, Any, Literal

import msgspec

from probes.bounds import Amount, Moment, Text
from probes.contract import CheckResult, CycleKind, Deadline, Load, Outcome, Target
from probes.limit_keys import ALL_DAY, Hours
from probes.toml.keys import meaning

FAMILY = {4: socket.AF_INET, 6: socket.AF_INET6}


class LookupTarget(msgspec.Struct, frozen=True, kw_only=True):
    path_id: int
    address: str
    family: Literal[4, 6] = 4


class LookupTask(msgspec.Struct, frozen=True, kw_only=True):
    test: str
    every_s: int
    targets: tuple[LookupTarget, ...]
    times: int = 1


class LookupSpec(msgspec.Struct, frozen=True, kw_only=True):
    targets: tuple[LookupTarget, ...]
    times: int


class LookupRun(msgspec.Struct, frozen=True, kw_only=True, tag="lookup", tag_field="kind"):
    target: str
    family: Literal[4, 6]
    started_at: Moment
    outcome: Outcome
    lookup_ms: Amount | None = None
    detail: Text | None = None


class LookupLimits(msgspec.Struct, frozen=True, kw_only=True):
    max_targets: Annotated[int, meaning("in a cycle")] = 100
    hours: Hours = ALL_DAY


class LookupProbe:
    def can_run(self, spec: LookupSpec) -> list[str]:
        return []

    def run(self, spec: LookupSpec, deadline: Deadline) -> tuple[LookupRun, ...]:
        return tuple(self._look_up(target, spec.times) for target in spec.targets)

    @staticmethod
    def _look_up(target: LookupTarget, times: int) -> LookupRun:
        started_at, began_s = datetime.now(UTC), time.monotonic()
        for _ in range(times):
            socket.getaddrinfo(target.address, None, FAMILY[target.family])
        lookup_ms = 1000 * (time.monotonic() - began_s) / times
        return LookupRun(
            target=target.address,
            family=target.family,
            started_at=started_at,
            outcome=Outcome.MEASURED,
            lookup_ms=lookup_ms,
        )


def _targets(task: LookupTask) -> tuple[Target, ...]:
    return tuple(Target(target.path_id, target.address, target.family, target) for target in task.targets)


def _spec(task: LookupTask, targets: Sequence[Target], limits: Any) -> LookupSpec:
    permitted = (msgspec.structs.replace(target.planned, address=target.address) for target in targets)
    return LookupSpec(targets=tuple(permitted), times=task.times)


def _forbids(limits: Any, task: LookupTask, targets: Sequence[Target], load: Load) -> list[str | None]:
    most = limits.lookup.max_targets
    return [None if place < most else f"lookup.max_targets: {most} allowed" for place, _ in enumerate(targets)]


def _not_measured(
    task: LookupTask, target: Target, started_at: datetime, outcome: Outcome, detail: str
) -> tuple[LookupRun, ...]:
    run = LookupRun(target=target.address, family=target.family, started_at=started_at, outcome=outcome, detail=detail)
    return (run,)


def _check(limits: Any, tasks: Sequence[LookupTask]) -> Iterator[CheckResult]:
    yield CheckResult(check="lookup", detail=f"{sum(len(task.targets) for task in tasks)} addresses to look up")


KIND = CycleKind(
    name="lookup",
    task=LookupTask,
    results=(LookupRun,),
    hours="lookup",
    limits={"lookup": LookupLimits},
    probe=LookupProbe,
    targets=_targets,
    spec=_spec,
    length_s=lambda task: 1.0,
    longest_s=lambda spec: 10.0,
    not_measured=_not_measured,
    forbids=_forbids,
    check=_check,
)
