"""Table [tcp_ping] of limits.toml: limits on TCP handshakes."""

from __future__ import annotations

from typing import Annotated, ClassVar

from msgspec import Meta

from probes.limit_keys import Number
from probes.packets.limits import PacketLimits
from probes.toml.keys import NOT_EMPTY, meaning


class TcpPingLimits(PacketLimits, frozen=True, kw_only=True):
    section: ClassVar[str] = "tcp_ping"

    min_spacing_s: Annotated[Number, meaning("minimum interval between handshakes with the same address")] = 0.5
    max_packets_per_s: Annotated[Number, meaning("total rate of this agent")] = 500.0
    ports: Annotated[
        Annotated[tuple[Annotated[int, Meta(ge=1, le=65_535)], ...], NOT_EMPTY] | None,
        meaning("ports that may be connected to; default: all"),
    ] = None

    def forbids_port(self, port: int) -> str | None:
        if self.ports is None or port in self.ports:
            return None
        return f"tcp_ping.ports: {port} is not among {', '.join(map(str, self.ports))}"
