"""Messages of a disk-to-disk test: parameters (`DiskToDiskSpec`) and result (`DiskToDiskRun`)."""

from __future__ import annotations

from datetime import datetime
from typing import Literal

import msgspec

from probes.bounds import LargeCount, Moment, PositiveSmallCount, Rate, Ratio, Seconds, ShortText, Text
from probes.contract import Outcome
from probes.transfers.slot import TransferSlot

Tool = Literal["fetch", "iperf3"]

# Time of a slot beyond its steps: connection setup and clock differences.
SLOT_MARGIN_S = 5
# Local write, local read, memory-to-memory transfer, disk-to-disk transfer, fsync, checksum read; each at most
# `duration_s`.
STEPS = 6


class DiskToDiskSpec(msgspec.Struct, frozen=True, kw_only=True):
    """Transfer of a file from a disk at `source` to a disk at `address`, and a memory-to-memory transfer on that
    path."""

    address: str
    source: str
    family: Literal[4, 6] = 4
    port: int = 5201  # the sender's; with `iperf3` then the receiver's, for the streams
    tool: Tool = "fetch"
    file_bytes: int = 500_000_000
    duration_s: int = 10  # maximum of each of the two transfers
    streams: int = 4
    one_time_key: str | None = None  # secret shared by the two ends
    peer_iperf3: str | None = None  # as in `probes.transfers.spec`

    @property
    def length_s(self) -> float:
        return 2.0 * self.duration_s

    @property
    def rate_bps(self) -> int | None:
        return None


class DiskToDiskSlot(TransferSlot, frozen=True, kw_only=True, tag="disk-to-disk", tag_field="kind"):
    """A planned execution of a disk-to-disk test. The client is the path's source: it sends, and reports."""

    spec: DiskToDiskSpec


class PermittedSpec(msgspec.Struct, frozen=True, kw_only=True):
    """A spec and the folder in which this site permits the test file."""

    spec: DiskToDiskSpec
    folder: str


class DiskToDiskRun(msgspec.Struct, frozen=True, kw_only=True, gc=False, tag="disk-to-disk", tag_field="kind"):
    """Result of a disk-to-disk test; every figure is None unless the outcome is `measured`."""

    target: str
    address: ShortText | None
    family: Literal[4, 6]
    started_at: Moment
    outcome: Outcome
    tool: Tool = "fetch"
    streams: PositiveSmallCount = 1
    file_bytes: LargeCount | None = None
    moved_bytes: LargeCount | None = None
    carried_bytes: LargeCount | None = None  # sum of both transfers
    moving_s: Seconds | None = None  # until the last byte arrived
    syncing_s: Seconds | None = None  # the receiver's fsync
    disk_to_disk_bps: Rate | None = None  # `moved_bytes` over `moving_s` plus `syncing_s`
    memory_to_memory_bps: Rate | None = None
    read_bps: Rate | None = None  # the sender's local read after dropping cached pages
    read_cached_ratio: Ratio | None = None  # share of pages that remained cached
    write_bps: Rate | None = None  # the receiver's local write, including fsync
    is_verified: bool | None = None  # the checksums agree; None if not compared
    detail: Text | None = None


def slot_length_s(duration_s: int) -> int:
    return STEPS * duration_s + SLOT_MARGIN_S


def not_measured(spec: DiskToDiskSpec, started_at: datetime, outcome: Outcome, detail: str) -> DiskToDiskRun:
    return DiskToDiskRun(
        target=spec.address,
        address=None,
        family=spec.family,
        started_at=started_at,
        outcome=outcome,
        tool=spec.tool,
        streams=spec.streams,
        detail=detail,
    )
