"""Pytest plugin: a real PostgreSQL for the tests that need a database.

Settings are read when pytest starts, so the address is fixed then; the server is started by the first test that needs
it, in each of the processes among which pytest-xdist divides the tests, on a copy of a cluster whose database is
migrated (`tests.template_cluster`). The tests have the rights of the application's role, and may create databases and
roles. SOUNDINGS_DATABASE_URL names another server to use instead (`make test-timescale` does).
"""

from __future__ import annotations

import os
import shutil
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from monitor.stack.postgres import Cluster, find
from tests import template_cluster
from tests.web_files import share_web_files

MADE_HERE = "SOUNDINGS_TEST_DATABASE_IS_MADE"

_folder = Path(tempfile.mkdtemp(prefix="soundings-test-"))
# Variables that the parent process set for itself do not count as given.
given_database_url = None if MADE_HERE in os.environ else os.environ.get("SOUNDINGS_DATABASE_URL")
cluster = None if given_database_url else Cluster(_folder / "postgres", find())
if cluster is not None:
    os.environ["SOUNDINGS_DATABASE_URL"] = template_cluster.url(cluster)
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
    template_cluster.copy_template(cluster)
    cluster.initialise()  # the folders of its sockets, and their owner
    with template_cluster.running(cluster, _folder / "log"):
        yield os.environ["SOUNDINGS_DATABASE_URL"]


def superuser_url(database: str) -> str:
    """The URL of a superuser's connection to a database of the tests' server; a given address must already be a
    superuser's."""
    if cluster is None:
        return psycopg.conninfo.make_conninfo(os.environ["SOUNDINGS_DATABASE_URL"], dbname=database)
    return cluster.superuser_url(database)


def pytest_unconfigure() -> None:
    shutil.rmtree(_folder, ignore_errors=True)
