"""Messages of a policer test: parameters (`PolicerSpec`) and result (`PolicerRun`)."""

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
# Fits a tunnel's MTU, and so is never fragmented on usual paths.
IP_BYTES = 1400
LONGEST_REFILL_S = 12.0
LONGEST_TRAIN_S = 2.0
TRAINS = 3
# Maximum time from the first packet to the last: three trains and the pauses in which a bucket fills.
LOADING_S = 25
# Time of a slot beyond that: connection setup, queues that drain, and clock differences.
SLOT_MARGIN_S = 10


class PolicerVerdict(StrEnum):
    """The mechanism that limits the rate.

    `LINK` delays from the first packet on; `NO_LIMIT`: none up to the trains' rate.
    """

    POLICER = "policer"
    SHAPER = "shaper"
    LINK = "link"
    NO_LIMIT = "no_limit"
    UNDETERMINED = "undetermined"


# Verdicts with a sustained rate.
WITH_RATE = (PolicerVerdict.POLICER, PolicerVerdict.SHAPER, PolicerVerdict.LINK)


class PolicerSpec(msgspec.Struct, frozen=True, kw_only=True):
    """UDP trains to `address`, where the peer listens on `port`, TCP and UDP."""

    address: str
    family: Literal[4, 6] = 4
    source: str | None = None
    port: int = PORT
    peak_bps: int = PEAK_BPS  # rate of a train, of IP packets
    train_bytes: int = TRAIN_BYTES  # maximum of a train
    one_time_key: str | None = None  # secret shared by the two ends

    @property
    def length_s(self) -> float:
        return float(LOADING_S)

    @property
    def rate_bps(self) -> int | None:
        """Maximum average rate."""
        return TRAINS * self.train_bytes * 8 // LOADING_S


class PolicerSlot(TransferSlot, frozen=True, kw_only=True, tag="policer", tag_field="kind"):
    """A planned execution of a policer test. The client is the path's source: it sends, and reports."""

    spec: PolicerSpec


class PolicerRun(msgspec.Struct, frozen=True, kw_only=True, gc=False, tag="policer", tag_field="kind"):
    """Result of a policer test. Rates and bytes count IP packets, headers included."""

    target: str
    address: ShortText | None
    family: Literal[4, 6]
    started_at: Moment
    outcome: Outcome
    verdict: PolicerVerdict | None = None  # None unless the outcome is `measured`
    sustained_bps: Rate | None = None  # set, with its range, for policer, shaper and link
    sustained_low_bps: Rate | None = None
    sustained_high_bps: Rate | None = None
    burst_bytes: Amount | None = None  # passed at once above the rate, where two trains agree
    burst_low_bytes: Amount | None = None
    burst_high_bytes: Amount | None = None
    peak_bps: Rate | None = None  # rate at which the trains were sent
    packet_bytes: PacketBytes | None = None
    sent: Count = 0
    received: Count = 0
    sent_bytes: LargeCount = 0
    delay_rise_ms: Amount | None = None  # delay added beyond the rate
    detail: Text | None = None


def not_measured(spec: PolicerSpec, started_at: datetime, outcome: Outcome, detail: str) -> PolicerRun:
    return PolicerRun(
        target=spec.address, address=None, family=spec.family, started_at=started_at, outcome=outcome, detail=detail
    )


def slot_length_s() -> int:
    return LOADING_S + SLOT_MARGIN_S
