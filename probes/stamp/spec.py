"""Messages of a STAMP measurement (RFC 8762, RFC 8972).

A stateful reflector's numbers distinguish forward from reverse loss without clocks.
"""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from probes.bounds import (
    LARGEST_SMALLINT,
    Amount,
    Count,
    Moment,
    PacketBytes,
    Real,
    RttMs,
    ShortText,
    SmallCount,
    Text,
)
from probes.contract import Outcome
from probes.packets.answered_peers import AnsweredPeer
from probes.packets.egress import PacketTarget
from probes.packets.spec import JITTER_RATIO, Burst, Pattern, Stamp
from probes.peers import SharedKey

# RFC 8762, section 4.1.
STAMP_PORT = 862
# An unauthenticated packet without extensions (RFC 8762, section 4.2.1).
SMALLEST_PACKET_BYTES = 44
# Of jumbo frames.
LARGEST_PACKET_BYTES = 9000

Port = Annotated[int, Meta(ge=1, le=65_535)]
Dscp = Annotated[int, Meta(ge=0, le=63)]
HopLimit = Annotated[int, Meta(ge=0, le=255)]


class StampTarget(PacketTarget, frozen=True, kw_only=True):
    """A reflector."""

    port: Port = STAMP_PORT
    key: SharedKey | None = None  # packets are authenticated both ways; without, open
    is_path_series: bool = False  # the path has no ping test, so round trips are its series


class StampSpec(msgspec.Struct, frozen=True, kw_only=True):
    """A STAMP cycle: `count` packets per target, `spacing_s` apart.

    Uncounted closing packets follow, which tell when the last reply left and, if the last packet went unanswered, the
    reflector's counter.
    """

    targets: tuple[StampTarget, ...]
    packet_bytes: int = 200  # of UDP payload; more where a key needs it
    count: int = 10
    spacing_s: float = 1.0
    timeout_s: float = 2.0  # later replies count as lost
    late_s: float = 1.0  # and as late within this time after it
    dscp: int = 0  # of the packets, and of replies where the reflector follows it
    pattern: Pattern | msgspec.UnsetType = msgspec.UNSET  # as in `probes.packets.spec.PingSpec`

    @property
    def is_even(self) -> bool:
        return self.pattern == "even"

    @property
    def duration_s(self) -> float:
        """Maximum duration, excluding name resolution and uncounted packets."""
        jitter_s = JITTER_RATIO * self.spacing_s if self.is_even else 0.0
        return self.count * self.spacing_s + jitter_s + self.timeout_s + self.late_s


class StampTask(msgspec.Struct, frozen=True, kw_only=True):
    """A STAMP test that a site repeats every `every_s` seconds, aligned to the epoch."""

    test: str
    every_s: int
    spec: StampSpec


class ReflectorPlan(msgspec.Struct, frozen=True, kw_only=True):
    """The reflector of a site, which its agent runs as long as its plan has peers: UDP `port` of all its addresses."""

    peers: tuple[AnsweredPeer, ...]
    port: Port = STAMP_PORT


class StampDirection(msgspec.Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    """A direction of a burst: forward from us to the reflector, or reverse.

    Delays of packets answered in time contain the clock offset, may be negative, and are None without the reflector's
    timestamps. `p95_ms - min_ms` is PDV (RFC 5481).
    """

    lost: SmallCount | None = None  # packets not arrived, or replies not returned; None without counter
    duplicates: SmallCount | None = None  # at the end of this direction, as is `reordered` (RFC 4737)
    reordered: SmallCount | None = None
    ttl: HopLimit | None = None  # of the first packet at the end of this direction, as `dscp`
    dscp: Dscp | None = None
    min_ms: Real | None = None
    median_ms: Real | None = None
    p95_ms: Real | None = None
    max_ms: Real | None = None
    ipdv_ms: Amount | None = None  # mean absolute difference of consecutive packets (RFC 3393)


class ClockBound(msgspec.Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    """The state of an end's clock. `error_ms` bounds its error as the end itself claims; None if it claims nothing."""

    is_synchronised: bool
    error_ms: Amount | None = None
    # our `chrony` or `kernel` (adjtimex), or the reflector's `packet` (RFC 8762)
    source: Literal["chrony", "kernel", "packet"] = "packet"


class StampBurst(
    msgspec.Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True, tag="stamp", tag_field="kind"
):
    """A STAMP measurement of a path: `sent` packets to its reflector in a cycle; round trips as in `Burst`.

    Every packet without a reply was lost forward, lost reverse, or is `undecided`. A late reply is a reply.
    """

    target: str
    address: ShortText | None
    family: Literal[4, 6]
    packet_bytes: PacketBytes
    started_at: Moment
    outcome: Outcome  # `refused` if nothing listens on the port
    port: Port = STAMP_PORT
    dscp: Dscp = 0  # of our packets
    is_path_series: bool = False  # from the plan: the centre stores `path_burst` too
    sent: SmallCount = 0
    received: SmallCount = 0
    late: SmallCount = 0
    duplicates: SmallCount = 0  # further replies to a packet
    reordered: SmallCount = 0  # replies that overtook, of both directions together
    # Without the time in the reflector; in the order of sending, None where no reply came in time.
    rtts_ms: Annotated[tuple[RttMs | None, ...], Meta(max_length=LARGEST_SMALLINT)] = ()
    loaded_rtts_ms: Annotated[tuple[RttMs | None, ...], Meta(max_length=LARGEST_SMALLINT)] | None = None
    stamp: Stamp | None = None
    stamps_lost: SmallCount = 0
    clock_source: ShortText | None = None
    waited: SmallCount = 0
    is_stateful: bool | None = None  # whether the reflector counts its replies; None if undetermined
    is_authenticated: bool = False  # all replies carried a valid HMAC
    reflected: Count | None = None  # our packets at the reflector, by its counter, duplicates included
    undecided: SmallCount = 0  # lost in an unknown direction, as after the last reply; without a counter, all
    forward: StampDirection = StampDirection()
    reverse: StampDirection = StampDirection()
    # Bounds of the reflector's clock less our own, None without its timestamps: no delay is negative, and clocks differ
    # by no more than the errors that both claim.
    offset_lo_ms: Real | None = None
    offset_hi_ms: Real | None = None
    own_clock: ClockBound | None = None
    far_clock: ClockBound | None = None
    follow_ups: SmallCount = 0  # replies with a true send time told later (RFC 8972, section 4.7)
    peer_packets: Count | None = None  # of the target's tests at our reflector since the cycle before; None if unknown
    source_address: ShortText | None = None  # of our packets
    detail: Text | None = None

    @property
    def is_under_load(self) -> bool:
        """Whether all were sent during our throughput test."""
        return self.loaded_rtts_ms == ()

    def delay_interval_ms(
        self, direction: Literal["forward", "reverse"], raw_ms: float | None
    ) -> tuple[float, float] | None:
        """Interval of the true delay of a raw delay; None if unknown.

        Forward [raw - offset_hi_ms, raw - offset_lo_ms], reverse [raw + offset_lo_ms, raw + offset_hi_ms], never
        negative.
        """
        if raw_ms is None or self.offset_lo_ms is None or self.offset_hi_ms is None:
            return None
        if direction == "forward":
            lo_ms, hi_ms = raw_ms - self.offset_hi_ms, raw_ms - self.offset_lo_ms
        else:
            lo_ms, hi_ms = raw_ms + self.offset_lo_ms, raw_ms + self.offset_hi_ms
        # Rounding of floats must not make a delay of 0 negative.
        return max(0.0, lo_ms), max(0.0, hi_ms)

    @property
    def path_burst(self) -> Burst:
        """The round trips as a burst, for paths with this series."""
        shared = {name: getattr(self, name) for name in Burst.__struct_fields__ if name in self.__struct_fields__}
        return Burst(**shared, ttl=self.reverse.ttl)
