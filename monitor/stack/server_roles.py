"""The centre's role on a PostgreSQL server not started by us; it owns the database and is no superuser."""

from __future__ import annotations

import secrets

import psycopg
from psycopg import sql
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from monitor.stack import access

# A superuser for the moment of the renaming: no role can rename itself.
RENAMER = "soundings_renamer"


class RoleError(Exception):
    """The role could not be made; the message says why and how to fix it."""


def prepare(superuser_url: str, application_url: str) -> bool:
    """Make the application's role and transfer its database; returns whether a role was renamed. Idempotent.

    Raises `RoleError`, and `psycopg.OperationalError` where the server does not answer.
    """
    application = conninfo_to_dict(application_url)
    name, password = application.get("user"), application.get("password")
    superuser = conninfo_to_dict(superuser_url).get("user")
    if not name or not password or name == superuser:
        raise RoleError(
            "SOUNDINGS_DATABASE_URL must have a role other than the superuser, and its password; write "
            "postgresql://soundings:password@host:port/name"
        )
    renamed = _rename_superuser(superuser_url, str(superuser), str(name))
    with psycopg.connect(superuser_url, autocommit=True) as connection:
        connection.execute(sql.SQL("DROP ROLE IF EXISTS {}").format(sql.Identifier(RENAMER)))
        access.set_role(connection, str(name), str(password))
        access.give_to_application(connection, str(name))
    return renamed


def _rename_superuser(superuser_url: str, superuser: str, name: str) -> bool:
    # Rename an earlier release's superuser; returns whether there was any.
    try:
        psycopg.connect(superuser_url).close()
    except psycopg.OperationalError as error:
        earlier_url = make_conninfo(superuser_url, user=name)
        if not _is_superuser(earlier_url):
            raise RoleError(
                f"the superuser {superuser} cannot log in, and there is no superuser {name} with that password, as "
                f"earlier releases had: {str(error).strip()}"
            ) from error
    else:
        return False
    password = secrets.token_urlsafe(32)
    renamer = sql.Identifier(RENAMER)
    with psycopg.connect(earlier_url, autocommit=True) as connection:
        connection.execute(sql.SQL("DROP ROLE IF EXISTS {}").format(renamer))
        connection.execute(sql.SQL("CREATE ROLE {} SUPERUSER LOGIN PASSWORD {}").format(renamer, sql.Literal(password)))
    with psycopg.connect(make_conninfo(superuser_url, user=RENAMER, password=password), autocommit=True) as connection:
        connection.execute(
            sql.SQL("ALTER ROLE {} RENAME TO {}").format(sql.Identifier(name), sql.Identifier(superuser))
        )
    return True


def _is_superuser(url: str) -> bool:
    try:
        with psycopg.connect(url) as connection:
            row = connection.execute("SELECT rolsuper FROM pg_roles WHERE rolname = current_user").fetchone()
    except psycopg.OperationalError:
        return False
    return row is not None and bool(row[0])
