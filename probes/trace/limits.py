"""Table [trace] of limits.toml: limits on packets of traces."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta

from probes.limit_keys import ALL_DAY, Hours, Number
from probes.toml.keys import meaning
from probes.trace.spec import TraceSpec


class TraceLimits(msgspec.Struct, frozen=True, kw_only=True):
    max_packets_per_s: Annotated[Number, meaning("total rate of a round of traces")] = 200.0
    # 15% of the packets that a path's pings send by default between two traces.
    max_packets: Annotated[
        int, Meta(ge=0), meaning("for a target and round; beyond it, each hop is probed only once")
    ] = 30
    min_router_spacing_s: Annotated[
        Number, meaning("minimum interval between packets that are to expire at the same router")
    ] = 1.0
    hours: Hours = ALL_DAY

    def forbids_traces(self) -> str | None:
        return None if self.max_packets_per_s > 0 else "trace.max_packets_per_s: 0 allowed"

    def within(self, spec: TraceSpec) -> TraceSpec:
        """The spec, slowed down to these limits."""
        packets = self.max_packets if spec.max_packets is None else min(spec.max_packets, self.max_packets)
        return msgspec.structs.replace(
            spec,
            max_packets_per_s=min(spec.max_packets_per_s, self.max_packets_per_s),
            max_packets=packets,
            router_spacing_s=max(spec.router_spacing_s, self.min_router_spacing_s),
        )
