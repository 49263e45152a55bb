"""A PostgreSQL cluster with the migrated database of the tests, made once and copied by each process that needs it.

In: the files that the database depends on, and an installation of PostgreSQL. Out: a folder for `Cluster`. Templates
lie in .cache/clusters, or in the folder SOUNDINGS_TEST_CLUSTERS, by the hash of both; those not used for a day are
removed.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import django
import psycopg
from psycopg.conninfo import make_conninfo

from monitor.stack import access
from monitor.stack.postgres import Cluster, Distribution
from probes.supervision.supervise import Supervisor

TOP = Path(__file__).resolve().parents[1]
FOLDER = Path(os.environ.get("SOUNDINGS_TEST_CLUSTERS", TOP / ".cache" / "clusters"))
DATABASE = "test_soundings"
QUICK = ("-c", "fsync=off", "-c", "full_page_writes=off")
"""Nothing of a test's database must survive a crash of the machine."""
DEPENDS_ON = (
    "monitor/*/migrations/*.py",
    "monitor/accounts/*.py",  # what is done after each migration
    "monitor/archive/fields.py",
    "monitor/archive/upkeep/chunks.py",
    "monitor/stack/access.py",
    "monitor/stack/postgres.py",
    "tests/template_cluster.py",
)
KEPT_UNUSED_S = 24 * 3600.0


def copy_template(cluster: Cluster) -> None:
    """Fill the folder of a cluster that does not exist yet; makes the template first where there is none."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    # Two processes may need the same template at once, and neither may copy one that the other removes.
    with _locked(FOLDER / "lock"):
        template = FOLDER / digest(TOP, cluster.distribution)
        if not template.exists():
            _make(template, cluster.distribution)
        os.utime(template)
        remove_unused(FOLDER, time.time())
        _copy(template, cluster.directory)


def digest(top: Path, distribution: Distribution) -> str:
    """The hash of all that a migrated database depends on."""
    version = subprocess.run([distribution.bin_dir / "postgres", "--version"], capture_output=True, check=True).stdout
    hashed = hashlib.sha256(version + f"{django.__version__} {distribution.has_timescaledb}\n".encode())
    for control in sorted(Path("/usr/share/postgresql").glob("*/extension/timescaledb.control")):
        hashed.update(control.read_bytes())
    for path in sorted(path for pattern in DEPENDS_ON for path in top.glob(pattern)):
        content = path.read_bytes()
        hashed.update(f"{path.relative_to(top)} {len(content)}\n".encode() + content)
    return hashed.hexdigest()[:16]


def remove_unused(folder: Path, now_s: float) -> None:
    """Remove templates not used for a day, and what an interrupted process left."""
    for path in folder.iterdir():
        if path.is_dir() and (path.suffix or path.stat().st_mtime < now_s - KEPT_UNUSED_S):
            shutil.rmtree(path)


@contextmanager
def running(cluster: Cluster, log: Path) -> Iterator[None]:
    """Run the cluster's server for the duration of the context."""
    supervisor = Supervisor(log, print)
    child = supervisor.add("postgres", [*cluster.argv, *QUICK], stop_signal=signal.SIGINT)
    try:
        supervisor.wait_ready(child, cluster.answers, timeout_s=60)
        yield
    finally:
        supervisor.stop()


def url(cluster: Cluster) -> str:
    """The URL as which the tests connect: of the application, or where every new database needs TimescaleDB's
    extension, which only a superuser may create, of the superuser."""
    return cluster.superuser_url() if cluster.distribution.has_timescaledb else cluster.url


def _make(template: Path, distribution: Distribution) -> None:
    """Make a template in a private folder, and rename it into place when it is complete."""
    private = Path(tempfile.mkdtemp(prefix="soundings-template-"))
    try:
        cluster = Cluster(private / "postgres", distribution)
        cluster.initialise()
        with running(cluster, private / "log"):
            _make_database(cluster, private / "data")
        part = template.with_suffix(".part")
        shutil.rmtree(part, ignore_errors=True)
        _copy(cluster.directory, part)
        part.rename(template)
    finally:
        shutil.rmtree(private, ignore_errors=True)


def _make_database(cluster: Cluster, data: Path) -> None:
    cluster.create_database()
    with psycopg.connect(cluster.superuser_url()) as connection:
        connection.execute(f"ALTER ROLE {access.APPLICATION} CREATEDB CREATEROLE")
        # Lets it create the role that Grafana reads with, and become that role.
        connection.execute(f"GRANT SET ON PARAMETER soundings.public_url TO {access.APPLICATION}")
        connection.execute(f"ALTER ROLE {access.APPLICATION} SET createrole_self_grant = 'set'")
    with psycopg.connect(url(cluster), autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {DATABASE}")
    subprocess.run(
        [sys.executable, "manage.py", "migrate", "--run-syncdb", "--skip-checks", "-v0"],
        cwd=TOP,
        env={
            **os.environ,
            "SOUNDINGS_DATABASE_URL": make_conninfo(url(cluster), dbname=DATABASE),
            "SOUNDINGS_DATA": str(data),
            "DJANGO_SETTINGS_MODULE": "monitor.settings",
        },
        check=True,
    )


def _copy(source: Path, target: Path) -> None:
    subprocess.run(["cp", "--archive", "--reflink=auto", str(source), str(target)], check=True)


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
