"""A centre and another site's agent in containers of an earlier commit, upgraded by the commands of the documents.

In: an engine with the base images, and a folder. Out: a line for the table. Each result that the other site's agent
measures before, during and after the upgrade must be stored, once.
"""

from __future__ import annotations

import re
import shutil
import subprocess
from datetime import UTC, datetime
from pathlib import Path

from tests.compose.bases import ROOT
from tests.compose.checks import enrol_far, require
from tests.compose.engine import Engine
from tests.compose.stack import Stack, name_of, wait_for
from tests.earlier import EARLIER

TITLE = f"upgraded from images of commit {EARLIER}"
BRANCH = "release"
SPOOLED = """
import sqlite3
spool = sqlite3.connect("file:/data/spool.sqlite3?mode=ro", uri=True)
print(*spool.execute("SELECT seq FROM sqlite_sequence WHERE name = 'result'").fetchone())
print(*spool.execute("SELECT count(*) FROM quarantine").fetchone())
"""
OF_FAR = """
FROM burst JOIN path ON path.id = path_id JOIN host ON host.id = source_id JOIN site ON site.id = host.site_id
WHERE site.name = 'far'"""


def check_upgrade(engine: Engine, folder: Path) -> str:
    """Raises `CommandError` where a result is missing or a command fails."""
    clone = _clone(folder)
    stack = Stack(engine, folder / "stack", root=clone, project="soundings")
    stack.prepare()
    stack.environment["COMPOSE_PROFILES"] = "agent,tls"
    try:
        _remove(stack)
        stack.compose("build")
        stack.up()
        enrol_far(stack)
        stack.new_bursts("far")
        before, images = _stored(stack), _images(stack)

        *prepare, up = _commands("docs/upgrade.md", "**Compose.**")
        output = [stack.shell(command) for command in prepare][-1]
        require("(archive.I002)" in output, output)
        began_at = datetime.now(UTC)
        stack.shell(up)
        ended_at = datetime.now(UTC)
        for site in ("here", "far"):
            stack.new_bursts(site)
        (*_, upgrade_far) = _commands("docs/compose.md", "in the site's clone:")
        stack.far(*upgrade_far.partition("agent.compose.yml ")[2].split())
        stack.new_bursts("far")

        require(not images & _images(stack), "images of before still run")
        require(_stored(stack)[: len(before)] == before, "results of before have changed")
        during = int(stack.sql(f"SELECT count(*) {OF_FAR} AND measured_at BETWEEN '{began_at}' AND '{ended_at}'"))
        require(during > 0, "the other site measured nothing during the upgrade")
        wait_for(lambda: _is_all_stored(stack), "results that the other site has spooled are missing")
        lost = stack.sql("SELECT sum(refused), max(dropped) FROM received_batch")
        require(lost == "0|0", f"refused|dropped: {lost}")
        return (
            f"`up --wait` {(ended_at - began_at).total_seconds():.0f} s; of the other site {len(before)} results "
            f"before, {during} during, {len(_stored(stack))} in all: each that its agent spooled, once"
        )
    finally:
        _remove(stack)


def _clone(folder: Path) -> Path:
    """A clone at the earlier commit, whose `git pull` brings this one."""
    folder.mkdir(parents=True, exist_ok=True)
    origin, clone = folder / "origin.git", folder / "clone"
    for tree in (origin, clone):
        shutil.rmtree(tree, ignore_errors=True)

    def git(*words: str | Path) -> None:
        subprocess.run(["git", *words], check=True, cwd=folder, capture_output=True)

    git("clone", "--bare", ROOT, origin)
    git("-C", origin, "branch", "--force", BRANCH, EARLIER)
    git("clone", "--branch", BRANCH, origin, clone)
    git("-C", origin, "branch", "--force", BRANCH, "HEAD")
    return clone


def _commands(document: str, after: str) -> list[str]:
    """The commands of the first block after these words of a document."""
    text = (ROOT / document).read_text().partition(after)[2]
    block: str = re.findall(r"^```\w*\n(.*?)^```", text, re.DOTALL | re.MULTILINE)[0]
    return block.splitlines()


def _images(stack: Stack) -> set[str]:
    """The images that centre and agents run."""
    ours = ("web", "worker", "beat", "agent")
    return {container["Image"] for container in stack.containers() if name_of(container) in ours}


def _stored(stack: Stack) -> list[str]:
    """The other site's results at the centre."""
    return stack.sql(f"SELECT measured_at, path_id, outcome, rtts_ms {OF_FAR} ORDER BY 1, 2").splitlines()


def _is_all_stored(stack: Stack) -> bool:
    put, quarantined = map(int, stack.far("exec", "-T", "agent", "python", "-c", SPOOLED).split()[-2:])
    require(quarantined == 0, f"{quarantined} results quarantined")
    return put == len(_stored(stack))


def _remove(stack: Stack) -> None:
    stack.far("down", "--volumes", check=False)
    stack.compose("down", "--volumes", "--remove-orphans", check=False)
