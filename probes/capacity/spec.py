"""Messages of a capacity measurement: request (`CapacitySpec`) and result (`CapacityRun`)."""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum
from typing import Literal

import msgspec

from probes.bounds import Moment, PacketBytes, Rate, ShortText, SmallCount, Text
from probes.contract import Outcome

# Of a measurement by an agent, with the spacing of the default limits.
USUAL_S = 30.0


class CapacityVerdict(StrEnum):
    """Whether the replies give an estimate (`MEASURED`), else the reason."""

    MEASURED = "measured"
    NO_REPLY = "no_reply"
    UNSTAMPED = "unstamped"
    RATE_LIMITED = "rate_limited"
    LOSSY = "lossy"
    RESOLUTION = "resolution"
    OWN_LIMIT = "own_limit"
    BATCHED = "batched"
    PER_PACKET = "per_packet"
    UNSETTLED = "unsettled"


class CapacitySpec(msgspec.Struct, frozen=True, kw_only=True):
    """Estimate the bottleneck capacity between this host and `address`, in either direction."""

    address: str
    family: Literal[4, 6] = 4
    source: str | None = None
    packet_bytes: int | None = None  # ICMP payload; None fills the path MTU, at most 1500 bytes
    spacing_s: float = 0.05  # minimum mean time per packet, kept by a pause after each train


class CapacityTarget(msgspec.Struct, frozen=True, kw_only=True):
    path_id: int
    spec: CapacitySpec


class CapacityTask(msgspec.Struct, frozen=True, kw_only=True):
    """A capacity test that a site repeats every `every_s` seconds, its targets in sequence."""

    test: str
    every_s: int
    targets: tuple[CapacityTarget, ...]


class CapacityRun(msgspec.Struct, frozen=True, kw_only=True, gc=False, tag="capacity", tag_field="kind"):
    """The result of a capacity measurement. Rates count the bits of IP packets, without link headers."""

    target: str
    address: ShortText | None
    family: Literal[4, 6]
    started_at: Moment
    outcome: Outcome
    verdict: CapacityVerdict | None = None  # None if the outcome is not `measured`
    capacity_bps: Rate | None = None  # only with the verdict `measured`
    capacity_low_bps: Rate | None = None  # without `capacity_bps`, a lower bound
    capacity_high_bps: Rate | None = None
    packet_bytes: PacketBytes | None = None
    sent: SmallCount = 0
    received: SmallCount = 0
    method: Text | None = None
    detail: Text | None = None  # why an estimate is missing, or how it is qualified


def not_measured(spec: CapacitySpec, started_at: datetime, outcome: Outcome, detail: str) -> CapacityRun:
    return CapacityRun(
        target=spec.address, address=None, family=spec.family, started_at=started_at, outcome=outcome, detail=detail
    )
