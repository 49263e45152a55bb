"""The fields of a capacity measurement: what is asked (`CapacitySpec`) and what comes back (`CapacityRun`)."""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum
from typing import Literal

import msgspec

from probes.contract import Outcome

USUAL_S = 30.0
"""What a measurement by an agent takes, with the spacing that its limits ask for by default."""


class Verdict(StrEnum):
    """What the replies said: `MEASURED` is an estimate, every other says why there is none."""

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
    """One estimate of the narrowest link between here and `address`, there or back.

    `packet_bytes` is the ICMP payload; None takes what fills an IP packet of the path's MTU, at most 1500 bytes.
    A train is followed by a pause of at least `spacing_s` for each of its packets, so that on average no more than one
    is sent in that time.
    """

    address: str
    family: Literal[4, 6] = 4
    source: str | None = None
    packet_bytes: int | None = None
    spacing_s: float = 0.05


class CapacityRun(msgspec.Struct, frozen=True, kw_only=True, tag="capacity", tag_field="kind"):
    """One capacity measurement. Rates count the bits of IP packets, without the headers of the links.

    `verdict` is None where the outcome is not `measured`. `capacity_bps` is there only with the verdict `measured`;
    `capacity_low_bps` alone is a lower bound. `detail` says why there is no estimate, or what to know about it.
    """

    target: str
    address: str | None
    family: Literal[4, 6]
    started_at: datetime
    outcome: Outcome
    verdict: Verdict | None = None
    capacity_bps: float | None = None
    capacity_low_bps: float | None = None
    capacity_high_bps: float | None = None
    packet_bytes: int | None = None
    sent: int = 0
    received: int = 0
    method: str | None = None
    detail: str | None = None
