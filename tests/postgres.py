"""Pytest plugin: a real PostgreSQL for the tests that need a database.

Settings are read when pytest starts, so the address is fixed then; the server is started by the first test that needs
it, in each of the processes among which pytest-xdist divides the tests. The tests have the rights of the application's
role, and may create databases and roles. SOUNDINGS_DATABASE_URL names another server to use instead (`make
test-timescale` does).
"""

from __future__ import annotations

import os
import shutil
import signal
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from monitor.stack import access
from monitor.stack.postgres import Cluster, find
from probes.supervision.supervise import Supervisor
from tests.web_files import share_web_files

QUICK = ("-c", "fsync=off", "-c", "full_page_writes=off")
"""Nothing of a test's database must survive a crash of the machine."""
MADE_HERE = "SOUNDINGS_TEST_DATABASE_IS_MADE"

_folder = Path(tempfile.mkdtemp(prefix="soundings-test-"))
# Variables that the parent process set for itself do not count as given.
given_database_url = None if MADE_HERE in os.environ else os.environ.get("SOUNDINGS_DATABASE_URL")
cluster = None if given_database_url else Cluster(_folder / "postgres", find())
if cluster is not None:
    # Every new database needs TimescaleDB's extension, which only a superuser may make.
    os.environ["SOUNDINGS_DATABASE_URL"] = (
        cluster.superuser_url() if cluster.distribution.has_timescaledb else cluster.url
    )
    os.environ[MADE_HERE] = "1"
os.environ["SOUNDINGS_DATA"] = str(_folder / "data")
share_web_files(_folder / "data")


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[str]:
    """The URL of a running PostgreSQL."""
    if cluster is None:
        yield os.environ["SOUNDINGS_DATABASE_URL"]
        return
    assert threading.current_thread() is threading.main_thread()
    supervisor = Supervisor(_folder / "log", print)
    cluster.initialise()
    argv = [*cluster.argv, *QUICK]
    child = supervisor.add("postgres", argv, stop_signal=signal.SIGINT)
    try:
        supervisor.wait_ready(child, cluster.answers, timeout_s=60)
        cluster.create_database()
        with psycopg.connect(cluster.superuser_url()) as connection:
            connection.execute(f"ALTER ROLE {access.APPLICATION} CREATEDB CREATEROLE")
            # Lets it create the role that Grafana reads with, and become that role.
            connection.execute(f"GRANT SET ON PARAMETER soundings.public_url TO {access.APPLICATION}")
            connection.execute(f"ALTER ROLE {access.APPLICATION} SET createrole_self_grant = 'set'")
        yield os.environ["SOUNDINGS_DATABASE_URL"]
    finally:
        supervisor.stop()


def superuser_url(database: str) -> str:
    """The URL of a superuser's connection to a database of the tests' server; a given address must already be a
    superuser's."""
    if cluster is None:
        return psycopg.conninfo.make_conninfo(os.environ["SOUNDINGS_DATABASE_URL"], dbname=database)
    return cluster.superuser_url(database)


def pytest_unconfigure() -> None:
    shutil.rmtree(_folder, ignore_errors=True)
