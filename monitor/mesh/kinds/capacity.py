"""Capacity tests of mesh.toml, and their part of a plan."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

import msgspec

from monitor.mesh.document.entries import Doc, TestKind, TestName
from monitor.mesh.document.fields import Fields
from monitor.mesh.kinds.kind import DAY_S, MeshKind, ends
from probes.capacity.kind import KIND as CAPACITY
from probes.capacity.spec import USUAL_S, CapacitySpec, CapacityTarget, CapacityTask

if TYPE_CHECKING:
    from monitor.mesh.models import Measurement


@dataclass(frozen=True, slots=True)
class CapacityEntry:
    name: TestName
    every_s: Annotated[int, Doc("Period: each path is measured once in each period.")] = 3600

    kind: TestKind = dataclasses.field(default="capacity", init=False)

    @property
    def parameters(self) -> dict[str, object]:
        """Fields of the `probes.capacity.spec.CapacitySpec` without the addresses: none."""
        return {}


def _read(table: Fields, name: str) -> CapacityEntry:
    return CapacityEntry(name=name, every_s=table.integer("every_s", low=600, high=DAY_S, default=3600))


def _task(name: str, measurements: Sequence[Measurement]) -> CapacityTask:
    test = measurements[0].test
    targets = tuple(
        CapacityTarget(path_id=row.path_id, spec=msgspec.convert({**test.parameters, **ends(row)}, CapacitySpec))
        for row in measurements
    )
    return CapacityTask(test=name, every_s=test.every_s, targets=targets)


KIND = MeshKind(kind=CAPACITY, entry=CapacityEntry, read=_read, table="capacity_result", turn_s=USUAL_S, task=_task)
