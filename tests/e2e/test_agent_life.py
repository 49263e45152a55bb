"""The life of agents in the real stack: frozen, killed and planned anew, each planned cycle is accounted for."""

from __future__ import annotations

import os
import signal
from collections import Counter
from pathlib import Path

import pytest

from tests.e2e.stack import running_stack, wait_for

SINCE = "since=2026-01-01T00:00:00Z"
EVERY_S = 10


@pytest.fixture(scope="module")
def stack(namespaces_required):
    with running_stack("--lab", "three-sites") as stack:
        yield stack


def path_id(stack, source, destination):
    ends = ((path["source"]["site"], path["destination"]["site"], path["id"]) for path in stack.get("paths"))
    return next(number for here, there, number in ends if (here, there) == (source, destination))


def pings(stack, number):
    """The ledger of a path's pings by reason, or by outcome where there is none."""
    told = stack.get(f"paths/{number}/ledger?{SINCE}")
    assert sum(line["count"] for line in told["lines"]) == told["planned"]
    counts = Counter()
    for line in told["lines"]:
        if line["test"] == "ping":
            counts[line["reason"] or line["outcome"]] += line["count"]
    return counts


def missed(stack, number):
    counts = pings(stack, number)
    return counts["late"] + counts["agent_offline"]


def worker(stack, site):
    """The process of a site's worker; None while there is none."""
    for pid in stack.processes("probes.site.worker"):
        if f"/sites/{site}" in Path(f"/proc/{pid}/environ").read_text():
            return pid
    return None


@pytest.mark.timeout(400)
def test_frozen_killed_and_planned_anew_every_cycle_is_accounted_for(stack, capsys):
    frozen, killed = path_id(stack, "bern", "rome"), path_id(stack, "oslo", "rome")
    for number in (frozen, killed):
        wait_for(lambda number=number: pings(stack, number)["measured"] >= 2, 90, "the agents measure")
    before = pings(stack, frozen)

    # It stays frozen until its supervisor ends it and starts it again, and was offline meanwhile.
    os.kill(worker(stack, "bern"), signal.SIGSTOP)
    os.kill(worker(stack, "oslo"), signal.SIGKILL)
    wait_for(lambda: missed(stack, frozen) >= 2, 150, "the frozen agent accounts for what it did not run")
    wait_for(lambda: missed(stack, killed) >= 1, 90, "so does the killed one")

    changed = (stack.data / "lab" / "mesh.toml").read_text()
    assert f"every_s = {EVERY_S}\n" in changed
    (stack.data / "changed.toml").write_text(changed.replace(f"every_s = {EVERY_S}\n", "every_s = 20\n"))
    stack.manage("mesh", "apply", str(stack.data / "changed.toml"))
    measured = pings(stack, frozen)["measured"]
    wait_for(lambda: pings(stack, frozen)["measured"] >= measured + 2, 120, "the new plan is measured")
    wait_for(lambda: pings(stack, frozen)["awaited"] <= 2, 60, "no more is awaited than what runs and is on its way")

    told = {number: pings(stack, number) for number in (frozen, killed)}
    with capsys.disabled():
        print(f"\nledger, frozen: {dict(told[frozen])}; killed: {dict(told[killed])}")
    assert told[frozen]["unknown"] == before["unknown"]
    known = {"measured", "late", "agent_offline", "not_in_plan", "unknown", "awaited", "busy", "no_route"}
    assert set(told[frozen]) | set(told[killed]) <= known
