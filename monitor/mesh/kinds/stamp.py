"""STAMP tests in mesh.toml and plans, for sender and reflector."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any

import msgspec
from msgspec import Meta

from monitor.mesh.document.entries import TestKeys, TestName
from monitor.mesh.kinds.kind import (
    CyclePeriodS,
    Length,
    ListeningPort,
    MeshKind,
    PacketDscp,
    answered_peers,
    egress_of,
    ends,
    keys_of_spec,
    pair_key,
    task_maker,
)
from monitor.mesh.kinds.ping import BURST_BYTES, RTT_BYTES
from probes.stamp.kind import KIND as STAMP
from probes.stamp.spec import (
    LARGEST_PACKET_BYTES,
    SMALLEST_PACKET_BYTES,
    STAMP_PORT,
    ReflectorPlan,
    StampSpec,
    StampTask,
)
from probes.toml.keys import meaning

if TYPE_CHECKING:
    from monitor.mesh.plan_rows import PlannedMeasurement

# Row of the figures of both directions, indexes included.
ROW_BYTES = 420


class StampEntry(TestKeys, frozen=True, tag="stamp"):
    """Loss and delay of each direction, by UDP packets to a reflector that numbers its replies (STAMP, RFC 8762).

    Agents authenticate their packets; without an agent, the reflector is TWAMP Light or STAMP. On a path without pings,
    its RTT and loss count.
    """

    name: TestName
    every_s: CyclePeriodS
    count: Annotated[int, Meta(ge=1, le=1000), meaning("Packets per cycle.")] = 10
    packet_bytes: Annotated[
        int,
        Meta(ge=SMALLEST_PACKET_BYTES, le=LARGEST_PACKET_BYTES),
        meaning("UDP payload. Packets between agents are larger where authentication needs it."),
    ] = 200
    spacing_s: Annotated[float, Meta(ge=0.01, le=60), meaning("Interval between packets to the same address.")] = 1.0
    timeout_s: Annotated[float, Meta(ge=0.1, le=60), meaning("Time after which a packet without a reply is lost.")] = (
        2.0
    )
    port: Annotated[
        int, Meta(ge=1, le=65_535), meaning("UDP port of the reflectors; a single one for those of each agent.")
    ] = STAMP_PORT
    dscp: PacketDscp = 0

    @property
    def parameters(self) -> dict[str, object]:
        return {**keys_of_spec(self, StampSpec), "port": self.port}


def reflector_plan(measurements: Sequence[PlannedMeasurement]) -> ReflectorPlan | None:
    """Reflector of a site with an agent, for all STAMP measurements towards it, or None."""
    if not measurements:
        return None
    port = int(measurements[0].test.parameters["port"])
    return ReflectorPlan(peers=answered_peers(measurements, STAMP.name), port=port)


def _length(test: StampEntry) -> Length:
    fields = {name: value for name, value in test.parameters.items() if name != "port"}
    spec = msgspec.convert({**fields, "targets": []}, StampSpec)
    reason = f"{spec.count} × {spec.spacing_s:g} s + {spec.timeout_s:g} s timeout + {spec.late_s:g} s for late replies"
    return Length(round(spec.duration_s, 6), reason)


def _result_bytes(parameters: Mapping[str, Any]) -> int:
    return ROW_BYTES + BURST_BYTES + RTT_BYTES * int(parameters["count"])


def _target(row: PlannedMeasurement) -> dict[str, object]:
    return {
        **ends(row),
        **egress_of(row.path.source),
        "port": row.test.parameters["port"],
        "key": pair_key(row.path, STAMP.name),
        "is_path_series": not row.is_beside_pings,
    }


KIND = MeshKind(
    kind=STAMP,
    entry=StampEntry,
    table="direction_burst",
    result_bytes=_result_bytes,
    length=_length,
    identified_by_size=True,
    stands_in_for_pings=True,
    servers=lambda test, source, destination: (ListeningPort(destination, "UDP", test.port),),
    server_name="reflector",
    measured_by=lambda parameters: "STAMP",
    task=task_maker(StampTask, StampSpec, _target),
)
