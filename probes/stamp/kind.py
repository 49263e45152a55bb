"""The kind `stamp`: loss and delay of each direction, by STAMP."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Any

import msgspec

from probes.contract import (
    CheckResult,
    Command,
    CycleKind,
    Deadline,
    Load,
    LoadPeriods,
    Outcome,
    Probe,
    Target,
    targets_of_spec,
)
from probes.stamp.closing import closing_s
from probes.stamp.limits import StampLimits
from probes.stamp.spec import StampBurst, StampSpec, StampTask

DEADLINE_SLACK_S = 10.0


def _probe() -> Probe[StampSpec, tuple[StampBurst, ...]]:
    from probes.stamp.probe import STAMP

    return STAMP


def _spec(task: StampTask, targets: Sequence[Target], limits: Any) -> StampSpec:
    return msgspec.structs.replace(
        task.spec,
        targets=tuple(msgspec.structs.replace(target.planned, address=target.address) for target in targets),
    )


def _run(probe: Any, spec: StampSpec, deadline: Deadline, load_periods: LoadPeriods) -> tuple[StampBurst, ...]:
    bursts: tuple[StampBurst, ...] = probe.run(spec, deadline, load_periods)
    return bursts


def longest_s(spec: StampSpec) -> float:
    """Deadline of a cycle."""
    return spec.duration_s + closing_s(spec) + spec.late_s + DEADLINE_SLACK_S


def _forbids(limits: Any, task: StampTask, targets: Sequence[Target], load: Load) -> list[str | None]:
    running_per_s = sum(
        len(measured) / other.spec.spacing_s
        for other, measured in load.running.values()
        if isinstance(other, StampTask)
    )
    rules: list[str | None] = limits.stamp.forbids_targets(
        task.spec, [target.address for target in targets], running_per_s
    )
    return rules


def _not_measured(
    task: StampTask, target: Target, started_at: datetime, outcome: Outcome, detail: str
) -> tuple[StampBurst, ...]:
    return (
        StampBurst(
            target=target.planned.address,
            address=None,
            family=target.family,
            packet_bytes=task.spec.packet_bytes,
            started_at=started_at,
            outcome=outcome,
            port=target.planned.port,
            dscp=task.spec.dscp,
            is_path_series=target.planned.is_path_series,
            detail=detail,
        ),
    )


def _check(limits: Any, tasks: Sequence[StampTask]) -> Iterable[CheckResult]:
    from probes.stamp.check import check_stamp

    return check_stamp(limits.stamp, tasks)


KIND = CycleKind(
    name="stamp",
    task=StampTask,
    results=(StampBurst,),
    hours="stamp",
    limits={"stamp": StampLimits},
    probe=_probe,
    targets=targets_of_spec,
    spec=_spec,
    length_s=lambda task: task.spec.duration_s,
    longest_s=longest_s,
    # Packets that are not counted may take until after the next cycle has begun.
    overlaps=lambda task: task.spec.duration_s + closing_s(task.spec) > task.every_s,
    not_measured=_not_measured,
    forbids=_forbids,
    run=_run,
    is_under_load=lambda burst: burst.is_under_load,
    check=_check,
    command=Command("probes.stamp.command", "measure loss and delay of each direction, or answer such tests"),
)
