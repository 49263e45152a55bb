"""A streaming standby of the centre's PostgreSQL: made by a base backup, promoted when the primary is gone."""

from __future__ import annotations

import subprocess
from datetime import datetime
from pathlib import Path

import psycopg
from psycopg import sql

from monitor.stack.postgres import client_program

# Replication slot: the primary keeps the write-ahead log that the standby lacks.
SLOT = "soundings_standby"
# Beyond this the primary drops the standby's log rather than fill its disk; the standby is then made anew.
LARGEST_SLOT = "20GB"
PROMOTE_WITHIN_S = 60


class StandbyError(Exception):
    """The standby was not made or promoted; the message says why, and a fix."""


def make_standby(superuser_url: str, folder: Path) -> None:
    """Copy the primary's cluster to `folder`, as a standby to start there, and let deliveries wait for it.

    Raises `StandbyError`, `PostgresError`, and `psycopg.Error` of the primary.
    """
    if folder.exists() and any(folder.iterdir()):
        raise StandbyError(f"{folder} is not empty; give an empty folder")
    with psycopg.connect(superuser_url, autocommit=True) as primary:
        if _is_standby(primary):
            raise StandbyError("that server is a standby itself; give the URL of the primary")
        slot = primary.execute("SELECT active FROM pg_replication_slots WHERE slot_name = %s", [SLOT]).fetchone()
        if slot == (True,):
            raise StandbyError(f"a standby uses the slot {SLOT} already; stop it, or make yours with pg_basebackup")
        if slot is not None:
            primary.execute("SELECT pg_drop_replication_slot(%s)", [SLOT])
        program = client_program("pg_basebackup", primary.info.server_version // 10_000)
        options = [
            "--write-recovery-conf",
            "--wal-method=stream",
            "--checkpoint=fast",
            "--create-slot",
            f"--slot={SLOT}",
        ]
        done = subprocess.run(
            [program, f"--dbname={superuser_url}", f"--pgdata={folder}", *options],
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode != 0:
            raise StandbyError(done.stderr.strip() or "pg_basebackup failed")
        _wait_for_standby_in_deliveries(primary)


def _wait_for_standby_in_deliveries(primary: psycopg.Connection) -> None:
    # Let only transactions wait that ask: others would hang without the standby.
    database = sql.Identifier(primary.info.dbname)
    primary.execute(sql.SQL("ALTER DATABASE {} SET synchronous_commit = 'local'").format(database))
    primary.execute("ALTER SYSTEM SET synchronous_standby_names = 'ANY 1 (*)'")
    primary.execute(f"ALTER SYSTEM SET max_slot_wal_keep_size = '{LARGEST_SLOT}'")
    primary.execute("SELECT pg_reload_conf()")


def promote(superuser_url: str) -> datetime | None:
    """Make the standby the primary; returns the time of the last replayed transaction.

    From then on this server alone acknowledges deliveries. Raises `StandbyError`, and `psycopg.Error`.
    """
    with psycopg.connect(superuser_url, autocommit=True) as server:
        if not _is_standby(server):
            raise StandbyError("that server is no standby: it takes writes already")
        row = server.execute(
            "SELECT pg_last_xact_replay_timestamp(), pg_promote(true, %s)", [PROMOTE_WITHIN_S]
        ).fetchone()
        if row is None or not row[1]:
            raise StandbyError(f"not promoted within {PROMOTE_WITHIN_S} s; see the server's log")
        # It came with the copy, and would let every delivery wait for a standby that is not there.
        server.execute("ALTER SYSTEM RESET synchronous_standby_names")
        server.execute("SELECT pg_reload_conf()")
        replayed_at: datetime | None = row[0]
        return replayed_at


def _is_standby(server: psycopg.Connection) -> bool:
    return server.execute("SELECT pg_is_in_recovery()").fetchone() == (True,)
