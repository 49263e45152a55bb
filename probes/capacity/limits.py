"""Table [capacity] of limits.toml: limits on the packets of capacity tests."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta

from probes.limit_keys import ALL_DAY, Hours
from probes.toml.keys import meaning


class CapacityLimits(msgspec.Struct, frozen=True, kw_only=True):
    max_packets_per_hour: Annotated[int, Meta(ge=0), meaning("to the same address; a measurement takes 184")] = 1500
    hours: Hours = ALL_DAY

    def forbids_trains(self, address: str, packets: int, sent_within_hour: int) -> str | None:
        """Return the rule that forbids `packets` more packets to `address`, or None."""
        allowed = self.max_packets_per_hour
        if sent_within_hour + packets <= allowed:
            return None
        return (
            f"capacity.max_packets_per_hour: {packets} to {address} after {sent_within_hour} within an hour, "
            f"{allowed} allowed"
        )
