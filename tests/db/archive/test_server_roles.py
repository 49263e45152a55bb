"""The centre's role on an external server: created without superuser rights, also where it was a superuser before."""

import secrets

import psycopg
import pytest
from psycopg.conninfo import make_conninfo

from monitor.stack.server_roles import RENAMER, RoleError, prepare
from tests.postgres import superuser_url

PASSWORD, NEW_PASSWORD = "of-the-superuser", "of-the-centre"


@pytest.fixture
def server(postgres_server):
    """A database for a single test, with names of roles that it may create; all are dropped afterwards."""
    tag = secrets.token_hex(4)
    database, centre, superuser = f"roles_{tag}", f"centre_{tag}", f"superuser_{tag}"
    with psycopg.connect(superuser_url("postgres"), autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {database}")
        try:
            yield connection, database, centre, superuser
        finally:
            connection.execute(f"DROP DATABASE {database} WITH (FORCE)")
            for role in (centre, superuser, RENAMER):
                connection.execute(f"DROP ROLE IF EXISTS {role}")


def urls(database, centre, superuser):
    """Connection strings of the superuser, and of the centre with its new password."""
    return (
        make_conninfo(superuser_url(database), user=superuser, password=PASSWORD, passfile="/nowhere"),
        make_conninfo(superuser_url(database), user=centre, password=NEW_PASSWORD, passfile="/nowhere"),
    )


def owners(url):
    """The owners of the database and its tables, and the superusers."""
    with psycopg.connect(url) as connection:
        database = connection.execute(
            "SELECT pg_get_userbyid(datdba) FROM pg_database WHERE datname = current_database()"
        ).fetchone()
        tables = connection.execute("SELECT tablename, tableowner FROM pg_tables WHERE schemaname = 'public'")
        return database[0], dict(tables.fetchall())


def is_superuser(connection, role):
    (answer,) = connection.execute("SELECT rolsuper FROM pg_roles WHERE rolname = %s", [role]).fetchone()
    return answer


def test_the_centre_gets_a_role_that_owns_the_database_only(server):
    connection, database, centre, superuser = server
    connection.execute(f"CREATE ROLE {superuser} SUPERUSER LOGIN PASSWORD '{PASSWORD}'")
    superuser_dsn, centre_dsn = urls(database, centre, superuser)

    assert [prepare(superuser_dsn, centre_dsn) for _ in range(2)] == [False, False]

    with psycopg.connect(centre_dsn) as own:
        own.execute("CREATE TABLE made_by_it (at timestamptz)")
    assert owners(centre_dsn) == (centre, {"made_by_it": centre})
    assert (is_superuser(connection, centre), is_superuser(connection, superuser)) == (False, True)


def test_the_superuser_of_an_earlier_release_is_renamed(server):
    """There the centre itself was the superuser, and owned everything; its password becomes that of the superuser."""
    connection, database, centre, superuser = server
    connection.execute(f"CREATE ROLE {centre} SUPERUSER LOGIN PASSWORD '{PASSWORD}'")
    superuser_dsn, centre_dsn = urls(database, centre, superuser)
    with psycopg.connect(make_conninfo(centre_dsn, password=PASSWORD)) as earlier:
        earlier.execute("CREATE TABLE kept AS SELECT 17 AS figure")

    assert [prepare(superuser_dsn, centre_dsn) for _ in range(2)] == [True, False]

    assert owners(centre_dsn) == (centre, {"kept": centre})
    with psycopg.connect(centre_dsn) as own:
        assert own.execute("SELECT figure FROM kept").fetchone() == (17,)
    assert (is_superuser(connection, centre), is_superuser(connection, superuser)) == (False, True)
    roles = connection.execute("SELECT rolname FROM pg_roles WHERE rolname = %s", [RENAMER]).fetchall()
    assert roles == []


def test_a_wrong_password_of_the_superuser_is_reported(server):
    connection, database, centre, superuser = server
    connection.execute(f"CREATE ROLE {superuser} SUPERUSER LOGIN PASSWORD 'another'")
    superuser_dsn, centre_dsn = urls(database, centre, superuser)

    with pytest.raises(RoleError, match=superuser):
        prepare(superuser_dsn, centre_dsn)


def test_the_superuser_is_never_the_role_of_the_centre(server):
    _, database, _, superuser = server
    superuser_dsn, _ = urls(database, superuser, superuser)

    with pytest.raises(RoleError, match="other than the superuser"):
        prepare(superuser_dsn, superuser_dsn)
