"""Request-response tests in mesh.toml and plans, for client and server."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any

from msgspec import Meta

from monitor.mesh.document.entries import TestKeys, TestName
from monitor.mesh.kinds.kind import (
    DAY_S,
    Length,
    ListeningPort,
    MeshKind,
    PacketDscp,
    answered_peers,
    keys_of_spec,
    leaving,
    pair_key,
    task_maker,
)
from probes.request_response.kind import KIND as REQUEST_RESPONSE
from probes.request_response.spec import (
    BEYOND_COUNT,
    LARGEST_BLOCK_BYTES,
    LARGEST_RUN_BYTES,
    MOST_TRANSACTIONS,
    REQUEST_RESPONSE_PORT,
    AnsweringPlan,
    RequestResponseSpec,
    RequestResponseTask,
)
from probes.toml.keys import meaning
from probes.toml.tables import Table

if TYPE_CHECKING:
    from monitor.mesh.plan_rows import PlannedMeasurement

ROW_BYTES = 350
LATENCY_BYTES = 4

_BlockBytes = Meta(ge=1, le=LARGEST_BLOCK_BYTES)


class RequestResponseEntry(TestKeys, frozen=True, tag="request-response"):
    """Latency and rate of blocks sent and answered, one at a time, as a storage link does.

    Sites without an agent answer by `python -m probes request-response --serve`.
    """

    name: TestName
    every_s: Annotated[int, Meta(ge=60, le=DAY_S), meaning("Period: each path is measured once in each period.")] = 300
    request_bytes: Annotated[int, _BlockBytes, meaning("Size of a request.")] = 100
    response_bytes: Annotated[int, _BlockBytes, meaning("Size of the response to each.")] = 65_536
    count: Annotated[
        int,
        Meta(ge=1, le=MOST_TRANSACTIONS),
        meaning(f"Transactions in a run; {BEYOND_COUNT} more are not counted. At most 16 MiB in a run."),
    ] = 100
    duration_s: Annotated[float, Meta(ge=0.1, le=60), meaning("Time after which a run ends with fewer.")] = 10.0
    idle_s: Annotated[
        float, Meta(ge=0, le=60), meaning("Pause before the transaction that shows slow start after idle; 0: none.")
    ] = 1.0
    timeout_s: Annotated[float, Meta(ge=0.1, le=60), meaning("A later response is an error.")] = 5.0
    port: Annotated[
        int, Meta(ge=1, le=65_535), meaning("TCP port of the servers; a single one for that of each agent.")
    ] = REQUEST_RESPONSE_PORT
    dscp: PacketDscp = 0

    @property
    def parameters(self) -> dict[str, object]:
        return keys_of_spec(self, RequestResponseSpec)


def _check_table(table: Table) -> None:
    sizes = {"request_bytes": 100, "response_bytes": 65_536, "count": 100}
    values = {name: table.values.get(name, default) for name, default in sizes.items()}
    if not all(isinstance(value, int) for value in values.values()):
        return
    block = values["request_bytes"] + values["response_bytes"]
    if block > 0 and block * (values["count"] + BEYOND_COUNT) > LARGEST_RUN_BYTES:
        most = max(LARGEST_RUN_BYTES // block - BEYOND_COUNT, 0)
        table.problem(
            f"count = {values['count']}: a run of {block * (values['count'] + BEYOND_COUNT)} bytes would need a slot, "
            f'at most {LARGEST_RUN_BYTES} go without; write count = {most} or less, or use kind = "throughput"',
            "count" if "count" in table.values else "name",
        )


def answering_plan(measurements: Sequence[PlannedMeasurement]) -> AnsweringPlan | None:
    """Server of a site with an agent, for all such measurements towards it, or None."""
    if not measurements:
        return None
    port = int(measurements[0].test.parameters["port"])
    return AnsweringPlan(peers=answered_peers(measurements, REQUEST_RESPONSE.name), port=port)


def _length(test: RequestResponseEntry) -> Length:
    seconds = test.duration_s + test.idle_s
    return Length(seconds, f"{test.duration_s:g} s + {test.idle_s:g} s idle")


def _result_bytes(parameters: Mapping[str, Any]) -> int:
    return ROW_BYTES + LATENCY_BYTES * int(parameters["count"])


def _target(row: PlannedMeasurement) -> dict[str, object]:
    return {**leaving(row), "key": pair_key(row.path, REQUEST_RESPONSE.name)}


KIND = MeshKind(
    kind=REQUEST_RESPONSE,
    entry=RequestResponseEntry,
    check_table=_check_table,
    table="request_response",
    result_bytes=_result_bytes,
    length=_length,
    turn_s=12,
    servers=lambda test, source, destination: (ListeningPort(destination, "TCP", test.port),),
    server_name="request-response server",
    task=task_maker(RequestResponseTask, RequestResponseSpec, _target),
)
