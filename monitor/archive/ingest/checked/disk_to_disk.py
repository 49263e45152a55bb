"""A disk-to-disk transfer within its bounds; out of bounds it raises msgspec's `ValidationError`."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

from monitor.archive.columns import LARGEST_SMALLINT
from monitor.archive.ingest.checked.values import MEASURED, Bigint, Moment, Rate, Second, Text, Word
from probes.disk_to_disk.spec import DiskToDiskRun


class CheckedDiskToDisk(DiskToDiskRun, frozen=True, kw_only=True, gc=False, tag="disk-to-disk", tag_field="kind"):
    """A plausible disk-to-disk measurement: has its rate if measured, and no figures if not."""

    address: Word | None
    started_at: Moment
    streams: Annotated[int, Meta(ge=1, le=LARGEST_SMALLINT)] = 1
    file_bytes: Bigint | None = None
    moved_bytes: Bigint | None = None
    carried_bytes: Bigint | None = None
    moving_s: Second | None = None
    syncing_s: Second | None = None
    disk_to_disk_bps: Rate | None = None
    memory_to_memory_bps: Rate | None = None
    read_bps: Rate | None = None
    read_cached_ratio: Annotated[float, Meta(ge=0.0, le=1.0)] | None = None
    write_bps: Rate | None = None
    detail: Text | None = None

    def __post_init__(self) -> None:
        measured = self.outcome is MEASURED
        if measured and self.disk_to_disk_bps is None:
            raise ValueError("measured, but without disk_to_disk_bps")
        for name in ("disk_to_disk_bps", "memory_to_memory_bps", "read_bps", "write_bps"):
            if not measured and getattr(self, name) is not None:
                raise ValueError(f"{self.outcome}, but with {name} {getattr(self, name)}")
        if self.moved_bytes is not None and self.moved_bytes > (self.file_bytes or 0):
            raise ValueError(f"moved_bytes {self.moved_bytes} is more than file_bytes {self.file_bytes}")
