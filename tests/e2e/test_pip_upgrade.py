"""A centre and an agent installed from wheels of an earlier commit, upgraded to this version by the commands of
docs/upgrade.md while the agent measures and delivers.

The newer wheels are this tree's, under a higher version, since none has been released. The packages that both require
are those of this environment. Minutes: `make test-upgrade`.
"""

import json
import os
import re
import shlex
import signal
import sqlite3
import subprocess
import sys
from contextlib import closing, contextmanager
from typing import NamedTuple

import pytest

import probes
from scripts import dist
from tests.db.scratch import rows
from tests.e2e.stack import TOP, running_stack, wait_for
from tests.e2e.test_installed import install
from tests.e2e.test_installed_whole import MESH
from tests.e2e.wheels import with_version
from tests.earlier import EARLIER
from tests.facts import lacks
from tests.postgres import given_database_url

pytestmark = [pytest.mark.long, pytest.mark.timeout(1200)]

NEWER = "0.2.0"
PATIENCE_S = 240
LIMITS = '[networks]\nallowed = ["127.78.0.0/16"]\n'
BURSTS = """
    SELECT measured_at, path_id, outcome, rtts_ms FROM burst JOIN path ON path.id = path_id
    JOIN host ON host.id = source_id JOIN site ON site.id = host.site_id WHERE site.name = 'there' ORDER BY 1, 2
"""


@pytest.fixture(scope="module")
def installations(tmp_path_factory):
    """The folders that docs/upgrade.md calls /opt/soundings and /opt/soundings-agent, with the earlier version."""
    tree, folder = tmp_path_factory.mktemp("earlier") / "tree", tmp_path_factory.mktemp("earlier-dist")
    subprocess.run(["git", "clone", "--quiet", "--no-checkout", str(TOP), str(tree)], check=True)
    subprocess.run(["git", "checkout", "--quiet", EARLIER], cwd=tree, check=True)
    subprocess.run([sys.executable, "-m", "scripts.dist", str(folder)], cwd=tree, check=True)
    return {
        name: install(next(folder.glob(f"{name.replace('-', '_')}-*.whl")), tmp_path_factory.mktemp(name) / "venv")
        for name in ("soundings", "soundings-agent")
    }


@pytest.fixture(scope="module")
def newer_wheels(tmp_path_factory):
    """A folder with the wheels of this tree, under the version that the document names."""
    folder = tmp_path_factory.mktemp("newer-dist")
    for file in dist.main(tmp_path_factory.mktemp("dist")):
        if file.suffix == ".whl":
            with_version(file, NEWER, tmp_path_factory.mktemp("newer")).rename(
                folder / file.name.replace(probes.__version__, NEWER)
            )
    return folder


@pytest.fixture(scope="module")
def run_documented(installations, newer_wheels):
    """A function that runs the command of docs/upgrade.md that begins so. It returns the output."""
    document = (TOP / "docs" / "upgrade.md").read_text()
    settings = {**os.environ, "PIP_NO_INDEX": "1"}
    if given_database_url is None:
        settings.pop("SOUNDINGS_DATABASE_URL", None)  # of these tests

    def run(start, **environment):
        (command,) = set(re.findall(rf"(?:^# |`)({re.escape(start)}[^`\n]*)", document, re.MULTILINE))
        program, *arguments = shlex.split(command)
        _, _, installation, *inside = program.split("/")
        done = subprocess.run(
            [installations[installation].joinpath(*inside), *arguments],
            cwd=newer_wheels, env=settings | environment, capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout + done.stderr

    return run


@contextmanager
def running_agent(installation, data):
    process = subprocess.Popen([installation / "bin" / "soundings-agent", "run", "--data", str(data)], cwd="/")
    try:
        yield
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(timeout=90)


class SpoolCounts(NamedTuple):
    """The results that an agent has put into its spool so far, those that wait, and those set aside."""

    put: int
    waiting: int
    quarantined: int


def spooled(data):
    queries = (
        "SELECT coalesce(max(seq), 0) FROM sqlite_sequence WHERE name = 'result'",
        "SELECT count(*) FROM result",
        "SELECT count(*) FROM quarantine",
    )
    with closing(sqlite3.connect(f"file:{data / 'spool.sqlite3'}?mode=ro", uri=True, timeout=10)) as spool:
        return SpoolCounts(*(spool.execute(query).fetchone()[0] for query in queries))


def agent_version(stack):
    (site,) = [site for site in json.loads(stack.manage("site", "list", "--json")) if site["site"] == "there"]
    return site["version"]


def test_the_wheels_are_upgraded_as_documented(installations, run_documented, tmp_path):
    mesh, limits, data = tmp_path / "mesh.toml", tmp_path / "limits.toml", tmp_path / "there"
    mesh.write_text(MESH)
    data.mkdir(mode=0o700)
    for file in (limits, data / "limits.toml"):
        file.write_text(LIMITS)
    agent = installations["soundings-agent"]
    arguments = ("--mesh", str(mesh), "--limits", str(limits))
    with running_stack(*arguments, installed=installations["soundings"] / "bin") as stack:

        def bursts():
            return rows(stack.database_url, BURSTS)

        def wait_for_more(description):
            count = len(bursts()) + 2
            wait_for(lambda: len(bursts()) >= count, PATIENCE_S, description)

        def check():
            return run_documented("/opt/soundings/bin/soundings check", SOUNDINGS_DATA=str(stack.data))

        enrolled = stack.manage("site", "enrol", "there", "--url", f"http://127.0.0.1:{stack.port}").splitlines()[0]
        join = [agent / "bin" / "soundings-agent", *enrolled.split()[1:], "--data", str(data)]
        subprocess.run(join, cwd="/", check=True, capture_output=True)
        with running_agent(agent, data):
            wait_for_more("the earlier centre stores bursts of the earlier agent")
            versions = [agent_version(stack)]
            stack.manage("archive", "backup", "--out", str(tmp_path / "before-upgrade.dump"))
            run_documented("/opt/soundings/bin/pip install")
            checked = check()
            wait_for_more("the earlier centre goes on")
            before = bursts()
            stack.stop()
            put = spooled(data).put
            wait_for(lambda: spooled(data).put > put, PATIENCE_S, "the agent measures while the centre is down")
            stack.start()
            wait_for_more("this centre stores bursts of the earlier agent")
            versions.append(agent_version(stack))
            run_documented("/opt/soundings-agent/bin/pip install")
        with running_agent(agent, data):
            wait_for_more("this centre stores bursts of this agent")
            wait_for(lambda: agent_version(stack) == NEWER, PATIENCE_S, "the agent tells its version")
        after, spool = bursts(), spooled(data)
        deliveries = rows(stack.database_url, "SELECT sum(refused), max(dropped) FROM received_batch")
        left = check()

    assert lacks(checked, "(archive.I002)", "migrations to apply") == []
    assert "to apply" not in left
    assert versions == [probes.__version__] * 2
    assert after[: len(before)] == before
    assert len(after) + spool.waiting == spool.put
    assert (spool.quarantined, deliveries) == (0, [(0, 0)])
