"""The kind `trace`: the routes to all targets of a cycle, traced together."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

import msgspec

from probes.contract import Command, CycleKind, Load, Outcome, Probe, Target, targets_of_spec
from probes.trace.limits import TraceLimits
from probes.trace.round_bounds import MOST_CHECKS, WINDOW_HOPS
from probes.trace.spec import TraceRun, TraceSpec, TraceTask, not_measured

# For a target, where others share its near hops.
USUAL_PACKETS = 15
USUAL_WAITS_S = 15.0
DEADLINE_SLACK_S = 20.0
# Waits, each of a timeout and an interval between packets, to confirm the end of a route.
CONFIRM_WAITS = 20


def _probe() -> Probe[TraceSpec, tuple[TraceRun, ...]]:
    from probes.trace.probe import TRACE

    return TRACE


def _spec(task: TraceTask, targets: Sequence[Target], limits: Any) -> TraceSpec:
    spec = msgspec.structs.replace(
        task.spec,
        targets=tuple(msgspec.structs.replace(target.planned, address=target.address) for target in targets),
    )
    within: TraceSpec = limits.trace.within(spec)
    return within


def longest_s(spec: TraceSpec) -> float:
    """Maximum duration: all packets, and waits after silent windows."""
    most = spec.max_hops * spec.attempts * max(1, spec.flows)
    packets = most if spec.max_packets is None else min(most, spec.max_packets + spec.max_hops)
    waits = spec.max_hops / WINDOW_HOPS + spec.attempts + 2
    return (
        len(spec.targets) * packets / spec.max_packets_per_s
        + waits * (spec.timeout_s + spec.router_spacing_s)
        + CONFIRM_WAITS * (spec.timeout_s + spec.router_spacing_s)
        + MOST_CHECKS * spec.router_spacing_s * (len(spec.targets) > 1)
        + DEADLINE_SLACK_S
    )


def _forbids(limits: Any, task: TraceTask, targets: Sequence[Target], load: Load) -> list[str | None]:
    return [limits.trace.forbids_traces()] * len(targets)


def _not_measured(
    task: TraceTask, target: Target, started_at: datetime, outcome: Outcome, detail: str
) -> tuple[TraceRun, ...]:
    return (not_measured(target.planned.address, target.family, started_at, outcome, detail),)


KIND = CycleKind(
    name="trace",
    task=TraceTask,
    results=(TraceRun,),
    hours="trace",
    limits={"trace": TraceLimits},
    probe=_probe,
    targets=targets_of_spec,
    spec=_spec,
    length_s=lambda task: USUAL_WAITS_S + len(task.spec.targets) * USUAL_PACKETS / task.spec.max_packets_per_s,
    longest_s=longest_s,
    not_measured=_not_measured,
    forbids=_forbids,
    command=Command("probes.trace.command", "show the route to hosts, with RTT and loss of each hop"),
)
