"""The fields of a tcp-ping measurement: its request (`TcpPingSpec`). Its results are `probes.packets.spec.Burst`s."""

from __future__ import annotations

import msgspec

from probes.packets.egress import PacketTarget
from probes.packets.spec import JITTER_RATIO, Pattern

# The default series: a SYN has no payload, so results take the size of the pings shown beside them.
SERIES_BYTES = 100
# A SYN is sent again after 1 s (RFC 6298, section 2), and a reply after that could be to either.
LONGEST_TIMEOUT_S = 0.9


class TcpPingTarget(PacketTarget, frozen=True, kw_only=True):
    """A host to connect to."""


class TcpPingSpec(msgspec.Struct, frozen=True, kw_only=True):
    """A tcp-ping cycle: `count` handshakes with each target, `spacing_s` apart. SYN/ACK and RST are both replies."""

    targets: tuple[TcpPingTarget, ...]
    port: int
    count: int = 10
    spacing_s: float = 1.0
    timeout_s: float = LONGEST_TIMEOUT_S  # a handshake without a reply by then is lost
    packet_bytes: tuple[int, ...] = (SERIES_BYTES,)  # series in which the results are stored
    pattern: Pattern | msgspec.UnsetType = msgspec.UNSET  # as in `probes.packets.spec.PingSpec`

    @property
    def is_even(self) -> bool:
        return self.pattern == "even"

    @property
    def duration_s(self) -> float:
        """Maximum duration, excluding name resolution."""
        jitter_s = JITTER_RATIO * self.spacing_s if self.is_even else 0.0
        return self.count * self.spacing_s + jitter_s + self.timeout_s


class TcpPingTask(msgspec.Struct, frozen=True, kw_only=True):
    """A tcp-ping test that a site repeats every `every_s` seconds, aligned to the epoch."""

    test: str
    every_s: int
    spec: TcpPingSpec


def measured_by(port: int) -> str:
    """Describe the measurement by its port."""
    return f"TCP handshake to port {port}"
