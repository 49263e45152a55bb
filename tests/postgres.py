"""Pytest plugin: a real PostgreSQL for the tests that want a database.

Settings are read when pytest starts, so the address is fixed then; the server is started by the first test that needs
it, in each of the processes among which pytest-xdist divides the tests. SOUNDINGS_DATABASE_URL names another server to
use instead (`make test-timescale` does).
"""

from __future__ import annotations

import os
import shutil
import signal
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from monitor.stack.postgres import Cluster, find
from probes.supervise import Supervisor

MADE_HERE = "SOUNDINGS_TEST_DATABASE_IS_MADE"

_folder = Path(tempfile.mkdtemp(prefix="soundings-test-"))
_folder.chmod(0o755)
# What the process that started us set for itself is not given.
given_database_url = None if MADE_HERE in os.environ else os.environ.get("SOUNDINGS_DATABASE_URL")
cluster = None if given_database_url else Cluster(_folder / "postgres", find())
if cluster is not None:
    os.environ["SOUNDINGS_DATABASE_URL"] = cluster.url
    os.environ[MADE_HERE] = "1"
os.environ["SOUNDINGS_DATA"] = str(_folder / "data")


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[str]:
    """The URL of a running PostgreSQL."""
    if cluster is None:
        yield os.environ["SOUNDINGS_DATABASE_URL"]
        return
    assert threading.current_thread() is threading.main_thread()
    supervisor = Supervisor(_folder / "log", print)
    cluster.initialise()
    child = supervisor.add("postgres", cluster.argv, stop_signal=signal.SIGINT)
    try:
        supervisor.wait_ready(child, cluster.answers, timeout_s=60)
        cluster.create_database()
        yield cluster.url
    finally:
        supervisor.stop()


def pytest_unconfigure() -> None:
    shutil.rmtree(_folder, ignore_errors=True)
