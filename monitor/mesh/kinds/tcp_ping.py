"""TCP handshake tests in mesh.toml and plans."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from monitor.mesh.document.entries import TestKeys, TestName
from monitor.mesh.kinds.kind import CyclePeriodS, Length, MeshKind, PacketDscp, task_maker
from monitor.mesh.kinds.ping import BURST_BYTES, RTT_BYTES, CyclePattern, check_even
from probes.tcp_ping.kind import KIND as TCP_PING
from probes.tcp_ping.spec import LONGEST_TIMEOUT_S, TcpPingSpec, TcpPingTask, measured_by
from probes.toml.keys import meaning

MIN_SPACING_S = 0.1


class TcpPingEntry(TestKeys, frozen=True, tag="tcp-ping"):
    """Bursts of TCP handshakes, from the source in cycles, in place of pings where ICMP is filtered."""

    name: TestName
    every_s: CyclePeriodS
    port: Annotated[
        int,
        Meta(ge=1, le=65_535),
        meaning("TCP port of the destination. Closed ports answer as well, by a RST.", "443 (a TCP port)"),
    ]
    count: Annotated[int, Meta(ge=1, le=1000), meaning("Handshakes per cycle.")] = 10
    pattern: CyclePattern = "burst"
    spacing_s: Annotated[
        float,
        Meta(ge=MIN_SPACING_S, le=60),
        meaning('Interval between handshakes with the same address. With pattern = "even" it follows from the period.'),
    ] = 1.0
    timeout_s: Annotated[
        float,
        Meta(ge=0.1, le=LONGEST_TIMEOUT_S),
        meaning("Time after which a handshake without a reply is lost; the SYN would be sent again after 1 s."),
    ] = LONGEST_TIMEOUT_S
    dscp: PacketDscp = 0
    shown_with_bytes: Annotated[
        int,
        Meta(ge=16, le=65_000),
        meaning("Packet size of the pings with which the results are shown in one grid. A SYN carries no data."),
    ] = 100

    @property
    def packet_bytes(self) -> tuple[int, ...]:
        return (self.shown_with_bytes,)

    @property
    def parameters(self) -> dict[str, object]:
        return {
            "port": self.port,
            "count": self.count,
            "spacing_s": self.every_s / self.count if self.pattern == "even" else self.spacing_s,
            "timeout_s": self.timeout_s,
            "packet_bytes": list(self.packet_bytes),
            **({"pattern": self.pattern} if self.pattern == "even" else {}),
            **({"dscp": self.dscp} if self.dscp else {}),
        }


def _length(test: TcpPingEntry) -> Length:
    spec = msgspec.convert({**test.parameters, "targets": []}, TcpPingSpec)
    if spec.is_even:
        return Length(round(spec.count * MIN_SPACING_S, 6), f"{spec.count} × at least {MIN_SPACING_S:g} s between them")
    reason = f"{spec.count} handshakes × {spec.spacing_s:g} s + {spec.timeout_s:g} s timeout"
    return Length(round(spec.duration_s, 6), reason)


def _result_bytes(parameters: Mapping[str, Any]) -> int:
    return BURST_BYTES + RTT_BYTES * int(parameters["count"])


KIND = MeshKind(
    kind=TCP_PING,
    entry=TcpPingEntry,
    check_table=lambda table: check_even(table, ("spacing_s",)),
    table="burst",
    result_bytes=_result_bytes,
    length=_length,
    identified_by_size=True,
    task=task_maker(TcpPingTask, TcpPingSpec),
    measured_by=lambda parameters: measured_by(int(parameters["port"])),
)
