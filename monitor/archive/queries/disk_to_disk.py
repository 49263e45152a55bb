"""Disk-to-disk measurements of a path over a period, with their verdicts."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from monitor.archive.statements import check_period, select


@dataclass(frozen=True, slots=True)
class DiskToDiskPoint:
    """A measurement. Rates are in bit/s, None where not measured; `sentence` is the verdict with its evidence."""

    at: datetime
    test: str
    outcome: str
    tool: str
    streams: int
    file_bytes: int | None
    moved_bytes: int | None
    moving_s: float | None
    syncing_s: float | None
    disk_to_disk_bps: float | None
    memory_to_memory_bps: float | None
    read_bps: float | None
    read_cached_ratio: float | None
    write_bps: float | None
    is_verified: bool | None
    verdict: str | None
    sentence: str | None
    detail: str | None


def disk_to_disk_series(path_id: int, since: datetime, until: datetime) -> list[DiskToDiskPoint]:
    """All disk-to-disk measurements of a path that began in the period, oldest first, whatever their outcome."""
    check_period(since, until)
    return select(DiskToDiskPoint, "disk_to_disk_series", path_id=path_id, since=since, until=until)
