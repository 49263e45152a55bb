"""The fields of a ping measurement: what is asked (`PingSpec`) and what comes back (`Burst`)."""

from __future__ import annotations

from datetime import datetime
from typing import Literal

import msgspec

from probes.contract import Outcome


class PingTarget(msgspec.Struct, frozen=True, kw_only=True):
    """Whom to ping. `source` is the local address to send from; where it is not ours it is not bound."""

    address: str
    family: Literal[4, 6] = 4
    source: str | None = None
    path_id: int | None = None


class PingSpec(msgspec.Struct, frozen=True, kw_only=True):
    """One cycle: for each target and each size, `count` echo requests `spacing_s` apart.

    `packet_bytes` are sizes of ICMP payload. A reply later than `timeout_s` after its request is lost.
    """

    targets: tuple[PingTarget, ...]
    packet_bytes: tuple[int, ...] = (100, 1000)
    count: int = 10
    spacing_s: float = 1.0
    timeout_s: float = 2.0

    @property
    def duration_s(self) -> float:
        """Longest time a cycle can take, without the resolving of names."""
        return len(self.packet_bytes) * self.count * self.spacing_s + self.timeout_s


class Burst(msgspec.Struct, frozen=True, kw_only=True, tag="ping", tag_field="kind"):
    """One PingER measurement: `sent` echo requests of one size to one target.

    `rtts_ms` has one entry for each request sent, in the order of sending, None where no reply came in time;
    `sent` is its length, `received` the number of entries that are not None. When the outcome is not
    `measured`, nothing was sent, `rtts_ms` is empty and `detail` says why.
    """

    target: str
    address: str | None
    family: Literal[4, 6]
    packet_bytes: int
    started_at: datetime
    outcome: Outcome
    sent: int = 0
    received: int = 0
    duplicates: int = 0
    reordered: int = 0
    rtts_ms: tuple[float | None, ...] = ()
    ttl: int | None = None
    stamp: Literal["kernel", "user"] | None = None
    detail: str | None = None
