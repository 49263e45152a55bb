"""Roles and passwords of the PostgreSQL server in a data folder.

Both roles log in with a random password, stored beside the cluster in a libpq passfile that only its owner can read; so
no URL, command line or environment has a password. `APPLICATION` owns the database and is used by our processes: it can
neither run programs nor read files on the server. `SUPERUSER` sets up everything else.

No peer authentication: a server in a user namespace sees all clients as the same user, nobody.
"""

from __future__ import annotations

import hashlib
import os
import secrets
from pathlib import Path
from urllib.parse import quote

import psycopg
from psycopg import sql

from probes.private_files import replace_privately

SUPERUSER = "postgres"
APPLICATION = "soundings"
LIMITED = "soundings_limited"
"""Role that the application takes while it answers a reader with limits (`monitor.accounts.read_limits`)."""
RIGHTS = "LOGIN NOSUPERUSER NOCREATEDB NOCREATEROLE NOREPLICATION NOBYPASSRLS"
SEES_SETTINGS = "pg_read_all_settings"
"""Role that lets the application see the data directory, for its disk warnings, and the preloaded libraries."""

PASSWORD_BYTES = 32
HBA = """# Written by Soundings when it starts. Every role needs its password, also on this machine.
# The password of {superuser} is that of {digest}.
local all all scram-sha-256
local replication all scram-sha-256
"""
OWNED_BY_SUPERUSERS = (Path(__file__).parent / "sql" / "owned_by_superusers.sql").read_text()


def passfile(directory: Path, role: str) -> Path:
    """Passfile of `role` for the server whose cluster is in `directory`."""
    return directory / f"{role}.pgpass"


def url(directory: Path, socket_folder: Path, role: str, database: str) -> str:
    """Connection URL for `role`, without a secret."""
    host, file = quote(str(socket_folder)), quote(str(passfile(directory, role)))
    return f"postgresql://{role}@/{database}?host={host}&passfile={file}"


def new_password(directory: Path, role: str) -> str:
    """Create a password for `role` and store it in its file."""
    password = secrets.token_hex(PASSWORD_BYTES)
    path = passfile(directory, role)
    with replace_privately(path, path.with_suffix(".new")) as file:
        file.write(f"*:*:*:{role}:{password}\n".encode())
    return password


def is_closed(directory: Path) -> bool:
    """Whether the cluster requires passwords, and the superuser's is that stored beside it."""
    try:
        return _hba_file(directory).read_text() == _hba(directory)
    except FileNotFoundError:
        return False


def require_passwords(directory: Path) -> None:
    """Require passwords from the next start on. Call once the superuser has a password."""
    path = _hba_file(directory)
    owner = path.parent.stat()
    with replace_privately(path, path.with_suffix(".new")) as file:
        os.fchown(file.fileno(), owner.st_uid, owner.st_gid)
        file.write(_hba(directory).encode())


def make_application_role(connection: psycopg.Connection, directory: Path) -> None:
    """Create the application's role if missing, with the rights of this release and a new password."""
    set_role(connection, APPLICATION, new_password(directory, APPLICATION))


def set_role(connection: psycopg.Connection, name: str, password: str) -> None:
    """Create an application's role if missing; give it the rights of this release and the password."""
    role, limited = sql.Identifier(name), sql.Identifier(LIMITED)
    for each in (name, LIMITED):
        if connection.execute("SELECT FROM pg_roles WHERE rolname = %s", [each]).rowcount == 0:
            connection.execute(sql.SQL("CREATE ROLE {}").format(sql.Identifier(each)))
    connection.execute(sql.SQL("GRANT {} TO {}").format(limited, role))
    verifier = connection.pgconn.encrypt_password(password.encode(), name.encode(), b"scram-sha-256").decode()
    connection.execute(sql.SQL("ALTER ROLE {} {} PASSWORD {}").format(role, sql.SQL(RIGHTS), sql.Literal(verifier)))
    connection.execute(sql.SQL("GRANT {} TO {}").format(sql.Identifier(SEES_SETTINGS), role))


def give_to_application(connection: psycopg.Connection, name: str = APPLICATION) -> None:
    """Transfer the database and its superuser-owned objects, made by earlier releases, to the application.

    The connection commits each statement: all tables at once, with their chunks, could need too many locks.
    """
    # The application can create functions in the schema public, which a superuser must not call.
    connection.execute("SET search_path = pg_catalog")
    role, database = sql.Identifier(name), sql.Identifier(connection.info.dbname)
    connection.execute(sql.SQL("ALTER DATABASE {} OWNER TO {}").format(database, role))
    for kind, owned in connection.execute(OWNED_BY_SUPERUSERS).fetchall():
        connection.execute(sql.SQL("ALTER {} {} OWNER TO {}").format(sql.SQL(kind), sql.SQL(owned), role))


def _hba_file(directory: Path) -> Path:
    return directory / "cluster" / "pg_hba.conf"


def _hba(directory: Path) -> str:
    """Contents of pg_hba.conf, with a digest of the superuser's file to detect its replacement."""
    digest = hashlib.sha256(passfile(directory, SUPERUSER).read_bytes()).hexdigest()
    return HBA.format(superuser=SUPERUSER, digest=digest)
