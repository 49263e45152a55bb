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
    """A ping cycle: `count` echo requests per target and packet size, `spacing_s` apart."""

    targets: tuple[PingTarget, ...]
    packet_bytes: tuple[int, ...] = (100, 1000)  # of ICMP payload
    count: int = 10
    spacing_s: float = 1.0
    timeout_s: float = 2.0  # later replies count as lost
    late_s: float = 1.0  # and as late within this time after it
    priming_bytes: int | None = 56  # size of a first, uncounted request, which fills ARP and flow caches; None: none
    dont_fragment: bool = False  # requests above the path MTU are refused, or answered with an ICMP error
    check_rate_limit: bool = True  # send a target with partial loss more requests, faster
    min_spacing_s: float = 0.02  # of this check
    # "even": the sizes take turns, at random times, without pause between cycles, priming or check
    # (`probes.packets.engine.even`). Left out for "burst": size after size, as in PingER.
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
        if self.name in UNCOUNTED:
            came = (
                f"1 reply from {self.router} does" if self.count == 1 else f"{self.count} replies from {self.router} do"
            )
            return f"{came} not count: {UNCOUNTED[self.name]}"
        return f"{self.count} × {self.name} from {self.router}"


Stamp = Literal["hardware", "kernel", "user"]


class Burst(msgspec.Struct, frozen=True, kw_only=True, gc=False, tag="ping", tag_field="kind"):
    """A PingER measurement: `sent` echo requests of the same size to the same target.

    Requests sent under load, `loaded_rtts_ms`, are left out of all other fields. If all were, the other fields are
    theirs, and the burst is delivered with `during_test`.
    """

    target: str
    address: ShortText | None
    family: Literal[4, 6]
    packet_bytes: PacketBytes
    started_at: Moment
    outcome: Outcome
    sent: SmallCount = 0  # length of `rtts_ms`; 0 unless the outcome is `measured`
    received: SmallCount = 0  # entries of `rtts_ms` that are not None
    late: SmallCount = 0  # lost requests with a reply after the timeout
    duplicates: SmallCount = 0
    reordered: SmallCount = 0
    # In the order of sending; None where no reply came in time.
    rtts_ms: Annotated[tuple[RttMs | None, ...], Meta(max_length=LARGEST_SMALLINT)] = ()
    ttl: Octet | None = None  # remaining TTL of the first reply in time
    ttl_changes: SmallCount = 0  # later replies with another TTL than the reply before
    stamp: Stamp | None = None  # least accurate source of timestamps among the RTTs
    stamps_lost: SmallCount = 0  # RTTs by the program's clock for lack of a kernel timestamp
    clock_source: ShortText | None = None  # the kernel's
    waited: SmallCount = 0  # requests delayed by a full send buffer
    errors: Annotated[tuple[IcmpError, ...], Meta(max_length=MAX_ICMP_ERRORS)] = ()
    path_mtu_bytes: PositiveCount | None = None  # set if a request exceeded it
    rate_limited: bool | None = None  # whether loss grows with our rate; None if not checked or undetermined
    # of all requests, as in the path's traces (`probes.packets.flow`); earlier agents report none
    flow: IcmpFlow | None = None
    source_address: ShortText | None = None  # of the requests
    # Requests sent while a throughput test of ours ran from or to this host; None if there are none, empty if all were.
    loaded_rtts_ms: Annotated[tuple[RttMs | None, ...], Meta(max_length=LARGEST_SMALLINT)] | None = None
    detail: Text | None = None  # the reason if not `measured`

    @property
    def is_under_load(self) -> bool:
        """Whether all were sent during our throughput test."""
        return self.loaded_rtts_ms == ()
