"""Traces in mesh.toml and plans."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any, Literal

import msgspec
from msgspec import Meta

from monitor.mesh.document.entries import TestKeys, TestName
from monitor.mesh.kinds.kind import DAY_S, Length, MeshKind, ends, keys_of_spec
from probes.toml.keys import meaning
from probes.trace.kind import KIND as TRACE
from probes.trace.spec import MOST_ATTEMPTS, MOST_HOPS, TraceSpec, TraceTask

if TYPE_CHECKING:
    from monitor.mesh.plan_rows import PlannedMeasurement

# Row of a trace without its hops, indexes included.
ROW_BYTES = 260
USUAL_HOPS = 15
RTT_BYTES = 4
MOST_FLOWS = 32


class TraceEntry(TestKeys, frozen=True, tag="trace"):
    """Routes, from packets whose TTL expires on the way; the source traces all its paths together."""

    name: TestName
    every_s: Annotated[
        int, Meta(ge=60, le=DAY_S), meaning("Interval between traces. They start at multiples of it in UTC.")
    ] = 600
    protocol: Annotated[
        Literal["icmp", "udp"], meaning("Protocol of the packets; ICMP echo requests take the route of the pings.")
    ] = "icmp"
    max_hops: Annotated[int, Meta(ge=1, le=MOST_HOPS), meaning("Highest TTL.")] = 30
    attempts: Annotated[int, Meta(ge=1, le=MOST_ATTEMPTS), meaning("Packets for each hop.")] = 3
    timeout_s: Annotated[float, Meta(ge=0.1, le=60), meaning("Time after which a packet without a reply is lost.")] = (
        2.0
    )
    router_spacing_s: Annotated[
        float, Meta(ge=0.1, le=60), meaning("Minimum interval between packets that are to expire at the same router.")
    ] = 1.0
    flows: Annotated[
        int,
        Meta(ge=1, le=MOST_FLOWS),
        meaning("Number of flows for each path, to find the routers among which load is balanced."),
    ] = 1

    @property
    def parameters(self) -> dict[str, object]:
        return keys_of_spec(self, TraceSpec)


def _length(test: TraceEntry) -> Length:
    seconds = test.flows * test.attempts * test.router_spacing_s + test.timeout_s
    flows = "" if test.flows == 1 else f"{test.flows} flows × "
    reason = f"{flows}{test.attempts} packets to a router × {test.router_spacing_s:g} s + {test.timeout_s:g} s timeout"
    return Length(round(seconds, 6), reason)


def _result_bytes(parameters: Mapping[str, Any]) -> int:
    hops = min(USUAL_HOPS, int(parameters["max_hops"]))
    return ROW_BYTES + hops * RTT_BYTES * int(parameters["attempts"]) * int(parameters["flows"])


def _task(name: str, measurements: Sequence[PlannedMeasurement]) -> TraceTask:
    test = measurements[0].test
    targets = [{**ends(row), "path_id": row.path_id} for row in measurements]
    spec = msgspec.convert({**test.parameters, "targets": targets}, TraceSpec)
    return TraceTask(test=name, every_s=test.every_s, spec=spec)


KIND = MeshKind(kind=TRACE, entry=TraceEntry, table="trace", result_bytes=_result_bytes, length=_length, task=_task)
