"""The fields of a policer test: its parameters (`PolicerSpec`) and its result (`PolicerRun`)."""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum
from typing import Literal

import msgspec

from probes.bounds import Amount, Count, LargeCount, Moment, PacketBytes, Rate, ShortText, Text
from probes.contract import Outcome
from probes.transfers.slot import TransferSlot

PORT = 5201
TRAIN_BYTES = 4_000_000
PEAK_BPS = 100_000_000
IP_BYTES = 1400
"""Fits a tunnel's MTU, and so is never fragmented on usual paths."""
LONGEST_REFILL_S = 12.0
LONGEST_TRAIN_S = 2.0
TRAINS = 3
LOADING_S = 25
"""Maximum of the time from the first packet to the last: three trains and the pauses in which a bucket fills."""
SLOT_MARGIN_S = 10
"""Time of a slot beyond that: connection setup, queues that drain, and clock differences."""


class PolicerVerdict(StrEnum):
    """The mechanism that limits the rate. `LINK` delays from the first packet on, `NO_LIMIT` is none up to the rate of
    the trains, `UNDETERMINED` cannot tell."""

    POLICER = "policer"
    SHAPER = "shaper"
    LINK = "link"
    NO_LIMIT = "no_limit"
    UNDETERMINED = "undetermined"


WITH_RATE = (PolicerVerdict.POLICER, PolicerVerdict.SHAPER, PolicerVerdict.LINK)
"""Verdicts that have a sustained rate."""


class PolicerSpec(msgspec.Struct, frozen=True, kw_only=True):
    """UDP trains to `address`, where the peer listens on `port`, TCP and UDP.

    A train is sent at `peak_bps` (of IP packets), and has at most `train_bytes`. `one_time_key` is a secret shared by
    the two ends.
    """

    address: str
    family: Literal[4, 6] = 4
    source: str | None = None
    port: int = PORT
    peak_bps: int = PEAK_BPS
    train_bytes: int = TRAIN_BYTES
    one_time_key: str | None = None

    @property
    def length_s(self) -> float:
        """Maximum seconds for which the test loads the path."""
        return float(LOADING_S)

    @property
    def rate_bps(self) -> int | None:
        """The maximum of the average rate: all trains over the time of the test."""
        return TRAINS * self.train_bytes * 8 // LOADING_S


class PolicerSlot(TransferSlot, frozen=True, kw_only=True, tag="policer", tag_field="kind"):
    """A planned execution of a policer test. The client is the path's source: it sends, and reports."""

    spec: PolicerSpec


class PolicerRun(msgspec.Struct, frozen=True, kw_only=True, gc=False, tag="policer", tag_field="kind"):
    """Result of a policer test. Rates and bytes are those of IP packets, headers included.

    `verdict` is None unless the outcome is `measured`. `sustained_bps` and its range are set for a policer, a shaper
    and a link; `burst_bytes`, the bytes that pass at once above the rate, where two trains agree on it. `peak_bps` is
    the rate at which the trains were sent; `delay_rise_ms` by how much the delay was raised beyond the rate.
    """

    target: str
    address: ShortText | None
    family: Literal[4, 6]
    started_at: Moment
    outcome: Outcome
    verdict: PolicerVerdict | None = None
    sustained_bps: Rate | None = None
    sustained_low_bps: Rate | None = None
    sustained_high_bps: Rate | None = None
    burst_bytes: Amount | None = None
    burst_low_bytes: Amount | None = None
    burst_high_bytes: Amount | None = None
    peak_bps: Rate | None = None
    packet_bytes: PacketBytes | None = None
    sent: Count = 0
    received: Count = 0
    sent_bytes: LargeCount = 0
    delay_rise_ms: Amount | None = None
    detail: Text | None = None


def not_measured(spec: PolicerSpec, started_at: datetime, outcome: Outcome, detail: str) -> PolicerRun:
    """The result of a test that ended in `outcome`, without figures."""
    return PolicerRun(
        target=spec.address, address=None, family=spec.family, started_at=started_at, outcome=outcome, detail=detail
    )


def slot_length_s() -> int:
    """Seconds for which a policer test reserves its hosts."""
    return LOADING_S + SLOT_MARGIN_S
