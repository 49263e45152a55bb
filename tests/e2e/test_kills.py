"""Kill -9 of every part while results are on their way: afterwards each spooled result is stored, and stored once."""

from __future__ import annotations

import os
import random
import signal
import sqlite3
from contextlib import closing
from pathlib import Path

import psycopg
import pytest

from tests.e2e.stack import running_stack, wait_for

SITES = ("bern", "rome", "oslo")
ROUNDS = 6
SEED = 20261121
VICTIMS = {
    "web": ("gunicorn",),
    "worker": ("celery", "worker"),
    "beat": ("celery", "beat"),
    "redis": ("redis-server", "{data}/socket/"),
    "agent": ("probes.site.worker",),
    "agent's redis": ("redis-server", "{data}/sites/"),
}


@pytest.fixture(scope="module")
def stack(namespaces_required):
    with running_stack("--lab", "three-sites") as stack:
        yield stack


def spooled(stack):
    """How many results each agent has ever put into its spool, and how many still wait there."""
    ledger = dict.fromkeys(SITES, (0, 0))
    for site in SITES:
        if not stack.spool_file(site).exists():
            continue
        with closing(stack.spool(site)) as spool:
            if not spool.execute("SELECT 1 FROM sqlite_master WHERE name = 'result'").fetchone():
                # The file is made before what is in it.
                continue
            ever = spool.execute("SELECT seq FROM sqlite_sequence WHERE name = 'result'").fetchone()
            waiting = spool.execute("SELECT count(*) FROM result").fetchone()[0]
            ledger[site] = (ever[0] if ever else 0, waiting)
    return ledger


def rows(stack, query):
    with psycopg.connect(stack.database_url) as connection:
        return connection.execute(query).fetchall()


def running(stack, victim):
    """Ids of the processes of that kind."""
    return stack.processes(*(word.format(data=stack.data) for word in VICTIMS[victim]))


def kill(stack, victim):
    """Kill one process of that kind, and wait until as many run again."""
    before = running(stack, victim)
    assert before, f"no {victim} runs"
    pid = random.choice(before)
    os.kill(pid, signal.SIGKILL)
    wait_for(
        lambda: pid not in (now := running(stack, victim)) and len(now) >= len(before),
        60,
        f"{victim} runs again",
    )


def under_way(stack, site):
    """Whether the agent has a batch that the centre has not acknowledged."""
    try:
        with stack.spool(site) as spool:
            return spool.execute("SELECT count(*) FROM result WHERE batch IS NOT NULL").fetchone()[0]
    except sqlite3.OperationalError:
        return 0


def kill_in_the_middle_of_a_delivery(stack, site):
    """Freeze the web server so that a batch is sent and not answered, kill its sender, and let the server go on."""
    frozen = running(stack, "web")
    for pid in frozen:
        os.kill(pid, signal.SIGSTOP)
    try:
        wait_for(lambda: under_way(stack, site), 60, f"{site} delivers")
        agents = [pid for pid in running(stack, "agent") if _is_of(pid, site)]
        assert len(agents) == 1
        os.kill(agents[0], signal.SIGKILL)
    finally:
        for pid in frozen:
            os.kill(pid, signal.SIGCONT)
    wait_for(lambda: len(running(stack, "agent")) == len(SITES), 60, "the agent runs again")


def _is_of(pid, site):
    return f"/sites/{site}" in Path(f"/proc/{pid}/environ").read_text()


@pytest.mark.timeout(600)
def test_every_spooled_result_is_stored_once(stack, capsys):
    random.seed(SEED)
    wait_for(lambda: all(ever > 0 for ever, _ in spooled(stack).values()), 90, "every agent has measured")

    for _ in range(ROUNDS):
        kill(stack, random.choice(list(VICTIMS)))
    for victim in VICTIMS:
        kill(stack, victim)
    for site in SITES:
        kill_in_the_middle_of_a_delivery(stack, site)
    quiet = (stack.data / "lab" / "mesh.toml").read_text().partition("[alerts")[0]
    for every_s in ("every_s = 10\n", "every_s = 120\n"):
        assert every_s in quiet
        quiet = quiet.replace(every_s, "every_s = 86400\n")
    (stack.data / "quiet.toml").write_text(quiet)
    stack.manage("mesh", "apply", str(stack.data / "quiet.toml"))

    def balanced():
        """Every result of every spool delivered, and the spools the same a moment later."""
        ledger = spooled(stack)
        stored = rows(stack, "SELECT (SELECT count(*) FROM burst) + (SELECT count(*) FROM throughput_test)")[0][0]
        total = sum(ever for ever, _ in ledger.values())
        return total if all(waiting == 0 for _, waiting in ledger.values()) and stored == total else None

    total = wait_for(balanced, 180, "every spooled result is stored once")

    accepted, refused = rows(stack, "SELECT sum(accepted), sum(refused) FROM received_batch")[0]
    gaps = rows(stack, "SELECT spool FROM received_batch GROUP BY site_id, spool HAVING count(*) <> max(number)")
    with capsys.disabled():
        print(f"\nledger (seed {SEED}): spooled {total}, accepted {accepted}, refused {refused}")
    assert (accepted, refused) == (total, 0)
    assert gaps == []
    assert rows(stack, "SELECT count(DISTINCT spool) FROM received_batch") == [(len(SITES),)]
