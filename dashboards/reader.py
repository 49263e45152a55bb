"""Grafana's database role: it may read the views of schema `reporting` and call its functions, nothing else.

Made anew at each deployment, after migrations, so that password and views are current. Not here:
`provisioning/datasources/soundings.yaml`.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import psycopg
from psycopg import sql

from monitor import environment
from monitor.stack.access import SUPERUSER, passfile
from monitor.stack.postgres import local_url
from probes.commands.own_command import MANAGE

ROLE = "soundings_reader"
SCHEMA = "reporting"
# Where our pages are when SOUNDINGS_PUBLIC_URL does not say.
PUBLIC_URL = "http://localhost:8000"


class ReaderError(Exception):
    """The message has reason and fix."""


@dataclass(frozen=True, slots=True)
class DatabaseAddress:
    """HOST:PORT or a Unix socket's folder."""

    host: str
    database: str


def grant_from_environment(password_file: Path) -> DatabaseAddress:
    """Make the role in SOUNDINGS_DATABASE_URL, or as superuser in `manage.py up`'s database. Raises ReaderError."""
    url = environment.read("SOUNDINGS_DATABASE_URL") or _url_of_up()
    password = _password(password_file)
    public_url = environment.read("SOUNDINGS_PUBLIC_URL", PUBLIC_URL).rstrip("/")
    try:
        with psycopg.connect(url) as connection:
            grant(connection.cursor(), password, public_url)
            host = connection.info.host
            return DatabaseAddress(
                host if host.startswith("/") else f"{host}:{connection.info.port}", connection.info.dbname
            )
    except psycopg.errors.InvalidSchemaName as error:
        raise ReaderError(f"{error.diag.message_primary}; run {MANAGE} migrate first") from error
    except psycopg.errors.InsufficientPrivilege as error:
        raise ReaderError(f"{error.diag.message_primary}; name a superuser in SOUNDINGS_DATABASE_URL") from error
    except psycopg.Error as error:
        raise ReaderError(f"{error}".strip()) from error


def grant(cursor: psycopg.Cursor, password: str, public_url: str = PUBLIC_URL) -> None:
    """Create the role if missing, set its password, grant SCHEMA's views and functions.

    Runs in the caller's transaction. Idempotent; revokes grants that only earlier releases made.
    """
    role, schema = sql.Identifier(ROLE), sql.Identifier(SCHEMA)
    cursor.execute("SELECT 1 FROM pg_roles WHERE rolname = %s", [ROLE])
    if cursor.fetchone() is None:
        cursor.execute(sql.SQL("CREATE ROLE {}").format(role))
    cursor.execute(sql.SQL("ALTER ROLE {} LOGIN PASSWORD {}").format(role, sql.Literal(password)))
    cursor.execute(sql.SQL("ALTER ROLE {} SET default_transaction_read_only = on").format(role))
    cursor.execute(sql.SQL("ALTER ROLE {} SET statement_timeout = '30s'").format(role))
    cursor.execute(sql.SQL("ALTER ROLE {} SET timezone = 'UTC'").format(role))
    cursor.execute(sql.SQL("ALTER ROLE {} SET soundings.public_url = {}").format(role, sql.Literal(public_url)))
    cursor.execute(sql.SQL("REVOKE ALL ON ALL TABLES IN SCHEMA public FROM {}").format(role))
    cursor.execute(sql.SQL("REVOKE ALL ON SCHEMA public FROM {}").format(role))
    cursor.execute(sql.SQL("GRANT USAGE ON SCHEMA {} TO {}").format(schema, role))
    cursor.execute(sql.SQL("GRANT SELECT ON ALL TABLES IN SCHEMA {} TO {}").format(schema, role))
    cursor.execute(sql.SQL("GRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA {} TO {}").format(schema, role))


def _url_of_up() -> str:
    directory = environment.data_folder() / "postgres"
    if not passfile(directory, SUPERUSER).is_file():
        raise ReaderError(
            f"{directory}: no database of {MANAGE} up; start it, set SOUNDINGS_DATA to its data folder, or name"
            " another database in SOUNDINGS_DATABASE_URL"
        )
    return local_url(directory, role=SUPERUSER)


def _password(path: Path) -> str:
    try:
        password = path.read_text(encoding="utf-8").strip()
    except OSError as error:
        raise ReaderError(f"{path}: {error.strerror}; point --password-file at a readable file") from error
    if not password:
        raise ReaderError(f"{path}: is empty; write the role's password into it")
    return password
