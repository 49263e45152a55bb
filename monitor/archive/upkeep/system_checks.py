"""Django's system checks of the database: what of the server is not as the archive needs it.

`manage.py check --database default`, `manage.py migrate` and `manage.py archive status` show them. In: what the server
says of itself, by `monitor.archive.upkeep.server`. Out: Django's messages, each with an id and what to do.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from django.core import checks
from django.core.checks import CheckMessage
from django.db import OperationalError

from monitor.archive.upkeep.server import Disk, Server, disk, plain_tables, server

POSTGRESQL_TESTED = (17, 18)
TIMESCALEDB_TESTED = ((2, 19), (2, 30))
"""What Debian 13 packages, and what docker-compose.yml runs."""
UTC_NAMES = ("UTC", "Etc/UTC", "GMT", "Etc/GMT")
CONNECTIONS_NEEDED = 30
"""Web 8, worker 4, beat 1, Grafana up to 10, and some for whoever looks: `manage.py` and `pg_dump`."""


def check_database(databases: Sequence[str] | None = None, **_: Any) -> list[CheckMessage]:
    """Django's system check of the database: what is not as the archive needs it."""
    if "default" not in (databases or ()):
        return []
    try:
        found = server()
        return list(problems(found, disk(found), plain_tables(found)))
    except OperationalError as error:
        return [_away(error)]


def problems(found: Server, space: Disk | None, plain: Sequence[str]) -> Iterator[CheckMessage]:
    """What of a server is not as it should be. `plain` are the tables that TimescaleDB could have in chunks."""
    yield from _of_time_zone(found)
    if found.major not in range(POSTGRESQL_TESTED[0], POSTGRESQL_TESTED[1] + 1):
        yield checks.Warning(
            f"PostgreSQL {found.version} is not among the tested, {POSTGRESQL_TESTED[0]} to {POSTGRESQL_TESTED[1]}",
            hint="Back up, and go to a tested one with pg_upgrade or by `manage.py archive restore`.",
            id="archive.W002",
        )
    yield from _of_timescaledb(found, plain)
    if space is not None and space.is_low:
        yield checks.Warning(
            f"the disk of the database has {space.free_bytes / 1e9:.1f} of {space.total_bytes / 1e9:.1f} GB free",
            hint="When it is full, deliveries are answered 503 and wait at the agents. Make room, or keep raw bursts "
            "for fewer days with SOUNDINGS_RETENTION_BURSTS_DAYS.",
            id="archive.W006",
        )
    if found.max_connections < CONNECTIONS_NEEDED:
        yield checks.Warning(
            f"max_connections is {found.max_connections}, the centre uses up to {CONNECTIONS_NEEDED}",
            hint=f"Set max_connections to {CONNECTIONS_NEEDED} or more and start the server anew.",
            id="archive.W007",
        )


def _of_time_zone(found: Server) -> Iterator[CheckMessage]:
    if found.session_time_zone not in UTC_NAMES:
        yield checks.Error(
            f"the sessions of the centre have the time zone {found.session_time_zone}",
            hint="What is read back would be off. Leave TIME_ZONE of the settings at UTC.",
            id="archive.E001",
        )
    if found.default_time_zone not in UTC_NAMES:
        yield checks.Warning(
            f"others than the centre, as psql and Grafana, see times of {found.default_time_zone}",
            hint="ALTER DATABASE … SET timezone TO 'UTC'; the centre's own sessions are in UTC.",
            id="archive.W001",
        )


def _of_timescaledb(found: Server, plain: Sequence[str]) -> Iterator[CheckMessage]:
    if found.timescaledb is None:
        if found.timescaledb_versions and found.preloads_timescaledb is False:
            yield checks.Warning(
                "TimescaleDB is installed, but the server does not preload it: the tables are plain",
                hint="Write shared_preload_libraries = 'timescaledb' into postgresql.conf and start the server anew, "
                "before the first `manage.py migrate`.",
                id="archive.W003",
            )
        return
    if plain:
        yield checks.Warning(
            f"TimescaleDB is there, but these tables are plain, made before it was: {', '.join(plain)}",
            hint='They work, but deleting what is old takes longer. docs/archive.md, "Plain tables", says how to '
            "convert them.",
            id="archive.W004",
        )
    least, most = TIMESCALEDB_TESTED
    if not least <= _release(found.timescaledb) <= most:
        yield checks.Warning(
            f"TimescaleDB {found.timescaledb} is not among the tested, {_dotted(least)} to {_dotted(most)}",
            hint="Back up before you go on; ALTER EXTENSION timescaledb UPDATE takes what the server has installed.",
            id="archive.W005",
        )
    if found.timescaledb_licence != "timescale":
        yield checks.Info(
            f"TimescaleDB's licence is {found.timescaledb_licence}: old bursts are not compressed",
            hint="Compression needs the Community edition: timescaledb.license = 'timescale', where it is allowed.",
            id="archive.I001",
        )


def _away(error: OperationalError) -> CheckMessage:
    return checks.Error(
        f"the database cannot be used: {str(error).partition(chr(10))[0]}",
        hint="Start it with manage.py up, or set SOUNDINGS_DATABASE_URL.",
        id="archive.E002",
    )


def _release(version: str) -> tuple[int, int]:
    """The first two numbers, as those of 2.19.3."""
    first, second, *_ = version.split("-")[0].split(".")
    return int(first), int(second)


def _dotted(release: tuple[int, int]) -> str:
    return ".".join(map(str, release))
