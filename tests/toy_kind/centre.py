"""The centre's half of the toy kind: its table in mesh.toml, its part of a plan, its check and its database table."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Annotated, Any

from django.db import connection
from msgspec import Meta

from monitor.archive.ingest.kinds import StoredKind
from monitor.archive.retention_bounds import Bound
from monitor.mesh.document.entries import TestKeys, TestName
from monitor.mesh.kinds.kind import MeshKind
from probes.contract import Outcome
from probes.site.wire import Delivered
from probes.toml.keys import meaning
from tests.toy_kind.kind import KIND, LookupRun, LookupTarget, LookupTask

TABLE = """
CREATE TABLE lookup_result (
    path_id integer, measured_at timestamptz, test text, outcome text, lookup_ms float8, detail text,
    PRIMARY KEY (path_id, measured_at)
)
"""
STORE = """
INSERT INTO lookup_result VALUES (%(path_id)s, %(measured_at)s, %(test)s, %(outcome)s, %(lookup_ms)s, %(detail)s)
ON CONFLICT DO NOTHING
"""


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
        return "measured, but without lookup_ms - at `$.result`"
    return None


def _store(results: Sequence[Delivered], now: datetime) -> None:
    with connection.cursor() as cursor:
        for delivered in results:
            run: Any = delivered.result
            cursor.execute(
                STORE,
                {
                    "path_id": delivered.path_id,
                    "measured_at": run.started_at,
                    "test": delivered.test,
                    "outcome": run.outcome.value,
                    "lookup_ms": run.lookup_ms,
                    "detail": run.detail,
                },
            )


MESH_KIND = MeshKind(
    kind=KIND,
    entry=LookupEntry,
    table="lookup_result",
    result_bytes=lambda parameters: 100 + parameters["times"],
    task=_task,
)
BOUND = Bound("capacity", "by age", is_raw=True)
STORED_KIND = StoredKind(kind=KIND, contradiction=_contradiction, store=_store)
