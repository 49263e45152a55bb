"""Django system checks of the database server, each with an id and a fix."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from typing import Any

from django.conf import settings
from django.core import checks
from django.core.checks import CheckMessage
from django.db import OperationalError

from monitor.archive.cold.days import ColdTotals, place
from monitor.archive.cold.files import ColdFileError
from monitor.archive.upkeep.server import Disk, Server, disk, plain_tables, server
from monitor.database_errors import START_DATABASE, first_line
from probes.commands.own_command import MANAGE

POSTGRESQL_TESTED = (17, 18)
# Versions in Debian 13 and in docker-compose.yml.
TIMESCALEDB_TESTED = ((2, 19), (2, 30))
# A day more for late results, a week for chunks that are deleted whole, and a day to be moved.
LATE_TO_FILES = timedelta(days=9)
UTC_NAMES = ("UTC", "Etc/UTC", "GMT", "Etc/GMT")
# Web 8, worker 4, beat 1, Grafana up to 10, and some for `manage.py` and `pg_dump`.
CONNECTIONS_NEEDED = 30


def check_database(databases: Sequence[str] | None = None, **_: Any) -> list[CheckMessage]:
    if "default" not in (databases or ()):
        return []
    try:
        current = server()
        return list(problems(current, disk(current), plain_tables(current)))
    except OperationalError as error:
        return [_unreachable(error)]


def problems(current: Server, space: Disk | None, plain: Sequence[str]) -> Iterator[CheckMessage]:
    """Problems of a server; `plain` tables could be hypertables."""
    yield from _check_time_zone(current)
    if current.major not in range(POSTGRESQL_TESTED[0], POSTGRESQL_TESTED[1] + 1):
        yield checks.Warning(
            f"PostgreSQL {current.version} is not a tested version ({POSTGRESQL_TESTED[0]} to {POSTGRESQL_TESTED[1]})",
            hint=f"Back up, then migrate to a tested version with pg_upgrade or `{MANAGE} archive restore`.",
            id="archive.W002",
        )
    yield from _check_timescaledb(current, plain)
    if space is not None and space.is_low:
        yield checks.Warning(
            f"the disk of the database has {space.free_bytes / 1e9:.1f} of {space.total_bytes / 1e9:.1f} GB free",
            hint="When it is full, deliveries get 503 and stay queued at the agents. Free space, or keep raw bursts "
            "for fewer days with SOUNDINGS_RETENTION_BURSTS_DAYS.",
            id="archive.W006",
        )
    if current.max_connections < CONNECTIONS_NEEDED:
        yield checks.Warning(
            f"max_connections is {current.max_connections}, the centre uses up to {CONNECTIONS_NEEDED}",
            hint=f"Set max_connections to {CONNECTIONS_NEEDED} or more and restart the server.",
            id="archive.W007",
        )


def check_cold_files(oldest: datetime | None, cold: ColdTotals, now: datetime) -> Iterator[CheckMessage]:
    """Problems of bursts in files; `oldest` is the database's oldest burst."""
    if not settings.COLD_BURSTS:
        if cold.files:
            yield checks.Warning(
                f"bursts from {cold.first} to {cold.last} are in files, and SOUNDINGS_COLD_BURSTS is not set",
                hint="Pages show these days as if their raw bursts were deleted. Name the folder of the files.",
                id="archive.W008",
            )
        return
    try:
        place()
    except ColdFileError as error:
        yield checks.Warning(
            f"bursts in files cannot be read or written: {error}", hint="Correct the variable.", id="archive.W009"
        )
        return
    if oldest is not None and now - oldest > timedelta(days=settings.COLD_BURSTS_DAYS) + LATE_TO_FILES:
        yield checks.Warning(
            f"bursts since {oldest:%Y-%m-%d} were not moved to files, as SOUNDINGS_COLD_BURSTS_DAYS="
            f"{settings.COLD_BURSTS_DAYS} says",
            hint="They stay in the database meanwhile. The log of the worker says why, in a line of `cold bursts`.",
            id="archive.W010",
        )


def _check_time_zone(current: Server) -> Iterator[CheckMessage]:
    if current.session_time_zone not in UTC_NAMES:
        yield checks.Error(
            f"the sessions of the centre have the time zone {current.session_time_zone}",
            hint="Times read back would be wrong. Leave TIME_ZONE of the settings at UTC.",
            id="archive.E001",
        )
    if current.default_time_zone not in UTC_NAMES:
        yield checks.Warning(
            f"other clients, such as psql and Grafana, see times in {current.default_time_zone}",
            hint="ALTER DATABASE … SET timezone TO 'UTC'; the centre's own sessions are in UTC.",
            id="archive.W001",
        )


def _check_timescaledb(current: Server, plain: Sequence[str]) -> Iterator[CheckMessage]:
    if current.timescaledb is None:
        if current.timescaledb_versions and current.preloads_timescaledb is False:
            yield checks.Warning(
                "TimescaleDB is installed, but the server does not preload it: the tables are plain",
                hint="Write shared_preload_libraries = 'timescaledb' into postgresql.conf and restart the server "
                f"before the first `{MANAGE} migrate`.",
                id="archive.W003",
            )
        return
    if plain:
        yield checks.Warning(
            f"TimescaleDB is installed, but these tables were created before it and are plain: {', '.join(plain)}",
            hint='They work, but deleting old data takes longer. docs/archive.md, "Plain tables", says how to '
            "convert them.",
            id="archive.W004",
        )
    least, most = TIMESCALEDB_TESTED
    if not least <= _release(current.timescaledb) <= most:
        yield checks.Warning(
            f"TimescaleDB {current.timescaledb} is not a tested version ({_dotted(least)} to {_dotted(most)})",
            hint="Back up first; ALTER EXTENSION timescaledb UPDATE updates to the installed version.",
            id="archive.W005",
        )
    if current.timescaledb_licence != "timescale":
        yield checks.Info(
            f"TimescaleDB's licence is {current.timescaledb_licence}: old bursts are not compressed",
            hint="Compression needs the Community edition: timescaledb.license = 'timescale', where it is allowed.",
            id="archive.I001",
        )


def _unreachable(error: OperationalError) -> CheckMessage:
    return checks.Error(
        f"the database cannot be used: {first_line(error)}",
        hint=f"{START_DATABASE[0].upper()}{START_DATABASE[1:]}.",
        id="archive.E002",
    )


def _release(version: str) -> tuple[int, int]:
    first, second, *_ = version.split("-")[0].split(".")
    return int(first), int(second)


def _dotted(release: tuple[int, int]) -> str:
    return ".".join(map(str, release))
