"""The centre of an earlier commit, its database and its agent, upgraded to this version while the agent delivers, and
taken back to the earlier one with the backup from before, as docs/upgrade.md says.

Several minutes: `make test-upgrade`. `make check` has the recorded delivery of the same agent
(tests/db/agents/test_earlier_agents.py).
"""

import os
import signal
import sqlite3
import subprocess
import sys
from contextlib import ExitStack, closing, contextmanager

import pytest

from tests.db.scratch import TOP, rows, scratch_database
from tests.e2e.centre import GUNICORN, answers, free_port
from tests.e2e.stack import wait_for
from tests.earlier import EARLIER
from tests.facts import lacks

pytestmark = [pytest.mark.long, pytest.mark.django_db(transaction=True), pytest.mark.timeout(1200)]
PATIENCE_S = 240
BURSTS = "SELECT measured_at, path_id, outcome, rtts_ms FROM burst ORDER BY 1, 2"
MESH = """
[mesh]
name = "Upgrade"
[[site]]
name = "here"
title = "Here"
latitude_deg = 1.0
longitude_deg = 2.0
country = "CH"
region = "Europe"
[[site.host]]
address = "127.88.1.1"
[[site]]
name = "there"
title = "There"
latitude_deg = 3.0
longitude_deg = 4.0
country = "CH"
region = "Europe"
agent = false
[[site.host]]
address = "127.88.2.1"
[[test]]
name = "pinger"
kind = "ping"
every_s = 10
count = 5
packet_bytes = [100]
spacing_s = 0.2
timeout_s = 1.0
[[group]]
name = "all"
shape = "mesh"
sites = ["here", "there"]
tests = ["pinger"]
"""
LIMITS = '[networks]\nallowed = ["127.88.0.0/16"]\n'


class Version:
    """A tree of the program with a data folder of its own, on one database and port."""

    def __init__(self, tree, data, dsn, port):
        self.tree, self.port = tree, port
        self.log = data.with_suffix(".log")
        self.environment = {
            **os.environ, "SOUNDINGS_DATABASE_URL": dsn, "SOUNDINGS_DATA": str(data), "PYTHONPATH": str(tree),
        }  # fmt: skip

    def run(self, *arguments):
        done = subprocess.run(
            [sys.executable, "manage.py", *arguments],
            cwd=self.tree, env=self.environment, capture_output=True, text=True, check=False,
        )  # fmt: skip
        return done.returncode, done.stdout, done.stderr

    @contextmanager
    def process(self, *command):
        with self.log.open("ab") as log:
            running = subprocess.Popen(
                command, cwd=self.tree, env=self.environment, stdout=log, stderr=subprocess.STDOUT
            )
        try:
            yield running
        finally:
            running.send_signal(signal.SIGTERM)
            running.wait(timeout=90)

    @contextmanager
    def web(self):
        with self.process(*GUNICORN, "--bind", f"127.0.0.1:{self.port}") as server:
            wait_for(lambda: answers(self.port) or server.poll() is not None, PATIENCE_S, "the web server answers")
            assert server.poll() is None, self.log.read_text()
            yield


def measured(dsn):
    return rows(dsn, "SELECT count(*) FROM burst WHERE outcome = 'measured'")[0][0]


def test_a_centre_is_upgraded_while_an_earlier_agent_delivers(tmp_path):
    with scratch_database() as dsn:
        old_tree = tmp_path / "earlier"
        old_tree.mkdir()
        archive = subprocess.run(["git", "archive", EARLIER], cwd=TOP, capture_output=True, check=True).stdout
        subprocess.run(["tar", "x", "-C", old_tree], input=archive, check=True)
        port = free_port()
        old = Version(old_tree, tmp_path / "old-data", dsn, port)
        new = Version(TOP, tmp_path / "new-data", dsn, port)
        site = tmp_path / "site"
        site.mkdir(mode=0o700)
        (site / "limits.toml").write_text(LIMITS)
        (tmp_path / "mesh.toml").write_text(MESH)
        for arguments in (
            ("migrate", "-v0", "--skip-checks"),
            ("mesh", "apply", str(tmp_path / "mesh.toml")),
            ("site", "token", "here", "--out", str(site / "token")),
        ):
            status, _, errors = old.run(*arguments)
            assert status == 0, errors

        def wait_for_more(count, description, database=dsn):
            at = measured(database)
            wait_for(lambda: measured(database) >= at + count, PATIENCE_S, description)

        agent = (
            sys.executable, "-m", "probes", "site", "--centre", f"http://127.0.0.1:{port}",
            "--token-file", str(site / "token"), "--data", str(site),
        )  # fmt: skip
        with ExitStack() as centre, old.process(*agent):
            with old.web():
                wait_for_more(2, "the earlier centre stores bursts of its agent")
                before = rows(dsn, BURSTS)
                backed_up = old.run("archive", "backup", "--out", str(tmp_path / "before-upgrade.dump"))
                checked = new.run("check")
                migrated = new.run("migrate", "-v0", "--skip-checks")
                wait_for_more(1, "the earlier centre stores in the new schema")
            centre.enter_context(new.web())
            wait_for_more(2, "this centre stores bursts of the earlier agent")

        with closing(sqlite3.connect(f"file:{site / 'spool.sqlite3'}?mode=ro", uri=True)) as spool:
            [(put,)] = spool.execute("SELECT seq FROM sqlite_sequence WHERE name = 'result'")
            [(waiting,)] = spool.execute("SELECT count(*) FROM result")
            [(quarantined,)] = spool.execute("SELECT count(*) FROM quarantine")
        bursts = rows(dsn, BURSTS)
        deliveries = rows(dsn, "SELECT sum(accepted), sum(refused), max(dropped) FROM received_batch")
        left = new.run("check")

        with scratch_database() as empty:
            again = Version(old_tree, tmp_path / "old-data", empty, port)
            restored = again.run("archive", "restore", str(tmp_path / "before-upgrade.dump"))
            kept = rows(empty, BURSTS)
            with again.web(), again.process(*agent):
                wait_for_more(2, "the earlier centre stores bursts of the agent again", empty)

    assert (checked[0], lacks(checked[2], "(archive.I002)", "migrations to apply, about")) == (0, [])
    assert migrated[0] == 0, migrated
    assert (left[0], "to apply" in left[2]) == (0, False)
    assert bursts[: len(before)] == before
    assert deliveries == [(len(bursts), 0, 0)]
    assert (backed_up[0], restored[0]) == (0, 0), (backed_up, restored)
    assert kept[: len(before)] == before
    assert (len(bursts) + waiting, quarantined) == (put, 0)
