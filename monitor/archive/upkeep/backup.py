"""The whole database into one file, and back into an empty one.

In and out: a file of pg_dump's custom format. A backup is one snapshot, taken while results are delivered. A restore is
one transaction: everything or nothing. PostgreSQL's own programs do the work; `monitor.stack.postgres` finds them.
"""

from __future__ import annotations

import errno
import os
import re
import secrets
import shutil
import stat
import subprocess
import tempfile
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, BinaryIO

from django.db import Error, connection
from django.db.migrations.loader import MigrationLoader

from monitor.archive.statements import ask
from monitor.archive.upkeep.server import Server, server
from monitor.stack.postgres import PostgresError, client_program, client_programs

TICK_S = 0.2
# What file systems without hard links, such as FAT, say of one.
NO_HARD_LINKS = (errno.EPERM, errno.EOPNOTSUPP, errno.EMLINK, errno.ENOSYS)

Migration = tuple[str, str]
Tick = Callable[[], None]
"""Called again and again while a program works, to show that it does."""


class BackupError(Exception):
    """No backup could be made, or a file could not be restored; says why and what to do. Nothing was changed."""


@dataclass(frozen=True, slots=True)
class Contents:
    """What a backup says of itself: the server and the program that it is from, and what the database had."""

    server_major: int
    dumper_major: int
    timescaledb: str | None
    migrations: frozenset[Migration]


def back_up(file: Path, tick: Callable[[int], None], *, force: bool = False) -> None:
    """Write the database into a file that only its owner may read, and that has its name only when it is whole.

    `tick` is called again and again with the bytes written. A file that is there is replaced with `force` only.
    Raises `BackupError` and `PostgresError`.
    """
    require_free_name(file, force=force)
    part = file.with_name(f"{file.name}.{secrets.token_hex(4)}.part")
    try:
        descriptor = os.open(part, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
        try:
            # By its descriptor: the name could be another file's by now, in a folder that others may write to.
            command = [*_dump(), f"--file=/dev/fd/{descriptor}"]
            _run(command, lambda: tick(os.fstat(descriptor).st_size), pass_fds=[descriptor])
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
        _give_name(part, file, force=force)
    except OSError as error:
        raise BackupError(f"{file}: {error.strerror}") from error
    finally:
        with suppress(OSError):
            part.unlink()


def require_free_name(file: Path, *, force: bool = False) -> None:
    """Raises `BackupError` where a backup may not have this name: it is taken, and not by a regular file that `force`
    lets it replace. Devices, links and folders stay what they are."""
    if file.name in ("", ".."):
        raise BackupError(f"{file}: is a folder; name a file in it")
    try:
        mode = file.lstat().st_mode
    except FileNotFoundError:
        return
    except OSError as error:
        raise BackupError(f"{file}: {error.strerror}") from error
    if not stat.S_ISREG(mode):
        raise BackupError(f"{file}: is no regular file, and is not replaced; name another")
    if not force:
        raise BackupError(f"{file}: is there already; name another, or replace it with --force")


def _give_name(part: Path, file: Path, *, force: bool) -> None:
    """Give a whole backup its name. Without `force`, a file that came to be there meanwhile stays too."""
    if not force:
        try:
            os.link(part, file)
        except FileExistsError:
            require_free_name(file)
        except OSError as error:
            if error.errno not in NO_HARD_LINKS:
                raise
        else:
            return
    require_free_name(file, force=force)
    part.replace(file)


def back_up_into(out: BinaryIO) -> None:
    """Write the database into a stream. Raises as `back_up` does."""
    # By a pipe: pg_dump spoils its file where its standard output is one.
    with tempfile.TemporaryFile() as said, _begin(_dump(), said, stdout=subprocess.PIPE) as running:
        assert running.stdout is not None
        shutil.copyfileobj(running.stdout, out)
        _require_success(running.wait(), said)


def restore(file: Path, tick: Tick) -> list[Migration]:
    """Put a backup into this database, which must be empty; returns the migrations that it still needs.

    Raises `BackupError` and `PostgresError`.
    """
    found, known = contents(file), MigrationLoader(None, ignore_no_migrations=True).disk_migrations.keys()
    later = sorted(found.migrations - known)
    if later:
        raise BackupError(f"{file}: is from a later release, with {'.'.join(later[0])}; install that one first")
    _require_empty()
    _require_room_for(file, found, server())
    program = client_program("pg_restore", max(server().major, found.dumper_major))
    options = ["--single-transaction", "--exit-on-error", "--no-owner", "--no-privileges", f"--dbname={_target()}"]
    with connection.cursor() as cursor:
        if found.timescaledb is not None:
            cursor.execute("SELECT timescaledb_pre_restore()")
        try:
            _run([str(program), *options, str(file)], tick)
        finally:
            if found.timescaledb is not None:
                cursor.execute("SELECT timescaledb_post_restore()")
        cursor.execute("ANALYZE")  # a backup has no statistics, without which the planner is lost
    return sorted(known - found.migrations)


def contents(file: Path) -> Contents:
    """What is in a backup. Raises `BackupError` where it is none of ours."""
    listed = _read(file, "--list")
    versions = re.search(r"Dumped from database version: (\d+)[^;]*; *Dumped by pg_dump version: (\d+)", listed)
    if versions is None:
        raise BackupError(f"{file}: does not say which PostgreSQL it is from; it is no backup of Soundings")
    copied = _read(file, "--data-only", "--table=django_migrations", "--table=metadata", "--file=-")
    rows = [line.split("\t") for line in copied.splitlines()]
    migrations = frozenset((row[1], row[2]) for row in rows if len(row) == 4)
    if not any(app == "archive" for app, _ in migrations):
        raise BackupError(f"{file}: has no tables of Soundings; it is a backup of something else")
    timescaledb = {row[1] for row in rows if len(row) == 3 and row[0] == "timescaledb_version"}
    return Contents(int(versions[1]), int(versions[2]), min(timescaledb, default=None), migrations)


def _require_empty() -> None:
    _, rows = ask("tables")
    if rows:
        name = connection.settings_dict["NAME"]
        raise BackupError(
            f'database "{name}" is not empty: it has {len(rows)} tables, such as {rows[0][0]}; nothing was changed. '
            "Make an empty one with createdb, and name that in SOUNDINGS_DATABASE_URL"
        )


def _require_room_for(file: Path, found: Contents, into: Server) -> None:
    """The server must be as new as that of the backup. TimescaleDB's catalogue comes with the rest, so it must be of
    the very same version."""
    if found.server_major > into.major:
        raise BackupError(
            f"{file}: is from PostgreSQL {found.server_major}, this server is {into.version}; "
            f"restore it into {found.server_major} or later"
        )
    wanted = found.timescaledb
    if wanted is None or wanted == into.timescaledb:
        return
    if into.timescaledb is not None:
        raise BackupError(
            f"{file}: is from TimescaleDB {wanted}, this database has {into.timescaledb}; in the empty database, DROP "
            f"EXTENSION timescaledb, CREATE EXTENSION timescaledb VERSION '{wanted}', restore, then ALTER EXTENSION "
            "timescaledb UPDATE"
        )
    if wanted not in (into.timescaledb_versions or ()):
        has = ", ".join(sorted(into.timescaledb_versions or ())) or "none"
        raise BackupError(
            f"{file}: needs TimescaleDB {wanted}, this server has {has}; restore it where that version is installed "
            "and preloaded"
        )
    try:
        with connection.cursor() as cursor:
            cursor.execute(f"CREATE EXTENSION timescaledb VERSION '{wanted}'")
    except Error as error:
        raise BackupError(f"{file}: needs TimescaleDB {wanted}: {error}") from error


def _read(file: Path, *options: str) -> str:
    """What the newest pg_restore, which reads the files of all, says of a backup."""
    programs = client_programs("pg_restore")
    if not programs:
        raise PostgresError("pg_restore is nowhere to be found; run `make setup`, or install postgresql-client")
    command = [str(programs[max(programs)]), *options, str(file)]
    done = subprocess.run(command, capture_output=True, text=True, errors="replace", check=False)
    if done.returncode != 0:
        raise BackupError(f"{file}: {_complaint(done.stderr)}")
    return done.stdout


def _dump() -> list[str]:
    """The command that writes the database. Raises `BackupError` where there is nothing of ours in it."""
    _, rows = ask("tables")
    if ("burst",) not in rows:
        name = connection.settings_dict["NAME"]
        raise BackupError(f'database "{name}" has no tables of Soundings; is it the right one?')
    return [str(client_program("pg_dump", server().major)), "--format=custom", f"--dbname={_target()}"]


def _target() -> str:
    """How to connect to our database, without the password, which all could read in the list of processes."""
    connection.ensure_connection()
    dsn: str = connection.connection.info.dsn
    return dsn


def _run(command: list[str], tick: Tick, pass_fds: Sequence[int] = ()) -> None:
    """Run a program to its end. Raises `BackupError` with what it complained of where it failed."""
    with tempfile.TemporaryFile() as said, _begin(command, said, subprocess.DEVNULL, pass_fds) as running:
        while running.poll() is None:
            with suppress(subprocess.TimeoutExpired):
                running.wait(TICK_S)
            tick()
        _require_success(running.returncode, said)


def _begin(command: list[str], said: IO[bytes], stdout: int, pass_fds: Sequence[int] = ()) -> subprocess.Popen[bytes]:
    environment = {**os.environ, "PGPASSWORD": connection.connection.info.password}
    return subprocess.Popen(
        command, env=environment, stdin=subprocess.DEVNULL, stdout=stdout, stderr=said, pass_fds=pass_fds
    )


def _require_success(status: int, said: IO[bytes]) -> None:
    if status != 0:
        said.seek(0)
        raise BackupError(_complaint(said.read().decode(errors="replace")))


def _complaint(said: str) -> str:
    """The line that matters of what a program of PostgreSQL said."""
    lines = said.strip().splitlines() or ["it failed without a word"]
    return next((line for line in lines if "error: " in line), lines[-1])
