"""Properties of the database server: settings, versions, free disk space, and hypertables."""

from __future__ import annotations

import os
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

from django.db import connection

from monitor.archive.statements import records, run_statement

# Tables that migrations make hypertables with TimescaleDB, and their time column.
HYPERTABLES = {
    "burst": "measured_at",
    "throughput_test": "measured_at",
    "burst_hour": "hour",
    "capacity_result": "measured_at",
    "interface_result": "measured_at",
    "trace": "measured_at",
    "direction_burst": "measured_at",
}
LEAST_FREE_RATIO = 0.1
LEAST_FREE_BYTES = 2**30


@dataclass(frozen=True, slots=True)
class Server:
    """Settings and versions of the server; None where not visible or not installed."""

    version_number: int
    session_time_zone: str
    default_time_zone: str
    max_connections: int
    cache_bytes: int  # effective_cache_size: memory for data, set by the administrator
    database_bytes: int
    data_directory: str | None
    timescaledb: str | None  # version in this database
    timescaledb_versions: list[str] | None  # available versions
    preloads_timescaledb: bool | None
    timescaledb_licence: str | None

    @property
    def major(self) -> int:
        return self.version_number // 10_000

    @property
    def version(self) -> str:
        return f"{self.major}.{self.version_number % 10_000}"


@dataclass(frozen=True, slots=True)
class Disk:
    total_bytes: int
    free_bytes: int

    @property
    def is_low(self) -> bool:
        return self.free_bytes < max(LEAST_FREE_BYTES, LEAST_FREE_RATIO * self.total_bytes)


def server() -> Server:
    return records(Server, *run_statement("server"))[0]


def disk(of: Server) -> Disk | None:
    """Disk of the server; None on another machine or with an invisible data directory."""
    is_here = connection.settings_dict["HOST"].startswith("/")
    if of.data_directory is None or not is_here or not Path(of.data_directory).is_dir():
        return None
    stat = os.statvfs(of.data_directory)
    return Disk(total_bytes=stat.f_blocks * stat.f_frsize, free_bytes=stat.f_bavail * stat.f_frsize)


@dataclass(frozen=True, slots=True)
class Hypertable:
    name: str
    chunk_interval: timedelta


def hypertables(of: Server) -> list[Hypertable]:
    return records(Hypertable, *run_statement("hypertables")) if of.timescaledb else []


def plain_tables(of: Server) -> list[str]:
    """Tables of `HYPERTABLES` still plain although TimescaleDB is available."""
    if of.timescaledb is None:
        return []
    there = HYPERTABLES.keys() & set(connection.introspection.table_names())
    return sorted(there - {table.name for table in hypertables(of)})
