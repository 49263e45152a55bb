"""Messages of a trace: request (`TraceSpec`) and result (`TraceRun`)."""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum
from typing import Annotated, Literal

import msgspec

from probes.bounds import Amount, Moment, Octet, Ratio, Real, RttMs, ShortText, SmallCount, Text
from probes.contract import Outcome
from probes.quantities import counted

MOST_HOPS = 64
MOST_ATTEMPTS = 20
MOST_LABELS = 16
MOST_OTHERS = 32
LARGEST_LABEL = 2**20 - 1
LARGEST_FLOW = 2**32 - 1

# The test of traces that the centre asked for; mesh.toml cannot have its name.
ON_DEMAND_TEST = "on-demand"


class TraceReason(StrEnum):
    SCHEDULED = "scheduled"
    TTL_CHANGED = "ttl_changed"
    SENTINEL = "sentinel"
    RTT_STEP = "rtt_step"
    INCIDENT_OPENED = "incident_opened"
    INCIDENT_CLOSED = "incident_closed"
    THROUGHPUT_TEST = "throughput_test"
    ON_DEMAND = "on_demand"


class TraceTarget(msgspec.Struct, frozen=True, kw_only=True):
    address: str
    family: Literal[4, 6] = 4
    source: str | None = None
    path_id: int | None = None  # None in a trace by hand


class TraceSpec(msgspec.Struct, frozen=True, kw_only=True):
    """Trace the routes to all `targets` together, with `attempts` probes for each hop of each."""

    targets: tuple[TraceTarget, ...]
    protocol: Literal["icmp", "udp"] = "icmp"
    max_hops: int = 30
    attempts: int = 3
    timeout_s: float = 2.0
    router_spacing_s: float = 1.0  # between probes that are to expire at a router
    flows: int = 1  # above 1, further probes find next hops of load balancers
    shares_near_hops: bool = True  # probe shared hops for a single target
    max_packets_per_s: float = 200.0  # of all probes together
    max_packets: int | None = None  # per target, beyond each hop's first probe


class TraceTask(msgspec.Struct, frozen=True, kw_only=True):
    """Traces that a site repeats every `every_s` seconds."""

    test: str
    every_s: int
    spec: TraceSpec


class MplsLabel(msgspec.Struct, frozen=True, gc=False):
    """An entry of a label stack, topmost first, as the router received it (RFC 4950, RFC 3032)."""

    label: Annotated[int, msgspec.Meta(ge=0, le=LARGEST_LABEL)]
    traffic_class: Annotated[int, msgspec.Meta(ge=0, le=7)]
    ttl: Octet


class Hop(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The router at a TTL; without an address, none replied."""

    ttl: Octet
    address: ShortText | None = None
    # by probe; None without a reply
    rtts_ms: Annotated[tuple[RttMs | None, ...], msgspec.Meta(max_length=MOST_ATTEMPTS)] = ()
    mpls: Annotated[tuple[MplsLabel, ...], msgspec.Meta(max_length=MOST_LABELS)] = ()
    error: ShortText | None = None  # other than Time Exceeded; ends the trace
    is_inferred: bool = False  # probed for another target with the same next router
    # routers at this TTL of other flows
    others: Annotated[tuple[ShortText, ...], msgspec.Meta(max_length=MOST_OTHERS)] = ()


class FlowVerdict(StrEnum):
    """Whether flows to a destination differ in RTT or loss."""

    DIFFER = "differ"
    SAME = "same"
    UNKNOWN = "unknown"


class FlowEffect(msgspec.Struct, frozen=True, kw_only=True):
    """Whether load balancing over flows changes RTT or loss of a path (`probes.trace.flow_effect`).

    A statistic above its `critical` value, at 99.9%, shows a difference.
    """

    verdict: FlowVerdict
    flows: SmallCount
    sent: SmallCount  # to the destination over the flows in turn
    lost: SmallCount
    rtt_low_ms: RttMs | None = None  # lowest median of a flow with enough replies
    rtt_high_ms: RttMs | None = None  # highest median of a flow with enough replies
    rtt_statistic: Real | None = None  # H of Kruskal and Wallis; None below two such flows
    rtt_critical: Real | None = None
    loss_low_ratio: Ratio
    loss_high_ratio: Ratio
    loss_statistic: Amount  # Pearson's chi-squared
    loss_critical: Amount

    @property
    def text(self) -> str:
        """Such as: flows differ: RTT 12.1 to 19.8 ms over 8 flows."""
        figures = []
        if self.rtt_low_ms is not None and self.rtt_high_ms is not None and self.rtt_statistic is not None:
            figures.append(f"RTT {_ms(self.rtt_low_ms)} to {_ms(self.rtt_high_ms)} ms")
        if self.lost:
            figures.append(f"loss {100 * self.loss_low_ratio:.0f}% to {100 * self.loss_high_ratio:.0f}%")
        measured = f"{', '.join(figures) or f'{self.sent} packets'} over {counted(self.flows, 'flow')}"
        if self.verdict is FlowVerdict.DIFFER:
            return f"flows differ: {measured}"
        if self.verdict is FlowVerdict.SAME:
            return f"no difference between flows: {measured}"
        reason = "too few replies" if self.rtt_statistic is None else "within the noise"
        return f"cannot tell whether flows differ: {measured}, {reason}"


class TraceRun(msgspec.Struct, frozen=True, kw_only=True, tag="trace", tag_field="kind"):
    """The route to a target at a moment."""

    target: str
    address: ShortText | None
    family: Literal[4, 6]
    started_at: Moment
    outcome: Outcome
    protocol: Literal["icmp", "udp"] = "icmp"
    reason: TraceReason = TraceReason.SCHEDULED
    # ICMP checksum, or UDP source port * 65,536 + destination port; as in pings by default
    flow: Annotated[int, msgspec.Meta(ge=0, le=LARGEST_FLOW)] | None = None
    reached: bool = False
    # from TTL 1 to the destination or last reply
    hops: Annotated[tuple[Hop, ...], msgspec.Meta(max_length=MOST_HOPS)] = ()
    detail: Text | None = None  # if not reached, a routing loop or packets lost beyond
    flow_effect: FlowEffect | None = None  # None for a single flow


def _ms(value_ms: float) -> str:
    return f"{value_ms:.1f}" if value_ms >= 10.0 else f"{value_ms:.2f}"


def not_measured(target: str, family: Literal[4, 6], started_at: datetime, outcome: Outcome, detail: str) -> TraceRun:
    return TraceRun(target=target, address=None, family=family, started_at=started_at, outcome=outcome, detail=detail)
