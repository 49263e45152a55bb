"""Roles and passwords of the PostgreSQL server in a data folder.

Passwords are only in owner-readable libpq passfiles. `APPLICATION` cannot run programs or read server files. No peer
authentication: in a user namespace all clients are nobody.
"""

from __future__ import annotations

import hashlib
import os
import secrets
from pathlib import Path
from urllib.parse import quote

import psycopg
from psycopg import sql

from monitor.accounts.limited_role import LIMITED
from probes.private_files import replace_privately

SUPERUSER = "postgres"
APPLICATION = "soundings"
RIGHTS = "LOGIN NOSUPERUSER NOCREATEDB NOCREATEROLE NOREPLICATION NOBYPASSRLS"
# Role that shows the application the data directory, for disk warnings, and the preloaded libraries.
SEES_SETTINGS = "pg_read_all_settings"

PASSWORD_BYTES = 32
HBA = """# Written by Soundings when it starts. Every role needs its password, also on this machine.
# The password of {superuser} is that of {digest}.
local all all scram-sha-256
local replication all scram-sha-256
"""
OWNED_BY_SUPERUSERS = (Path(__file__).parent / "sql" / "owned_by_superusers.sql").read_text()


def passfile(directory: Path, role: str) -> Path:
    """Passfile of `role` for the server with its cluster in `directory`."""
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
    """Whether the cluster requires passwords, and the superuser's is stored beside it."""
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
    """Create the application's role if missing, and set a new password."""
    set_role(connection, APPLICATION, new_password(directory, APPLICATION))


def set_role(connection: psycopg.Connection, name: str, password: str) -> None:
    """Create a role if missing; set this release's rights and the password."""
    role, limited = sql.Identifier(name), sql.Identifier(LIMITED)
    for each in (name, LIMITED):
        if connection.execute("SELECT FROM pg_roles WHERE rolname = %s", [each]).rowcount == 0:
            connection.execute(sql.SQL("CREATE ROLE {}").format(sql.Identifier(each)))
    connection.execute(sql.SQL("GRANT {} TO {}").format(limited, role))
    verifier = connection.pgconn.encrypt_password(password.encode(), name.encode(), b"scram-sha-256").decode()
    connection.execute(sql.SQL("ALTER ROLE {} {} PASSWORD {}").format(role, sql.SQL(RIGHTS), sql.Literal(verifier)))
    connection.execute(sql.SQL("GRANT {} TO {}").format(sql.Identifier(SEES_SETTINGS), role))


def give_to_application(connection: psycopg.Connection, name: str = APPLICATION) -> None:
    """Transfer the database and its superuser-owned objects; each statement is committed, to need few locks."""
    # The application can create functions in the schema public, which a superuser must not call.
    connection.execute("SET search_path = pg_catalog")
    role, database = sql.Identifier(name), sql.Identifier(connection.info.dbname)
    connection.execute(sql.SQL("ALTER DATABASE {} OWNER TO {}").format(database, role))
    for kind, owned in connection.execute(OWNED_BY_SUPERUSERS).fetchall():
        connection.execute(sql.SQL("ALTER {} {} OWNER TO {}").format(sql.SQL(kind), sql.SQL(owned), role))


def _hba_file(directory: Path) -> Path:
    return directory / "cluster" / "pg_hba.conf"


def _hba(directory: Path) -> str:
    """pg_hba.conf, with a digest of the superuser's file to detect replacement."""
    digest = hashlib.sha256(passfile(directory, SUPERUSER).read_bytes()).hexdigest()
    return HBA.format(superuser=SUPERUSER, digest=digest)
