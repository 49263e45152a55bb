"""The disk of the database is full: deliveries are refused as a whole, agents lose nothing, and storing resumes when
there is space. The disk is a small separate file system, visible only to the stack."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import urllib.error
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path

import msgspec
import psycopg
import pytest

from monitor.stack import access
from monitor.stack.postgres import local_url
from probes.site import identity
from probes.site.spool.results import COUNT
from probes.site.wire import IDENTITY_HEADER
from tests.db.mesh_of_three import batch, burst, delivered
from tests.e2e.stack import TOP, running_stack, wait_for
from tests.e2e.test_up import OWN_SITES
from tests.postgres import given_database_url

# $5 is the folder of --data.
ON_SMALL_DISK = [
    *("unshare", "--mount", "--propagation=private", "sh", "-c"),
    'mkdir -p "$5/postgres/cluster" && mount -t tmpfs -o size=256m soundings "$5/postgres/cluster" && exec "$@"',
    "sh",
]
RESULTS = 2000
FULL = "the disk of the database is full"


@pytest.fixture
def stack(tmp_path, root_required):
    if given_database_url is not None:
        pytest.skip("the disk must be that of a server of its own")
    (tmp_path / "mesh.toml").write_text(OWN_SITES.replace("every_s = 10", "every_s = 5"))
    with running_stack("--mesh", str(tmp_path / "mesh.toml"), prefix=ON_SMALL_DISK) as stack:
        yield stack


@pytest.fixture
def ballast(stack):
    """A file on the small disk, as visible to the stack."""
    return Path(f"/proc/{stack.process.pid}/root{stack.data}/postgres/cluster/ballast")


def fill(ballast):
    """Fill the disk until not a page more fits."""
    with ballast.open("wb", buffering=0) as file:
        for size in (2**20, 2**12):
            with suppress(OSError):  # only an error shows that it is full
                while file.write(bytes(size)):
                    continue
    space = os.statvfs(ballast)
    assert space.f_bavail * space.f_frsize < 2**13


def ask(stack, query):
    """Ask over a connection opened while there was space, as long as it lasts: a new connection may have to write a
    file."""
    connection = getattr(stack, "connection", None)
    if connection is None or connection.closed:
        connection = stack.connection = psycopg.connect(stack.database_url, autocommit=True)
    answer = connection.execute(query)
    return [] if answer.description is None else answer.fetchall()


def deliver(stack, path_id, number):
    """Post a large batch as the agent of the site, in its own spool: status, headers, and the answer's text."""
    begin = datetime.now(UTC) - timedelta(days=1)
    results = [
        delivered(path_id, burst(1.0, 2.0, None, at=begin + timedelta(milliseconds=n)), RESULTS * number + n)
        for n in range(RESULTS)
    ]
    body = msgspec.json.encode(batch(*results, number=number, spool="large"))
    headers = {
        "Authorization": f"Bearer {(stack.data / 'sites' / 'here' / 'token').read_text().strip()}",
        "Content-Type": "application/json",
        IDENTITY_HEADER: str(identity.read(stack.data / "sites" / "here" / "identity.json")),
    }
    request = urllib.request.Request(f"http://127.0.0.1:{stack.port}/api/agent/results", body, headers)
    try:
        with urllib.request.urlopen(request, timeout=60) as answer:
            return answer.status, answer.headers, json.load(answer)
    except urllib.error.HTTPError as error:
        return error.code, error.headers, json.load(error)


@contextmanager
def turned_away_again_and_again(stack, path_id, number):
    """Deliver a batch that does not fit all the time: the status takes seconds, in which small batches may fit."""
    over = threading.Event()

    def deliver_until_over():
        while not over.wait(0.1):
            assert deliver(stack, path_id, number)[0] == 503

    with ThreadPoolExecutor(1) as pool:
        delivering = pool.submit(deliver_until_over)
        try:
            yield
        finally:
            over.set()
        delivering.result()


def stored(stack, number):
    """The stored rows of a large batch: itself, its bursts, and the days recorded for it."""
    return ask(
        stack,
        f"SELECT (SELECT count(*) FROM received_batch WHERE spool = 'large' AND number = {number}), "
        f"(SELECT count(*) FROM delivered_day WHERE spool = 'large' AND sequences @> {RESULTS * number}::bigint)",
    )[0]


def status(stack):
    """`archive status` on the machine of the stack; empty where the server has no space for a connection's own file."""
    inside = ["nsenter", "--mount", f"--target={stack.process.pid}", f"--wd={TOP}"]
    environment = {**os.environ, "SOUNDINGS_DATABASE_URL": stack.database_url, "SOUNDINGS_DATA": str(stack.data)}
    command = [*inside, sys.executable, "manage.py", "archive", "status"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if "could not write init file: No space left on device" in done.stderr:
        return ""
    assert done.returncode == 0, done.stderr
    return done.stdout


def spooled(stack):
    """The number of results that the agent has ever spooled, and the number that still wait."""
    with stack.spool("here") as spool:
        ever = spool.execute("SELECT seq FROM sqlite_sequence WHERE name = 'result'").fetchone()[0]
        return ever, spool.execute(f"SELECT {COUNT} FROM result").fetchone()[0]


@pytest.mark.timeout(300)
def test_a_full_disk_refuses_deliveries_and_nothing_is_lost(stack, ballast):
    [(path_id,)] = wait_for(lambda: ask(stack, "SELECT DISTINCT path_id FROM burst"), 90, "something is measured")
    assert deliver(stack, path_id, 1)[0] == 200
    # The journal begins a new file, which has space left; it is tables that find none.
    with psycopg.connect(local_url(stack.data / "postgres", role=access.SUPERUSER), autocommit=True) as superuser:
        # The next connection after a vacuum of the catalogue has to write a file, and fails where there is no space. On
        # a busy machine the start takes long enough for the first autovacuum to come now.
        superuser.execute("ALTER SYSTEM SET autovacuum = off")
        superuser.execute("SELECT pg_reload_conf()")
        superuser.execute("SELECT pg_switch_wal()")
        superuser.execute("CHECKPOINT")
    fill(ballast)

    number = 1

    def turned_away():
        nonlocal number
        number += 1
        answer = deliver(stack, path_id, number)
        return answer if answer[0] != 200 else None

    code, headers, text = wait_for(turned_away, 60, "a delivery finds the disk full")

    assert (code, text) == (503, {"error": f"{FULL}; try again"})
    assert int(headers["Retry-After"]) > 0
    assert stored(stack, number) == (0, 0)
    assert stored(stack, 1) == (1, 1)
    assert ask(stack, "SELECT count(*) FROM burst WHERE packet_bytes = 100 AND sent = 3") == [(RESULTS * (number - 1),)]

    def told_of_it():
        """The status, which reports it until a batch fits: a small batch of the agent still may."""
        status_text = status(stack)
        return status_text if f"nothing can be stored: {FULL}, last seen at " in status_text else None

    with turned_away_again_and_again(stack, path_id, number):
        status_text = wait_for(told_of_it, 120, "the status says why nothing can be stored")
    assert "warning archive.W006: the disk of the database has 0.0 of 0.3 GB free" in status_text
    wait_for(lambda: spooled(stack)[1] > 0, 60, "the agent keeps results that the centre refuses")

    ballast.unlink()

    assert deliver(stack, path_id, number)[0] == 200
    assert stored(stack, number) == (1, 1)

    def balanced():
        """Whether at some moment all of the agent's results are stored, once, and were accepted."""
        ever, waiting = spooled(stack)
        own = ask(
            stack,
            "SELECT (SELECT count(*) FROM burst WHERE sent <> 3), sum(accepted), sum(refused), max(dropped) "
            "FROM received_batch WHERE spool <> 'large'",
        )
        return waiting == 0 and own == [(ever, ever, 0, 0)] and ever

    assert wait_for(balanced, 120, "every result that the agent ever had is stored") > 0
    assert "nothing can be stored" not in status(stack)
