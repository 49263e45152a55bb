"""SIGKILL of every part at random moments: everything restarts by itself, and each spooled result is stored exactly
once."""

from __future__ import annotations

import os
import random
import signal
import sqlite3
import time

import pytest

from tests.e2e import faults
from tests.e2e.faults import SITES, WHOLE
from tests.e2e.stack import wait_for

SEED = 20261121
RUNS_AGAIN_S = 30
MAX_PAUSE_S = 3.0
VICTIMS = {
    "web": ("gunicorn",),
    "worker": ("celery", "worker"),
    "beat": ("celery", "beat"),
    "redis": ("redis-server", "{data}/socket/"),
    "postgres": ("postgres", "-D", "{data}/postgres/cluster"),
    "agent": ("probes.site.worker",),
    "agent's supervisor": ("probes.site.supervisor",),
}
ROUNDS = 20 if WHOLE else len(VICTIMS)


def running(lab, victim):
    """Process ids of that kind."""
    return lab.processes(*(word.format(data=lab.data) for word in VICTIMS[victim]))


def all_running(lab):
    return {victim: len(running(lab, victim)) for victim in VICTIMS}


def answers(lab):
    """Whether a request that needs the database is answered."""
    try:
        return bool(lab.get("paths"))
    except OSError:
        return False


def kill(lab, victim, pid):
    """Kill a process, and wait until as many of each kind run as before, and the centre answers; returns the
    seconds."""
    before = all_running(lab)
    began_s = time.monotonic()
    os.kill(pid, signal.SIGKILL)

    def whole_again():
        now = all_running(lab)
        return pid not in running(lab, victim) and all(now[kind] >= before[kind] for kind in VICTIMS) and answers(lab)

    wait_for(whole_again, RUNS_AGAIN_S, f"all runs again after {victim} was killed ({before}, {lab.output[-500:]})")
    return time.monotonic() - began_s


def under_way(lab, site):
    """Whether the agent has a batch that the centre has not acknowledged."""
    try:
        with lab.spool(site) as spool:
            return spool.execute("SELECT count(*) FROM result WHERE batch IS NOT NULL").fetchone()[0]
    except sqlite3.OperationalError:
        return 0


def kill_in_the_middle_of_a_delivery(lab, site):
    """Freeze the web server so that a batch is sent and not answered, kill its sender, and resume the server."""
    frozen = running(lab, "web")
    for pid in frozen:
        os.kill(pid, signal.SIGSTOP)
    try:
        wait_for(lambda: under_way(lab, site), 60, f"{site} delivers")
        (agent,) = faults.agent_processes(lab, site, *VICTIMS["agent"])
        os.kill(agent, signal.SIGKILL)
    finally:
        for pid in frozen:
            os.kill(pid, signal.SIGCONT)
    wait_for(lambda: len(running(lab, "agent")) == len(SITES), RUNS_AGAIN_S, "the agent runs again")


@pytest.mark.timeout(1800)
def test_killed_processes_restart_and_results_are_stored_once(lab, capsys):
    chance = random.Random(SEED)
    # Each kind once in a random order, then any kind.
    kinds = chance.sample(list(VICTIMS), len(VICTIMS))
    kinds += chance.choices(list(VICTIMS), k=ROUNDS - len(kinds))
    recoveries = []

    for victim in kinds:
        time.sleep(chance.uniform(0, MAX_PAUSE_S))  # the random moment
        recoveries.append(f"{victim} {kill(lab, victim, chance.choice(running(lab, victim))):.0f} s")
    for site in SITES if WHOLE else SITES[:1]:
        kill_in_the_middle_of_a_delivery(lab, site)

    ledger = faults.balanced(lab, 240, capsys)
    assert ledger.refused == 0
    with capsys.disabled():
        print(f"{len(kinds)} rounds, seed {SEED}; all ran again after: {', '.join(recoveries)}")
