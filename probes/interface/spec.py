"""Messages of a reading of an interface's counters: request (`InterfaceSpec`) and result (`InterfaceRun`)."""

from __future__ import annotations

from datetime import datetime
from typing import Literal

import msgspec

from probes.bounds import Amount, LargeCount, Moment, Rate, Seconds, ShortText, Text
from probes.contract import Outcome
from probes.packets.egress import PacketTarget

USUAL_PERIOD_S = 60


class InterfaceTarget(PacketTarget, frozen=True, kw_only=True):
    """A path.

    `address` is its destination, by which the interface is found; with a router in the spec, the router's.
    """


class InterfaceSpec(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Read the counters of the interface by which packets to each target leave this host; with `router`, of its
    `interface` over SNMP."""

    targets: tuple[InterfaceTarget, ...]
    router: str | None = None
    interface: str | None = None  # ifName, ifAlias, or "#" and the ifIndex


class InterfaceTask(msgspec.Struct, frozen=True, kw_only=True):
    """A reading that a site repeats every `every_s` seconds."""

    test: str
    every_s: int
    spec: InterfaceSpec


class InterfaceRun(msgspec.Struct, frozen=True, kw_only=True, gc=False, tag="interface", tag_field="kind"):
    """The use of an interface since the reading before, which ended at `started_at`.

    Rates include link headers. Figures are None at the first reading and after a counter reset.
    """

    target: str
    address: ShortText | None = None
    family: Literal[4, 6]
    started_at: Moment
    outcome: Outcome
    router: ShortText | None = None  # None for an interface of the agent's host
    interface: Text | None = None
    alias: Text | None = None
    speed_bps: Rate | None = None
    interval_s: Seconds | None = None  # time between the two readings
    in_bps: Amount | None = None
    out_bps: Amount | None = None
    in_errors: LargeCount | None = None
    out_errors: LargeCount | None = None
    in_drops: LargeCount | None = None
    out_drops: LargeCount | None = None
    beside_tests: bool = False  # a throughput test of ours ran in the interval
    detail: Text | None = None  # reason for missing figures


def not_measured(
    spec: InterfaceSpec, target: PacketTarget, at: datetime, outcome: Outcome, detail: str
) -> InterfaceRun:
    return InterfaceRun(
        target=target.address,
        family=target.family,
        started_at=at,
        outcome=outcome,
        router=spec.router,
        interface=spec.interface,
        detail=detail,
    )
