"""The kind `tcp-ping`: bursts of TCP handshakes, all paths of a cycle together."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

import msgspec

from probes.contract import Command, CycleKind, Deadline, Load, LoadPeriods, Outcome, Probe, Target, targets_of_spec
from probes.packets.engine.even_cycle import await_begin, lead_s, period_s
from probes.packets.limits import InFlight
from probes.packets.spec import Burst
from probes.tcp_ping.limits import TcpPingLimits
from probes.tcp_ping.spec import TcpPingSpec, TcpPingTask

DEADLINE_SLACK_S = 10.0


def _probe() -> Probe[TcpPingSpec, tuple[Burst, ...]]:
    from probes.tcp_ping.probe import TcpPingProbe

    return TcpPingProbe()


def _spec(task: TcpPingTask, targets: Sequence[Target], limits: Any) -> TcpPingSpec:
    planned = tuple(msgspec.structs.replace(target.planned, address=target.address) for target in targets)
    return msgspec.structs.replace(task.spec, targets=planned)


def _lead_s(spec: TcpPingSpec) -> float:
    return lead_s(_period_s(spec)) if spec.is_even else 0.0


def _period_s(spec: TcpPingSpec) -> int:
    return period_s(spec.count, spec.spacing_s)


def _run(probe: Any, spec: TcpPingSpec, deadline: Deadline, load_periods: LoadPeriods) -> tuple[Burst, ...]:
    if spec.is_even:
        await_begin(_period_s(spec))
    bursts: tuple[Burst, ...] = probe.run(spec, deadline, load_periods)
    return bursts


def _forbids(limits: Any, task: TcpPingTask, targets: Sequence[Target], load: Load) -> list[str | None]:
    rule = limits.tcp_ping.forbids_port(task.spec.port)
    if rule is not None:
        return [rule] * len(targets)
    running = {
        test: InFlight(other.spec.spacing_s, frozenset(target.address for target in measured))
        for test, (other, measured) in load.running.items()
        if isinstance(other, TcpPingTask)
    }
    addresses = [target.address for target in targets]
    rules: list[str | None] = limits.tcp_ping.forbids_targets(task.spec, addresses, running)
    return rules


def _not_measured(
    task: TcpPingTask, target: Target, started_at: datetime, outcome: Outcome, detail: str
) -> tuple[Burst, ...]:
    return (
        Burst(
            target=target.planned.address,
            address=None,
            family=target.family,
            packet_bytes=task.spec.packet_bytes[0],
            started_at=started_at,
            outcome=outcome,
            detail=detail,
        ),
    )


KIND = CycleKind(
    name="tcp-ping",
    task=TcpPingTask,
    results=(Burst,),
    hours="tcp_ping",
    limits={"tcp_ping": TcpPingLimits},
    probe=_probe,
    targets=targets_of_spec,
    spec=_spec,
    length_s=lambda task: _lead_s(task.spec) + task.spec.duration_s,
    longest_s=lambda spec: _lead_s(spec) + spec.duration_s + DEADLINE_SLACK_S,
    overlaps=lambda task: task.spec.is_even,
    not_measured=_not_measured,
    forbids=_forbids,
    run=_run,
    is_under_load=lambda burst: burst.is_under_load,
    command=Command("probes.tcp_ping.command", "measure the time of TCP handshakes, where ICMP is filtered"),
)
