"""Back up the whole database with pg_dump, as a consistent snapshot, and restore it in a single transaction."""

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

from monitor.archive.statements import run_statement
from monitor.archive.upkeep.releases import Migration, compare_migrations
from monitor.archive.upkeep.server import Server, server
from monitor.stack.postgres import PostgresError, client_program, client_programs

TICK_S = 0.2
# What file systems without hard links, such as FAT, report for a hard link.
NO_HARD_LINKS = (errno.EPERM, errno.EOPNOTSUPP, errno.EMLINK, errno.ENOSYS)

# Progress callback, called repeatedly while a program runs.
Tick = Callable[[], None]


class BackupError(Exception):
    """Backup or restore failed without changes; the message has the reason and a fix."""


@dataclass(frozen=True, slots=True)
class BackupContents:
    """Metadata of a backup: versions and migrations."""

    server_major: int
    dumper_major: int
    timescaledb: str | None
    migrations: frozenset[Migration]


def back_up(file: Path, tick: Callable[[int], None], *, force: bool = False) -> None:
    """Write the database to a file readable only by its owner, named once complete; `tick` gets the bytes written.

    Replaces an existing file only with `force`. Raises `BackupError` and `PostgresError`.
    """
    require_free_name(file, force=force)
    part = file.with_name(f"{file.name}.{secrets.token_hex(4)}.part")
    try:
        descriptor = os.open(part, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
        try:
            # By descriptor: in a folder writable by others, the name could refer to another file by now.
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
    """Raises `BackupError` unless the name is free, or a regular file with `force`; devices, links and folders are
    never replaced."""
    if file.name in ("", ".."):
        raise BackupError(f"{file}: is a folder; give the name of a file")
    try:
        mode = file.lstat().st_mode
    except FileNotFoundError:
        return
    except OSError as error:
        raise BackupError(f"{file}: {error.strerror}") from error
    if not stat.S_ISREG(mode):
        raise BackupError(f"{file}: not a regular file; choose another name")
    if not force:
        raise BackupError(f"{file}: already exists; choose another name or use --force")


def _give_name(part: Path, file: Path, *, force: bool) -> None:
    # Rename; without `force`, never replace a file created meanwhile.
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
    """Write the database to a stream. Raises as `back_up` does."""
    # Through a pipe: pg_dump seeks in its standard output where that is a file, and damages it.
    with tempfile.TemporaryFile() as said, _begin(_dump(), said, stdout=subprocess.PIPE) as running:
        assert running.stdout is not None
        shutil.copyfileobj(running.stdout, out)
        _require_success(running.wait(), said)


def restore(file: Path, tick: Tick) -> list[Migration]:
    """Restore into this empty database; return migrations to apply. Raises `BackupError` and `PostgresError`."""
    backup = contents(file)
    later, missing = compare_migrations(backup.migrations)
    if later:
        raise BackupError(f"{file}: is from a later release, with {'.'.join(later[0])}; install that one first")
    _require_empty()
    _require_room_for(file, backup, server())
    program = client_program("pg_restore", max(server().major, backup.dumper_major))
    options = ["--single-transaction", "--exit-on-error", "--no-owner", "--no-privileges", f"--dbname={_target()}"]
    with connection.cursor() as cursor:
        if backup.timescaledb is not None:
            cursor.execute("SELECT timescaledb_pre_restore()")
        try:
            _run([str(program), *options, str(file)], tick)
        finally:
            if backup.timescaledb is not None:
                cursor.execute("SELECT timescaledb_post_restore()")
        cursor.execute("ANALYZE")  # backups have no planner statistics
    return missing


def contents(file: Path) -> BackupContents:
    """Read a backup's metadata. Raises `BackupError` where it is not of Soundings."""
    listed = _read(file, "--list")
    versions = re.search(r"Dumped from database version: (\d+)[^;]*; *Dumped by pg_dump version: (\d+)", listed)
    if versions is None:
        raise BackupError(f"{file}: does not name its PostgreSQL version; not a backup of Soundings")
    copied = _read(file, "--data-only", "--table=django_migrations", "--table=metadata", "--file=-")
    rows = [line.split("\t") for line in copied.splitlines()]
    migrations = frozenset((row[1], row[2]) for row in rows if len(row) == 4)
    if not any(app == "archive" for app, _ in migrations):
        raise BackupError(f"{file}: has no tables of Soundings; not a backup of Soundings")
    timescaledb = {row[1] for row in rows if len(row) == 3 and row[0] == "timescaledb_version"}
    return BackupContents(int(versions[1]), int(versions[2]), min(timescaledb, default=None), migrations)


def _require_empty() -> None:
    _, rows = run_statement("tables")
    if rows:
        name = connection.settings_dict["NAME"]
        raise BackupError(
            f'database "{name}" is not empty: it has {len(rows)} tables, such as {rows[0][0]}; nothing was changed. '
            "Create an empty database with createdb and set SOUNDINGS_DATABASE_URL to it"
        )


def _require_room_for(file: Path, backup: BackupContents, into: Server) -> None:
    """Require a server no older, and TimescaleDB of the same version."""
    if backup.server_major > into.major:
        raise BackupError(
            f"{file}: is from PostgreSQL {backup.server_major}, this server is {into.version}; "
            f"restore it into {backup.server_major} or later"
        )
    # TimescaleDB's catalogue is part of the backup.
    wanted = backup.timescaledb
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
    programs = client_programs("pg_restore")
    if not programs:
        raise PostgresError("pg_restore not found; run `make setup`, or install postgresql-client")
    command = [str(programs[max(programs)]), *options, str(file)]
    done = subprocess.run(command, capture_output=True, text=True, errors="replace", check=False)
    if done.returncode != 0:
        raise BackupError(f"{file}: {_complaint(done.stderr)}")
    return done.stdout


def _dump() -> list[str]:
    """Dump command. Raises `BackupError` without tables of Soundings."""
    _, rows = run_statement("tables")
    if ("burst",) not in rows:
        name = connection.settings_dict["NAME"]
        raise BackupError(f'database "{name}" has no tables of Soundings; is SOUNDINGS_DATABASE_URL right?')
    return [str(client_program("pg_dump", server().major)), "--format=custom", f"--dbname={_target()}"]


def _target() -> str:
    # Connection string without the password, which the process list would show.
    connection.ensure_connection()
    dsn: str = connection.connection.info.dsn
    return dsn


def _run(command: list[str], tick: Tick, pass_fds: Sequence[int] = ()) -> None:
    """Run a program to its end. Raises `BackupError` with its error message."""
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
    lines = said.strip().splitlines() or ["failed without an error message"]
    return next((line for line in lines if "error: " in line), lines[-1])
