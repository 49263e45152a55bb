"""The kind `request-response`: latency and rate with a single block outstanding, path by path."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

import msgspec

from probes.contract import Command, CycleKind, Load, Outcome, Probe, Target, targets_of_spec
from probes.request_response.limits import RequestResponseLimits
from probes.request_response.spec import (
    RequestResponseRun,
    RequestResponseSpec,
    RequestResponseTask,
    not_measured,
)

DEADLINE_SLACK_S = 5.0


def _probe() -> Probe[RequestResponseSpec, tuple[RequestResponseRun, ...]]:
    from probes.request_response.probe import RequestResponseProbe

    return RequestResponseProbe()


def _spec(task: RequestResponseTask, targets: Sequence[Target], limits: Any) -> RequestResponseSpec:
    planned = tuple(msgspec.structs.replace(target.planned, address=target.address) for target in targets)
    return msgspec.structs.replace(task.spec, targets=planned)


def _forbids(limits: Any, task: RequestResponseTask, targets: Sequence[Target], load: Load) -> list[str | None]:
    return [limits.request_response.forbids_run(task.spec)] * len(targets)


def _not_measured(
    task: RequestResponseTask, target: Target, started_at: datetime, outcome: Outcome, detail: str
) -> tuple[RequestResponseRun, ...]:
    return (not_measured(task.spec, target.planned, started_at, outcome, detail),)


KIND = CycleKind(
    name="request-response",
    task=RequestResponseTask,
    results=(RequestResponseRun,),
    hours="request_response",
    limits={"request_response": RequestResponseLimits},
    probe=_probe,
    one_at_a_time=True,
    targets=targets_of_spec,
    spec=_spec,
    length_s=lambda task: task.spec.duration_s + task.spec.idle_s,
    longest_s=lambda spec: spec.longest_s * len(spec.targets) + DEADLINE_SLACK_S,
    not_measured=_not_measured,
    forbids=_forbids,
    command=Command(
        "probes.request_response.command", "measure the latency of blocks sent and answered, or answer them"
    ),
)
