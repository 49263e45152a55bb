"""Table [stamp] of limits.toml: limits on packets as sender and as reflector."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import msgspec
from msgspec import Meta

from probes.limit_keys import ALL_DAY, FLOAT_SLACK, Hours, NetworkList, Number
from probes.stamp.spec import StampSpec
from probes.toml.keys import meaning


class StampLimits(msgspec.Struct, frozen=True, kw_only=True):
    min_spacing_s: Annotated[Number, meaning("minimum interval between packets to the same address")] = 0.1
    max_packets_per_s: Annotated[Number, meaning("total rate of this agent's STAMP tests")] = 5000.0
    reflect: Annotated[bool, meaning("answer the packets of the plan's peers")] = True
    peers: Annotated[NetworkList, meaning("networks answered besides the plan's peers, without a key")] = ()
    max_replies_per_peer_per_s: Annotated[Number, meaning("replies to an address")] = 1000.0
    max_replies_per_s: Annotated[Number, meaning("replies in total")] = 20000.0
    max_sessions: Annotated[int, Meta(ge=1, le=1_000_000), meaning("counters kept; the oldest are forgotten")] = 10_000
    hours: Hours = ALL_DAY

    def forbids_targets(self, spec: StampSpec, addresses: Sequence[str], running_per_s: float) -> list[str | None]:
        """The rule against each address, or None, beside `running_per_s`."""
        per_target = 1 / spec.spacing_s
        if spec.spacing_s < self.min_spacing_s - FLOAT_SLACK:
            rule = (
                f"stamp.min_spacing_s: {spec.spacing_s:g} s between packets planned, {self.min_spacing_s:g} s allowed"
            )
            return [rule] * len(addresses)
        verdicts: list[str | None] = []
        rate = running_per_s
        for _ in addresses:
            if rate + per_target > self.max_packets_per_s + FLOAT_SLACK:
                wanted = f"{rate + per_target:g} needed, {self.max_packets_per_s:g} allowed"
                verdicts.append(f"stamp.max_packets_per_s: {wanted}")
                continue
            rate += per_target
            verdicts.append(None)
        return verdicts
