"""The fields of a disk-to-disk measurement: what is asked (`DiskToDiskSpec`) and what comes back (`DiskToDiskRun`)."""

from __future__ import annotations

from datetime import datetime
from typing import Literal

import msgspec

from probes.contract import Outcome

Tool = Literal["fetch", "iperf3"]

SLOT_MARGIN_S = 5
"""What a slot lasts beyond its steps: connecting, clocks that differ."""
STEPS = 6
"""Each is given `duration_s`: the file is written and read by itself, goes from memory to memory and from disk to disk,
is waited for until the disk has it, and read again for its checksum."""


class DiskToDiskSpec(msgspec.Struct, frozen=True, kw_only=True):
    """A file from a disk at `source` to a disk at `address`, and the same way from memory to memory.

    Each of the two transfers takes at most `duration_s`. The sender listens on `port` for the receiver; with the tool
    `iperf3` the receiver then listens on it for the sender's streams. `one_time_key` is known to both ends and nobody
    else. `peer_iperf3` is as in `probes.throughput.spec`. Where the files lie is not asked here: each site says it
    itself.
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
        """How long it fills the path, at most."""
        return 2.0 * self.duration_s

    @property
    def rate_bps(self) -> int | None:
        """It keeps to no rate."""
        return None


class PermittedSpec(msgspec.Struct, frozen=True, kw_only=True):
    """What is asked, and the folder of this site in which its file may lie."""

    spec: DiskToDiskSpec
    folder: str


class DiskToDiskRun(msgspec.Struct, frozen=True, kw_only=True, tag="disk-to-disk", tag_field="kind"):
    """One disk-to-disk measurement; every figure is None unless the outcome is `measured`. `carried_bytes` are those of
    both transfers.

    `disk_to_disk_bps` counts `moved_bytes` over `moving_s`, until the last byte had arrived, and `syncing_s`, until the
    receiver's disk had them all (fsync). `read_bps` is the sender's disk alone, the file's pages dropped from the cache
    before, of which `read_cached_ratio` stayed; `write_bps` the receiver's disk alone, fsync included. With
    `is_verified` what lies on the receiver's disk has the checksum of what the sender read; None where nobody looked.
    """

    target: str
    address: str | None
    family: Literal[4, 6]
    started_at: datetime
    outcome: Outcome
    tool: Tool = "fetch"
    streams: int = 1
    file_bytes: int | None = None
    moved_bytes: int | None = None
    carried_bytes: int | None = None
    moving_s: float | None = None
    syncing_s: float | None = None
    disk_to_disk_bps: float | None = None
    memory_to_memory_bps: float | None = None
    read_bps: float | None = None
    read_cached_ratio: float | None = None
    write_bps: float | None = None
    is_verified: bool | None = None
    detail: str | None = None


def slot_length_s(duration_s: int) -> int:
    """How long a measurement has its hosts to itself."""
    return STEPS * duration_s + SLOT_MARGIN_S


def not_measured(spec: DiskToDiskSpec, started_at: datetime, outcome: Outcome, detail: str) -> DiskToDiskRun:
    """The run of a measurement that ended in `outcome`, without any figure."""
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
