"""Table [ping] of limits.toml: the rates of echo requests that a site permits."""

from __future__ import annotations

from typing import ClassVar

from probes.packets.limits import PacketLimits


class PingLimits(PacketLimits, frozen=True, kw_only=True):
    section: ClassVar[str] = "ping"
