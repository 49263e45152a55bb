"""The fields of a trace: its request (`TraceSpec`) and its result (`TraceRun`)."""

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

ON_DEMAND_TEST = "on-demand"
"""The test of traces that the centre asked for; mesh.toml cannot have its name."""


class TraceReason(StrEnum):
    """The occasion of a trace."""

    SCHEDULED = "scheduled"
    TTL_CHANGED = "ttl_changed"
    SENTINEL = "sentinel"
    RTT_STEP = "rtt_step"
    INCIDENT_OPENED = "incident_opened"
    INCIDENT_CLOSED = "incident_closed"
    THROUGHPUT_TEST = "throughput_test"
    ON_DEMAND = "on_demand"


class TraceTarget(msgspec.Struct, frozen=True, kw_only=True):
    """A destination of traces. `path_id` is None in a trace by hand."""

    address: str
    family: Literal[4, 6] = 4
    source: str | None = None
    path_id: int | None = None


class TraceSpec(msgspec.Struct, frozen=True, kw_only=True):
    """Trace the routes to all `targets` together, with `attempts` probes for each hop of each.

    A router is sent at most one probe per `router_spacing_s` that is to expire there. `flows` beyond the first are
    those of further probes of each hop, to find the next hops among which routers balance load. Hops that several
    targets share are probed for a single target if `shares_near_hops`. All probes together stay below
    `max_packets_per_s`; a target gets none after the first of each hop beyond its `max_packets`.
    """

    targets: tuple[TraceTarget, ...]
    protocol: Literal["icmp", "udp"] = "icmp"
    max_hops: int = 30
    attempts: int = 3
    timeout_s: float = 2.0
    router_spacing_s: float = 1.0
    flows: int = 1
    shares_near_hops: bool = True
    max_packets_per_s: float = 200.0
    max_packets: int | None = None


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
    """The router at a TTL; without an address, none replied.

    `rtts_ms` has an entry for each probe, None without a reply. `error` names an ICMP error other than Time Exceeded,
    with which the trace ends here. `is_inferred`: this hop was probed for another target in the same round, whose route
    had the same next router. `others` are the routers at this TTL of other flows to the target.
    """

    ttl: Octet
    address: ShortText | None = None
    rtts_ms: Annotated[tuple[RttMs | None, ...], msgspec.Meta(max_length=MOST_ATTEMPTS)] = ()
    mpls: Annotated[tuple[MplsLabel, ...], msgspec.Meta(max_length=MOST_LABELS)] = ()
    error: ShortText | None = None
    is_inferred: bool = False
    others: Annotated[tuple[ShortText, ...], msgspec.Meta(max_length=MOST_OTHERS)] = ()


class FlowVerdict(StrEnum):
    """Whether flows to a destination differ in RTT or loss."""

    DIFFER = "differ"
    SAME = "same"
    UNKNOWN = "unknown"


class FlowEffect(msgspec.Struct, frozen=True, kw_only=True):
    """Whether load balancing over flows changes RTT or loss of a path: `sent` probes to its destination over `flows`
    flows in turn, by `probes.trace.flow_effect`.

    `rtt_low_ms` and `rtt_high_ms` are the lowest and highest median RTT of a flow with enough replies, None without
    any. `rtt_statistic` is H of Kruskal and Wallis, None with less than two such flows, `loss_statistic` Pearson's
    chi-squared; each tells a difference above its `critical` value, at 99.9%.
    """

    verdict: FlowVerdict
    flows: SmallCount
    sent: SmallCount
    lost: SmallCount
    rtt_low_ms: RttMs | None = None
    rtt_high_ms: RttMs | None = None
    rtt_statistic: Real | None = None
    rtt_critical: Real | None = None
    loss_low_ratio: Ratio
    loss_high_ratio: Ratio
    loss_statistic: Amount
    loss_critical: Amount

    @property
    def text(self) -> str:
        """The verdict for people: flows differ: RTT 12.1 to 19.8 ms over 8 flows."""
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
    """The route to a target at a moment.

    `hops` has an entry for each TTL from 1 on, up to that of the destination where it was `reached`, else up to the
    last router that replied. `flow` is constant over all its probes: the ICMP checksum, or source port * 65,536 +
    destination port of UDP; that of the target's pings unless more flows were asked for. `flow_effect` is None for a
    trace of a single flow. `detail` of a trace that did not reach its target names a routing loop, else has the
    packets lost beyond the last hop.
    """

    target: str
    address: ShortText | None
    family: Literal[4, 6]
    started_at: Moment
    outcome: Outcome
    protocol: Literal["icmp", "udp"] = "icmp"
    reason: TraceReason = TraceReason.SCHEDULED
    flow: Annotated[int, msgspec.Meta(ge=0, le=LARGEST_FLOW)] | None = None
    reached: bool = False
    hops: Annotated[tuple[Hop, ...], msgspec.Meta(max_length=MOST_HOPS)] = ()
    detail: Text | None = None
    flow_effect: FlowEffect | None = None


def _ms(value_ms: float) -> str:
    return f"{value_ms:.1f}" if value_ms >= 10.0 else f"{value_ms:.2f}"


def not_measured(target: str, family: Literal[4, 6], started_at: datetime, outcome: Outcome, detail: str) -> TraceRun:
    """The run of a trace that ended in `outcome`, without hops."""
    return TraceRun(target=target, address=None, family=family, started_at=started_at, outcome=outcome, detail=detail)
