"""Settings of a lab path or link in a direction, their bounds, and the lab's errors."""

from __future__ import annotations

import math
from typing import Annotated, Any

import msgspec

Ratio = Annotated[float, msgspec.Meta(ge=0.0, le=1.0)]
DelayMs = Annotated[float, msgspec.Meta(ge=0.0, le=60_000.0)]
RateMbps = Annotated[float, msgspec.Meta(ge=0.001, le=10_000.0)]
PolicerBytes = Annotated[int, msgspec.Meta(ge=1)]
CellBytes = Annotated[int, msgspec.Meta(ge=0, le=1500)]


class LabError(Exception):
    """A failed request to the lab; the message gives the reason and a fix."""


class ScenarioError(LabError):
    """A missing or invalid scenario; the message names the file and the reason."""


class PathSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Settings of a path in a single direction. Jitter keeps the order of packets."""

    delay_ms: DelayMs
    jitter_ms: DelayMs = 0.0
    loss_ratio: Ratio = 0.0
    rate_mbps: RateMbps | None = None  # None is unlimited
    queue_ms: DelayMs = 100.0  # at the rate, if `queue_bytes` is None
    queue_bytes: Annotated[int, msgspec.Meta(ge=1500)] | None = None  # of the bottleneck queue
    policer_mbps: RateMbps | None = None  # token rate, without a queue; None: no policer
    policer_bytes: PolicerBytes = 15_000  # depth of the bucket
    policer_cell_bytes: CellBytes = 0  # polices ATM-like cells, a dropped cell loses the packet; 0: packets
    reorder_ratio: Ratio = 0.0
    reorder_hold_ms: DelayMs = 10.0  # delay of a reordered packet
    duplicate_ratio: Ratio = 0.0

    @property
    def queue_limit_bytes(self) -> float:
        """Size of the bottleneck queue in bytes; infinite without a rate."""
        if self.rate_mbps is None:
            return math.inf
        if self.queue_bytes is not None:
            return self.queue_bytes
        return self.rate_mbps * 1e6 / 8 * self.queue_ms / 1e3


class OptionalSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Settings that a path or link table may set, replacing the defaults."""

    jitter_ms: DelayMs | None = None
    loss_ratio: Ratio | None = None
    rate_mbps: RateMbps | None = None
    queue_ms: DelayMs | None = None
    queue_bytes: Annotated[int, msgspec.Meta(ge=1500)] | None = None
    policer_mbps: RateMbps | None = None
    policer_bytes: PolicerBytes | None = None
    policer_cell_bytes: CellBytes | None = None
    reorder_ratio: Ratio | None = None
    reorder_hold_ms: DelayMs | None = None
    duplicate_ratio: Ratio | None = None


def explicit_settings(table: OptionalSettings) -> dict[str, Any]:
    names = OptionalSettings.__struct_fields__
    return {name: value for name in names if (value := getattr(table, name)) is not None}
