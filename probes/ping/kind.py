"""The kind `ping`: bursts of ICMP echo requests, all paths of a cycle together."""

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
from probes.packets.engine.even_cycle import await_begin, lead_s, period_s
from probes.packets.limits import InFlight
from probes.packets.rate_limit import longest_s as check_length_s
from probes.packets.spec import Burst, PingSpec
from probes.ping.limits import PingLimits
from probes.ping.spec import PingTask

DEADLINE_SLACK_S = 10.0


def _probe() -> Probe[PingSpec, Sequence[Burst]]:
    from probes.packets.burst import PING

    return PING


def _lead_s(spec: PingSpec) -> float:
    return lead_s(_period_s(spec)) if spec.is_even else 0.0


def _period_s(spec: PingSpec) -> int:
    return period_s(spec.requests, spec.spacing_s)


def _spec(task: PingTask, targets: Sequence[Target], limits: Any) -> PingSpec:
    """Apply the minimum spacing; skip rate-limit checks if time is short."""
    planned_spec, min_spacing_s = task.spec, limits.ping.min_spacing_s
    check_s = check_length_s(planned_spec.spacing_s, planned_spec.timeout_s, min_spacing_s)
    return msgspec.structs.replace(
        planned_spec,
        targets=tuple(msgspec.structs.replace(target.planned, address=target.address) for target in targets),
        min_spacing_s=min_spacing_s,
        check_rate_limit=planned_spec.check_rate_limit and planned_spec.duration_s + check_s <= task.every_s,
    )


def _run(probe: Any, spec: PingSpec, deadline: Deadline, load_periods: LoadPeriods) -> Sequence[Burst]:
    if spec.is_even:
        await_begin(_period_s(spec))
    bursts: Sequence[Burst] = probe.run(spec, deadline, load_periods)
    return bursts


def _longest_s(spec: PingSpec) -> float:
    check_s = 0.0 if spec.is_even else check_length_s(spec.spacing_s, spec.timeout_s, spec.min_spacing_s)
    return _lead_s(spec) + spec.duration_s + check_s + DEADLINE_SLACK_S


def _forbids(limits: Any, task: PingTask, targets: Sequence[Target], load: Load) -> list[str | None]:
    running = {
        test: InFlight(other.spec.spacing_s, frozenset(target.address for target in measured))
        for test, (other, measured) in load.running.items()
        if isinstance(other, PingTask)
    }
    rules: list[str | None] = limits.ping.forbids_targets(task.spec, [target.address for target in targets], running)
    return rules


def _not_measured(
    task: PingTask, target: Target, started_at: datetime, outcome: Outcome, detail: str
) -> tuple[Burst, ...]:
    return tuple(
        Burst(
            target=target.planned.address,
            address=None,
            family=target.family,
            packet_bytes=size,
            started_at=started_at,
            outcome=outcome,
            detail=detail,
        )
        for size in task.spec.packet_bytes
    )


def _check(limits: Any, tasks: Sequence[PingTask]) -> Iterable[CheckResult]:
    from probes.ping.check import check_mtu

    return check_mtu(tasks)


KIND = CycleKind(
    name="ping",
    task=PingTask,
    results=(Burst,),
    hours="ping",
    limits={"ping": PingLimits},
    probe=_probe,
    targets=targets_of_spec,
    spec=_spec,
    length_s=lambda task: _lead_s(task.spec) + task.spec.duration_s,
    longest_s=_longest_s,
    overlaps=lambda task: task.spec.is_even,
    not_measured=_not_measured,
    forbids=_forbids,
    run=_run,
    is_under_load=lambda burst: burst.is_under_load,
    check=_check,
    command=Command("probes.ping.command", "measure packet loss and RTT to hosts, without a centre"),
)
