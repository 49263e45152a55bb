"""The fields of a disk-to-disk test: its parameters (`DiskToDiskSpec`) and its result (`DiskToDiskRun`)."""

from __future__ import annotations

from datetime import datetime
from typing import Literal

import msgspec

from probes.bounds import LargeCount, Moment, PositiveSmallCount, Rate, Ratio, Seconds, ShortText, Text
from probes.contract import Outcome
from probes.transfers.slot import TransferSlot

Tool = Literal["fetch", "iperf3"]

SLOT_MARGIN_S = 5
"""Time of a slot beyond its steps: connection setup and clock differences."""
STEPS = 6
"""Each takes at most `duration_s`: local write, local read, memory-to-memory transfer, disk-to-disk transfer, fsync,
and the read for the checksum."""


class DiskToDiskSpec(msgspec.Struct, frozen=True, kw_only=True):
    """Transfer of a file from a disk at `source` to a disk at `address`, and a memory-to-memory transfer on that path.

    Each of the two transfers takes at most `duration_s`. The sender listens on `port` for the receiver; with the tool
    `iperf3` the receiver then listens on it for the sender's streams. `one_time_key` is a secret shared by the two
    ends. `peer_iperf3` is as in `probes.transfers.spec`. The folders are not set here: each site sets its own.
    """

    address: str
    source: str
    family: Literal[4, 6] = 4
    port: int = 5201
    tool: Tool = "fetch"
    file_bytes: int = 500_000_000
    duration_s: int = 10
    streams: int = 4
    one_time_key: str | None = None
    peer_iperf3: str | None = None

    @property
    def length_s(self) -> float:
        """Maximum seconds for which the test loads the path."""
        return 2.0 * self.duration_s

    @property
    def rate_bps(self) -> int | None:
        """None: there is no rate limit."""
        return None


class DiskToDiskSlot(TransferSlot, frozen=True, kw_only=True, tag="disk-to-disk", tag_field="kind"):
    """A planned execution of a disk-to-disk test. The client is the path's source: it sends, and reports."""

    spec: DiskToDiskSpec


class PermittedSpec(msgspec.Struct, frozen=True, kw_only=True):
    """A spec and the folder in which this site permits the test file."""

    spec: DiskToDiskSpec
    folder: str


class DiskToDiskRun(msgspec.Struct, frozen=True, kw_only=True, gc=False, tag="disk-to-disk", tag_field="kind"):
    """Result of a disk-to-disk test; every figure is None unless the outcome is `measured`.

    `carried_bytes` is the sum of both transfers. `disk_to_disk_bps` is `moved_bytes` over `moving_s` (until the last
    byte arrived) plus `syncing_s` (the receiver's fsync). `read_bps` is the sender's local read rate after its pages
    were dropped from the page cache, of which the share `read_cached_ratio` remained; `write_bps` is the receiver's
    local write rate, including fsync. `is_verified` is true if the checksums of the sent and the stored file agree,
    None if they were not compared.
    """

    target: str
    address: ShortText | None
    family: Literal[4, 6]
    started_at: Moment
    outcome: Outcome
    tool: Tool = "fetch"
    streams: PositiveSmallCount = 1
    file_bytes: LargeCount | None = None
    moved_bytes: LargeCount | None = None
    carried_bytes: LargeCount | None = None
    moving_s: Seconds | None = None
    syncing_s: Seconds | None = None
    disk_to_disk_bps: Rate | None = None
    memory_to_memory_bps: Rate | None = None
    read_bps: Rate | None = None
    read_cached_ratio: Ratio | None = None
    write_bps: Rate | None = None
    is_verified: bool | None = None
    detail: Text | None = None


def slot_length_s(duration_s: int) -> int:
    """Seconds for which a disk-to-disk test reserves its hosts."""
    return STEPS * duration_s + SLOT_MARGIN_S


def not_measured(spec: DiskToDiskSpec, started_at: datetime, outcome: Outcome, detail: str) -> DiskToDiskRun:
    """The result of a test that ended in `outcome`, without figures."""
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
