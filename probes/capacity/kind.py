"""The kind `capacity`: packet trains that measure the bottleneck capacity, path by path."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

import msgspec

from probes.capacity.limits import CapacityLimits
from probes.capacity.spec import USUAL_S, CapacityRun, CapacitySpec, CapacityTask, not_measured
from probes.contract import Command, CycleKind, Load, Outcome, Probe, Target


def _probe() -> Probe[CapacitySpec, CapacityRun]:
    from probes.capacity.probe import CapacityProbe

    return CapacityProbe()


def _targets(task: CapacityTask) -> tuple[Target, ...]:
    return tuple(Target(target.path_id, target.spec.address, target.spec.family, target) for target in task.targets)


def _spec(task: CapacityTask, targets: Sequence[Target], limits: Any) -> CapacitySpec:
    (target,) = targets
    planned_spec: CapacitySpec = target.planned.spec
    return msgspec.structs.replace(
        planned_spec, address=target.address, spacing_s=max(planned_spec.spacing_s, limits.ping.min_spacing_s)
    )


def _longest_s(spec: CapacitySpec) -> float:
    from probes.capacity.probe import longest_s

    return longest_s(spec)


def _forbids(limits: Any, task: CapacityTask, targets: Sequence[Target], load: Load) -> list[str | None]:
    from probes.capacity.probe import MAX_PACKETS

    return [
        limits.capacity.forbids_trains(target.address, MAX_PACKETS, load.packets_within_hour(target.address))
        for target in targets
    ]


def _not_measured(
    task: CapacityTask, target: Target, started_at: datetime, outcome: Outcome, detail: str
) -> tuple[CapacityRun, ...]:
    return (not_measured(target.planned.spec, started_at, outcome, detail),)


KIND = CycleKind(
    name="capacity",
    task=CapacityTask,
    results=(CapacityRun,),
    hours="capacity",
    limits={"capacity": CapacityLimits},
    probe=_probe,
    one_at_a_time=True,
    targets=_targets,
    spec=_spec,
    length_s=lambda task: USUAL_S,
    longest_s=_longest_s,
    not_measured=_not_measured,
    forbids=_forbids,
    packets_sent=lambda run: run.sent,
    command=Command("probes.capacity.command", "estimate the bottleneck capacity of the path to a host"),
)
