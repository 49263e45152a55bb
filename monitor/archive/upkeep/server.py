"""The database server: what it says of itself, what its disk has left, and which tables it keeps in chunks.

What of that is not as it should be is told by `monitor.archive.upkeep.system_checks`.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

from django.db import connection

from monitor.archive.statements import ask, records

HYPERTABLES = {
    "burst": "measured_at",
    "throughput_test": "measured_at",
    "burst_hour": "hour",
    "capacity_result": "measured_at",
}
"""The tables that migrations make hypertables where the server has TimescaleDB, and the time that parts them."""
LEAST_FREE_RATIO = 0.1
LEAST_FREE_BYTES = 2**30


@dataclass(frozen=True, slots=True)
class Server:
    """What the server says of itself; None where it does not tell this user, and of TimescaleDB where it has none.

    `timescaledb` is the version that this database uses, `timescaledb_versions` those that could be used. `cache_bytes`
    is effective_cache_size: how much memory its administrator says that there is for data.
    """

    version_number: int
    session_time_zone: str
    default_time_zone: str
    max_connections: int
    cache_bytes: int
    database_bytes: int
    data_directory: str | None
    timescaledb: str | None
    timescaledb_versions: list[str] | None
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
    """The file system that the data are on."""

    total_bytes: int
    free_bytes: int

    @property
    def is_low(self) -> bool:
        return self.free_bytes < max(LEAST_FREE_BYTES, LEAST_FREE_RATIO * self.total_bytes)


def server() -> Server:
    """The server of this database."""
    return records(Server, *ask("server"))[0]


def disk(of: Server) -> Disk | None:
    """The disk of the server; None where it is not on this machine or does not say where its data are."""
    is_here = connection.settings_dict["HOST"].startswith("/")
    if of.data_directory is None or not is_here or not Path(of.data_directory).is_dir():
        return None
    found = os.statvfs(of.data_directory)
    return Disk(total_bytes=found.f_blocks * found.f_frsize, free_bytes=found.f_bavail * found.f_frsize)


@dataclass(frozen=True, slots=True)
class Hypertable:
    """A table in chunks, and how much time the next of them will span."""

    name: str
    chunk_interval: timedelta


def hypertables(of: Server) -> list[Hypertable]:
    """The tables in chunks, by name; none without TimescaleDB."""
    return records(Hypertable, *ask("hypertables")) if of.timescaledb else []


def plain_tables(of: Server) -> list[str]:
    """Those of `HYPERTABLES` that TimescaleDB could keep in chunks and does not, by name."""
    if of.timescaledb is None:
        return []
    there = HYPERTABLES.keys() & set(connection.introspection.table_names())
    return sorted(there - {table.name for table in hypertables(of)})
