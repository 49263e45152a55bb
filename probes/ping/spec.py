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

    `packet_bytes` are sizes of ICMP payload. A reply later than `timeout_s` after its request is lost; it is counted
    as late if it comes within `late_s` more. Before anything is counted, one request of `priming_bytes` wakes what
    sleeps on the path (ARP, flow set-up), as PingER did; None sends none. With `dont_fragment` a request that does not
    fit the path is refused or comes back as an ICMP error, and is never cut. `check_rate_limit`: a target that lost
    some requests, but not all, is sent more at a higher rate, to learn whether the loss is our own rate's; even then
    no two requests to it are nearer together than `min_spacing_s`.
    """

    targets: tuple[PingTarget, ...]
    packet_bytes: tuple[int, ...] = (100, 1000)
    count: int = 10
    spacing_s: float = 1.0
    timeout_s: float = 2.0
    late_s: float = 1.0
    priming_bytes: int | None = 56
    dont_fragment: bool = False
    check_rate_limit: bool = True
    min_spacing_s: float = 0.02

    @property
    def requests(self) -> int:
        """Echo requests to one target, the priming one included."""
        return len(self.packet_bytes) * self.count + (self.priming_bytes is not None)

    @property
    def duration_s(self) -> float:
        """Longest time a cycle can take, without the resolving of names and the check of a rate limit."""
        return self.requests * self.spacing_s + self.timeout_s + self.late_s


class IcmpError(msgspec.Struct, frozen=True, kw_only=True):
    """What a router, or the target itself, said of `count` requests of a burst: each of those is lost.

    `name` is the field's word for type and code, as in `administratively_prohibited`. `mtu_bytes` is what the next
    link carries, where the error says so.
    """

    name: str
    icmp_type: int
    icmp_code: int
    router: str
    count: int
    mtu_bytes: int | None = None


Stamp = Literal["hardware", "kernel", "user"]


class Burst(msgspec.Struct, frozen=True, kw_only=True, tag="ping", tag_field="kind"):
    """One PingER measurement: `sent` echo requests of one size to one target.

    `rtts_ms` has one entry for each request sent, in the order of sending, None where no reply came in time;
    `sent` is its length, `received` the number of entries that are not None. When the outcome is not
    `measured`, nothing was sent, `rtts_ms` is empty and `detail` says why.

    `late` of the lost were answered after the timeout. `ttl` is what the first reply in time had left, `ttl_changes`
    how many of the others differ from the one before. `stamp` is the poorest stamp that any round trip rests on,
    `stamps_lost` how many rest on the program's own clock though the kernel was asked for its stamps. `clock_source`
    is what the kernel keeps time by. `waited` requests found the send buffer full and went out later than planned.
    `path_mtu_bytes` is known where a request did not fit. `rate_limited`: whether the loss grows with our own rate;
    None where that was not asked or cannot be told.
    """

    target: str
    address: str | None
    family: Literal[4, 6]
    packet_bytes: int
    started_at: datetime
    outcome: Outcome
    sent: int = 0
    received: int = 0
    late: int = 0
    duplicates: int = 0
    reordered: int = 0
    rtts_ms: tuple[float | None, ...] = ()
    ttl: int | None = None
    ttl_changes: int = 0
    stamp: Stamp | None = None
    stamps_lost: int = 0
    clock_source: str | None = None
    waited: int = 0
    errors: tuple[IcmpError, ...] = ()
    path_mtu_bytes: int | None = None
    rate_limited: bool | None = None
    detail: str | None = None
