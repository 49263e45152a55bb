"""The centre's half of the toy kind: its table in mesh.toml, its part of a plan, its check and its database table."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any

from django.db import models
from msgspec import Meta

from monitor.archive.kinds.kind import ApiAnswer, ResultKind
from monitor.archive.retention_bounds import Bound
from monitor.mesh.document.entries import TestKeys, TestName
from monitor.mesh.kinds.kind import MeshKind
from probes.contract import Outcome
from probes.toml.keys import meaning
from tests.toy_kind.kind import KIND, LookupRun, LookupTarget, LookupTask


class LookupResult(models.Model):
    """A lookup of a path's destination, as `tests.toy_kind.kind.LookupRun`."""

    pk = models.CompositePrimaryKey("path_id", "measured_at")
    path_id = models.IntegerField()
    measured_at = models.DateTimeField()
    test = models.TextField()
    outcome = models.TextField()
    lookup_ms = models.FloatField(null=True)
    detail = models.TextField(null=True)

    class Meta:
        app_label = "archive"
        db_table = "lookup_result"


class LookupEntry(TestKeys, frozen=True, tag=KIND.name):
    """Time that the source takes to look up the destination's address."""

    name: TestName
    every_s: Annotated[int, Meta(ge=1, le=3600), meaning("Interval between cycles.", "60")]
    times: Annotated[int, Meta(ge=1, le=100), meaning("Number of lookups.")] = 1

    @property
    def parameters(self) -> dict[str, object]:
        return {"times": self.times}


def _task(name: str, measurements: Sequence[Any]) -> LookupTask:
    test = measurements[0].test
    targets = tuple(
        LookupTarget(path_id=row.path_id, address=row.path.destination.address, family=row.path.family)
        for row in measurements
    )
    return LookupTask(test=name, every_s=test.every_s, targets=targets, times=test.parameters["times"])


def _contradiction(run: LookupRun) -> str | None:
    if run.outcome is Outcome.MEASURED and run.lookup_ms is None:
        return "measured, but without lookup_ms"
    return None


MESH_KIND = MeshKind(
    kind=KIND,
    entry=LookupEntry,
    table="lookup_result",
    result_bytes=lambda parameters: 100 + parameters["times"],
    task=_task,
)
BOUND = Bound("capacity", "by age", is_raw=True)
RESULT_KIND = ResultKind(
    kind=KIND,
    table=LookupResult,
    contradiction=_contradiction,
    answer=ApiAnswer(
        schema="LookupOut",
        operation_id="get_lookup",
        summary="Lookups of a path's destination",
        description="A lookup of the destination's address.",
    ),
)
