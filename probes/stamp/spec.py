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
from probes.packets.egress import Egress, PacketTarget
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
    """A reflector. The DSCP of the packets is that of the spec."""

    port: Port = STAMP_PORT
    key: SharedKey | None = None  # packets are authenticated both ways; without, open
    is_path_series: bool = False  # the path has no ping test, so round trips are its series


class StampSpec(msgspec.Struct, frozen=True, kw_only=True):
    """A STAMP cycle: `count` packets per target, `spacing_s` apart, with `packet_bytes` of UDP payload; those with a
    key are larger where the key needs more.

    A reply later than `timeout_s` after its packet counts as lost, and as late if it arrives within another `late_s`.
    The `pattern` is that of `probes.packets.spec.PingSpec`. `dscp` is that of the packets, and of the replies where the
    reflector follows it. After them, a target is sent one packet that is not counted, to be told when the last reply
    left, or a few if the last packet went unanswered, to read the reflector's counter.
    """

    targets: tuple[StampTarget, ...]
    packet_bytes: int = 200
    count: int = 10
    spacing_s: float = 1.0
    timeout_s: float = 2.0
    late_s: float = 1.0
    dscp: int = 0
    pattern: Pattern | msgspec.UnsetType = msgspec.UNSET

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


class StampPeer(msgspec.Struct, frozen=True, kw_only=True):
    """A host whose packets our reflector answers."""

    address: str  # address or name
    family: Literal[4, 6] = 4
    key: SharedKey | None = None  # the pair's, with which its packets must be authenticated
    egress: Egress | msgspec.UnsetType = msgspec.UNSET  # interface and namespace of its target; left out for any


class ReflectorPlan(msgspec.Struct, frozen=True, kw_only=True):
    """The reflector of a site, which its agent runs as long as its plan has peers: UDP `port` of all its addresses."""

    peers: tuple[StampPeer, ...]
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
    """A STAMP measurement of a path: `sent` packets to its reflector in a cycle.

    The round trip, as in `probes.packets.spec.Burst`: `rtts_ms` has an entry for each packet sent, in the order of
    sending, None if no reply came in time, each without the time that the packet spent in the reflector. `sent` is its
    length, `received` the number of entries that are not None. `duplicates` counts further replies to a packet,
    `reordered` replies that overtook, of both directions together. `loaded_rtts_ms` are packets sent while a throughput
    test of ours ran, left out of all other fields, as in `Burst`. When the outcome is not `measured`, nothing was
    measured and `detail` gives the reason: `refused` if the host answers that nothing listens on the port.

    `is_stateful`: whether the reflector counts its replies; None if undetermined, as without replies. `reflected` is
    the number of our packets that reached it, by its counter, duplicates included. Every packet without a reply was
    lost forward, lost reverse, or is one of `undecided`: those whose direction cannot be told, such as those after the
    last reply; without a counter, all. A late reply is a reply.

    `offset_lo_ms` and `offset_hi_ms` bound the reflector's clock less our own: no delay is negative, and where both
    clocks claim an error, their difference is within the sum. Both are None without timestamps of the reflector. So a
    delay forward is within [raw - offset_hi_ms, raw - offset_lo_ms], a delay reverse within [raw + offset_lo_ms,
    raw + offset_hi_ms] (`delay_interval_ms`); neither is ever negative.

    `follow_ups` counts the replies whose true send time the reflector told later (RFC 8972, section 4.7).
    `is_authenticated`: all replies carried a valid HMAC. `dscp` is that of our packets. `is_path_series` is copied from
    the plan: the centre stores `path_burst` too. `packet_bytes` is that of the spec. `peer_packets` are packets of the
    target's own tests that the reflector of our agent received since the cycle before, None if not known.
    `source_address` is the local address of our packets.
    """

    target: str
    address: ShortText | None
    family: Literal[4, 6]
    packet_bytes: PacketBytes
    started_at: Moment
    outcome: Outcome
    port: Port = STAMP_PORT
    dscp: Dscp = 0
    is_path_series: bool = False
    sent: SmallCount = 0
    received: SmallCount = 0
    late: SmallCount = 0
    duplicates: SmallCount = 0
    reordered: SmallCount = 0
    rtts_ms: Annotated[tuple[RttMs | None, ...], Meta(max_length=LARGEST_SMALLINT)] = ()
    loaded_rtts_ms: Annotated[tuple[RttMs | None, ...], Meta(max_length=LARGEST_SMALLINT)] | None = None
    stamp: Stamp | None = None
    stamps_lost: SmallCount = 0
    clock_source: ShortText | None = None
    waited: SmallCount = 0
    is_stateful: bool | None = None
    is_authenticated: bool = False
    reflected: Count | None = None
    undecided: SmallCount = 0
    forward: StampDirection = StampDirection()
    reverse: StampDirection = StampDirection()
    offset_lo_ms: Real | None = None
    offset_hi_ms: Real | None = None
    own_clock: ClockBound | None = None
    far_clock: ClockBound | None = None
    follow_ups: SmallCount = 0
    peer_packets: Count | None = None
    source_address: ShortText | None = None
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
        return Burst(
            target=self.target,
            address=self.address,
            family=self.family,
            packet_bytes=self.packet_bytes,
            started_at=self.started_at,
            outcome=self.outcome,
            sent=self.sent,
            received=self.received,
            late=self.late,
            duplicates=self.duplicates,
            reordered=self.reordered,
            rtts_ms=self.rtts_ms,
            ttl=self.reverse.ttl,
            stamp=self.stamp,
            stamps_lost=self.stamps_lost,
            clock_source=self.clock_source,
            waited=self.waited,
            source_address=self.source_address,
            loaded_rtts_ms=self.loaded_rtts_ms,
            detail=self.detail,
        )
