"""Settings of a path or link of the lab in a single direction, their bounds, and the lab's errors."""

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
    """Settings of a path in a single direction.

    `rate_mbps` None is unlimited. The bottleneck queue holds `queue_bytes` or, if None, `queue_ms` at the rate. Jitter
    keeps the order of packets. A reordered packet is delayed by `reorder_hold_ms`.

    The policer is a token bucket without a queue: `policer_bytes` deep, filled at `policer_mbps` (None: no policer).
    With `policer_cell_bytes` it polices cells of that size, as on ATM: a dropped cell loses the packet, although its
    other cells take tokens. 0 polices whole packets.
    """

    delay_ms: DelayMs
    jitter_ms: DelayMs = 0.0
    loss_ratio: Ratio = 0.0
    rate_mbps: RateMbps | None = None
    queue_ms: DelayMs = 100.0
    queue_bytes: Annotated[int, msgspec.Meta(ge=1500)] | None = None
    policer_mbps: RateMbps | None = None
    policer_bytes: PolicerBytes = 15_000
    policer_cell_bytes: CellBytes = 0
    reorder_ratio: Ratio = 0.0
    reorder_hold_ms: DelayMs = 10.0
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
    """Settings of a path or link as a table may set them: those that it sets replace the defaults."""

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
    """The settings that a table sets explicitly."""
    names = OptionalSettings.__struct_fields__
    return {name: value for name in names if (value := getattr(table, name)) is not None}
