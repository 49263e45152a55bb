"""The kind `interface`: counters of the interface that a path leaves by."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Any, Literal

import msgspec

from probes.contract import (
    CheckResult,
    CycleKind,
    Deadline,
    Load,
    LoadPeriods,
    Outcome,
    Probe,
    Target,
    targets_of_spec,
)
from probes.interface.limits import SnmpLimits
from probes.interface.polled import PolledSpec
from probes.interface.spec import InterfaceRun, InterfaceTask, not_measured

LONGEST_S = 30.0


def _probe() -> Probe[PolledSpec, tuple[InterfaceRun, ...]]:
    from probes.interface.probe import InterfaceProbe

    return InterfaceProbe()


def _targets(task: InterfaceTask) -> tuple[Target, ...]:
    # With a router, packets go to its address only.
    router = task.spec.router
    if router is None:
        return targets_of_spec(task)
    family = _family_of(router)
    return tuple(Target(target.path_id, router, family or target.family, target) for target in task.spec.targets)


def _family_of(router: str) -> Literal[4, 6] | None:
    """Family of a literal address, maybe not the path's; None for names."""
    try:
        return 6 if ipaddress.ip_address(router).version == 6 else 4
    except ValueError:
        return None


def _spec(task: InterfaceTask, targets: Sequence[Target], limits: Any) -> PolledSpec:
    planned = tuple(msgspec.structs.replace(target.planned, address=target.address) for target in targets)
    router = task.spec.router
    return PolledSpec(
        targets=planned,
        router=router,
        interface=task.spec.interface,
        credentials=None if router is None else limits.snmp.router(targets[0].address),
    )


def _forbids(limits: Any, task: InterfaceTask, targets: Sequence[Target], load: Load) -> list[str | None]:
    if task.spec.router is None:
        return [None] * len(targets)
    return [limits.snmp.forbids_router(target.address) for target in targets]


def _not_measured(
    task: InterfaceTask, target: Target, started_at: datetime, outcome: Outcome, detail: str
) -> tuple[InterfaceRun, ...]:
    return (not_measured(task.spec, target.planned, started_at, outcome, detail),)


def _run(probe: Any, spec: PolledSpec, deadline: Deadline, load_periods: LoadPeriods) -> tuple[InterfaceRun, ...]:
    runs: tuple[InterfaceRun, ...] = probe.run(spec, deadline, load_periods)
    return runs


def _check(limits: Any, tasks: Sequence[InterfaceTask]) -> Iterable[CheckResult]:
    if not any(task.spec.router for task in tasks):
        return
    from probes.interface.snmp import is_installed

    fix = None if is_installed() else 'pip install "soundings-agent[snmp]"'
    yield CheckResult(check="snmp", detail="pysnmp is installed" if fix is None else "no pysnmp", fix=fix)
    for router in limits.snmp.routers:
        fault = router.fault()
        if fault is not None:
            yield CheckResult(check="snmp", detail=", ".join(router.networks), fix=fault)


KIND = CycleKind(
    name="interface",
    task=InterfaceTask,
    results=(InterfaceRun,),
    hours="snmp",
    limits={"snmp": SnmpLimits},
    probe=_probe,
    targets=_targets,
    spec=_spec,
    length_s=lambda task: 1.0,
    longest_s=lambda spec: LONGEST_S,
    not_measured=_not_measured,
    forbids=_forbids,
    run=_run,
    is_under_load=lambda run: run.beside_tests,
    check=_check,
)
