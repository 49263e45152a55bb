"""The fields of pings: their request (`PingSpec`) and their result (`Burst`), which other kinds have too."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from probes.bounds import (
    LARGEST_SMALLINT,
    MAX_ICMP_ERRORS,
    Count,
    IcmpFlow,
    Moment,
    Octet,
    PacketBytes,
    PositiveCount,
    PositiveSmallCount,
    RttMs,
    ShortText,
    SmallCount,
    Text,
)
from probes.contract import Outcome
from probes.packets.egress import PacketTarget

Pattern = Literal["burst", "even"]

# Random share of an even request's part; intervals stay above 0 (Baccelli et al., "The Role of PASTA in Network
# Measurement", SIGCOMM 2006).
# Requests are 2/3 to 4/3 of the interval apart: ten a minute never leave more than 8 s, against 12 s if fully random.
JITTER_RATIO = 1 / 3


class PingTarget(PacketTarget, frozen=True, kw_only=True):
    """A host to ping."""


class PingSpec(msgspec.Struct, frozen=True, kw_only=True):
    """A ping cycle: `count` echo requests per target and packet size, `spacing_s` apart.

    With the `pattern` "burst", as in PingER, each request follows the one before after `spacing_s`, size after size.
    With "even", the sizes take turns, and each request is sent at a random time near the beginning of its part of
    `spacing_s` (`probes.packets.engine.even`), so that repeated cycles have no pause between them. Even cycles neither
    prime nor check for rate limits: their own rate is low, and a check would disturb the cycle that follows. A burst
    leaves the key out, as before there were others.

    `packet_bytes` are sizes of ICMP payload. A reply later than `timeout_s` after its request counts as lost, and as
    late if it arrives within another `late_s`. As in PingER, an uncounted request of `priming_bytes` goes first, to
    fill ARP and flow caches along the path; None sends none. With `dont_fragment`, a request larger than the path MTU
    is refused or answered with an ICMP error, never fragmented. With `check_rate_limit`, a target with partial loss is
    sent more requests at a higher rate, to detect rate limiting, but never less than `min_spacing_s` apart.
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
    pattern: Pattern | msgspec.UnsetType = msgspec.UNSET

    @property
    def is_even(self) -> bool:
        return self.pattern == "even"

    @property
    def requests(self) -> int:
        """Echo requests per target, including priming."""
        return len(self.packet_bytes) * self.count + (self.priming_bytes is not None and not self.is_even)

    @property
    def duration_s(self) -> float:
        """Maximum duration, excluding name resolution and rate-limit check."""
        jitter_s = JITTER_RATIO * self.spacing_s if self.is_even else 0.0
        return self.requests * self.spacing_s + jitter_s + self.timeout_s + self.late_s


OTHER_ADDRESS = "reply_from_another_address"
ALTERED = "altered_reply"
# The replies that do not count, though they carry the secret of a request, and why.
UNCOUNTED = {
    OTHER_ADDRESS: "a reply counts only from the address that was asked",
    ALTERED: "a reply counts only with the length and sequence of its request",
}


class IcmpError(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """An ICMP error that a router or the target sent about `count` requests of a burst, all of them lost."""

    name: Text  # standard term for type and code, or a key of `UNCOUNTED`
    icmp_type: Octet
    icmp_code: Octet
    router: ShortText
    count: PositiveSmallCount
    mtu_bytes: Count | None = None  # next-hop MTU if the error carries it

    @property
    def text(self) -> str:
        """Format the error for people."""
        if self.name in UNCOUNTED:
            came = (
                f"1 reply from {self.router} does" if self.count == 1 else f"{self.count} replies from {self.router} do"
            )
            return f"{came} not count: {UNCOUNTED[self.name]}"
        return f"{self.count} × {self.name} from {self.router}"


Stamp = Literal["hardware", "kernel", "user"]


class Burst(msgspec.Struct, frozen=True, kw_only=True, gc=False, tag="ping", tag_field="kind"):
    """A PingER measurement: `sent` echo requests of the same size to the same target.

    `rtts_ms` has an entry for each request sent, in the order of sending, None if no reply came in time;
    `sent` is its length, `received` the number of entries that are not None. When the outcome is not
    `measured`, nothing was sent, `rtts_ms` is empty and `detail` gives the reason.

    `late` counts lost requests with a reply after the timeout. `ttl` is the remaining TTL of the first reply in time,
    `ttl_changes` the number of later replies whose TTL differs from the reply before. `stamp` is the least accurate
    source of timestamps among the RTTs; `stamps_lost` counts RTTs that had to use the program's clock because a kernel
    timestamp was missing. `clock_source` is the kernel's clock source. `waited` counts requests delayed by a full send
    buffer. `path_mtu_bytes` is set if a request exceeded the path MTU. `rate_limited`: whether loss grows with our own
    rate; None if not checked or undetermined. `flow` is that of all its requests (`probes.packets.flow`), as in the
    traces of the path; agents of earlier versions do not report it. `source_address` is the local address of the
    requests.

    `loaded_rtts_ms` are the requests sent while a throughput test of ours ran from or to this host. They are left out
    of all other fields, so that `sent` counts the others; None if there are none. If all requests of the burst were
    sent so, `loaded_rtts_ms` is empty, the other fields are theirs, and the burst is delivered with `during_test`, as
    by agents that do not tell packets apart.
    """

    target: str
    address: ShortText | None
    family: Literal[4, 6]
    packet_bytes: PacketBytes
    started_at: Moment
    outcome: Outcome
    sent: SmallCount = 0
    received: SmallCount = 0
    late: SmallCount = 0
    duplicates: SmallCount = 0
    reordered: SmallCount = 0
    rtts_ms: Annotated[tuple[RttMs | None, ...], Meta(max_length=LARGEST_SMALLINT)] = ()
    ttl: Octet | None = None
    ttl_changes: SmallCount = 0
    stamp: Stamp | None = None
    stamps_lost: SmallCount = 0
    clock_source: ShortText | None = None
    waited: SmallCount = 0
    errors: Annotated[tuple[IcmpError, ...], Meta(max_length=MAX_ICMP_ERRORS)] = ()
    path_mtu_bytes: PositiveCount | None = None
    rate_limited: bool | None = None
    flow: IcmpFlow | None = None
    source_address: ShortText | None = None
    loaded_rtts_ms: Annotated[tuple[RttMs | None, ...], Meta(max_length=LARGEST_SMALLINT)] | None = None
    detail: Text | None = None

    @property
    def is_under_load(self) -> bool:
        """Whether all were sent during our throughput test."""
        return self.loaded_rtts_ms == ()
