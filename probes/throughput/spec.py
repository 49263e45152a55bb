"""The fields of a throughput measurement: what is asked (`ThroughputSpec`) and what comes back (`ThroughputRun`)."""

from __future__ import annotations

from datetime import datetime
from typing import Literal

import msgspec

from probes.contract import Outcome


class ThroughputSpec(msgspec.Struct, frozen=True, kw_only=True):
    """One memory-to-memory TCP transfer from here to `address`, where a peer listens on `port`."""

    address: str
    family: Literal[4, 6] = 4
    source: str | None = None
    port: int = 5201
    duration_s: int = 10
    omit_s: int = 0
    streams: int = 1


class Interval(msgspec.Struct, frozen=True, kw_only=True):
    """What one interval of a transfer carried, summed over its streams. Seconds from the start of the transfer."""

    start_s: float
    end_s: float
    transferred_bytes: int
    throughput_bps: float
    retransmits: int | None = None
    cwnd_bytes: int | None = None
    rtt_ms: float | None = None
    omitted: bool = False


class ThroughputRun(msgspec.Struct, frozen=True, kw_only=True, tag="throughput", tag_field="kind"):
    """One throughput test. `throughput_bps` is what the receiver got; None whenever the outcome is not `measured`."""

    target: str
    address: str | None
    family: Literal[4, 6]
    started_at: datetime
    outcome: Outcome
    streams: int = 1
    duration_s: float | None = None
    throughput_bps: float | None = None
    sent_bytes: int | None = None
    received_bytes: int | None = None
    retransmits: int | None = None
    rtt_mean_ms: float | None = None
    congestion_control: str | None = None
    tool: str | None = None
    intervals: tuple[Interval, ...] = ()
    detail: str | None = None
