"""Separate databases on the server of the tests, and our commands as a user runs them there."""

from __future__ import annotations

import os
import subprocess
import sys
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import psycopg
from django.db import connection
from psycopg import sql
from psycopg.conninfo import make_conninfo

from tests.postgres import superuser_url

TOP = Path(__file__).resolve().parents[2]


@contextmanager
def scratch_database() -> Iterator[str]:
    """The address of an empty database, which is dropped afterwards."""
    connection.ensure_connection()
    dsn, name = connection.connection.info.dsn, f"scratch_{uuid.uuid4().hex[:8]}"
    with psycopg.connect(dsn, autocommit=True) as server:
        server.execute(sql.SQL("CREATE DATABASE {} TEMPLATE template0").format(sql.Identifier(name)))
    try:
        yield make_conninfo(dsn, dbname=name)
    finally:
        # A superuser may end autovacuum too, which may be at work there.
        with psycopg.connect(superuser_url("postgres"), autocommit=True) as server:
            server.execute(sql.SQL("DROP DATABASE {} WITH (FORCE)").format(sql.Identifier(name)))


def own_dsn() -> str:
    """The address of the tests' database."""
    connection.ensure_connection()
    return str(connection.connection.info.dsn)


def manage(dsn: str, *arguments: str) -> tuple[int, str, str]:
    """Run a management command with a database; its status, standard output and standard error."""
    done = piped({"SOUNDINGS_DATABASE_URL": dsn}, *arguments)
    return done.returncode, done.stdout.decode(), done.stderr.decode()


def piped(
    environment: Mapping[str, str], *arguments: str, stdin: bytes | None = None
) -> subprocess.CompletedProcess[bytes]:
    """Run a management command with these variables; without an address of a database it is that of its data folder."""
    values = {name: value for name, value in os.environ.items() if name != "SOUNDINGS_DATABASE_URL"}
    command = [sys.executable, "manage.py", *arguments]
    return subprocess.run(
        command, cwd=TOP, env={**values, **environment}, input=stdin, capture_output=True, check=False
    )


def execute(dsn: str, statement: str) -> None:
    with psycopg.connect(dsn) as server:
        server.execute(statement)


def rows(dsn: str, query: str) -> list[tuple]:
    with psycopg.connect(dsn) as server:
        return server.execute(query).fetchall()
