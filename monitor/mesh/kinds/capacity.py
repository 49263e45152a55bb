"""Capacity tests in mesh.toml and plans."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import msgspec
from msgspec import Meta

from monitor.mesh.document.entries import TestKeys, TestName
from monitor.mesh.kinds.kind import DAY_S, MeshKind, ends
from probes.capacity.kind import KIND as CAPACITY
from probes.capacity.spec import USUAL_S, CapacitySpec, CapacityTarget, CapacityTask
from probes.toml.keys import meaning

if TYPE_CHECKING:
    from monitor.mesh.plan_rows import PlannedMeasurement


class CapacityEntry(TestKeys, frozen=True, tag="capacity"):
    """Bottleneck capacity, from trains of echo requests."""

    name: TestName
    every_s: Annotated[int, Meta(ge=600, le=DAY_S), meaning("Period: each path is measured once in each period.")] = (
        3600
    )

    @property
    def parameters(self) -> dict[str, object]:
        return {}


def _task(name: str, measurements: Sequence[PlannedMeasurement]) -> CapacityTask:
    test = measurements[0].test
    targets = tuple(
        CapacityTarget(path_id=row.path_id, spec=msgspec.convert({**test.parameters, **ends(row)}, CapacitySpec))
        for row in measurements
    )
    return CapacityTask(test=name, every_s=test.every_s, targets=targets)


KIND = MeshKind(kind=CAPACITY, entry=CapacityEntry, table="capacity_result", turn_s=USUAL_S, task=_task)
