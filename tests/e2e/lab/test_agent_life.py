"""The life of agents: frozen, killed and replanned, with each planned cycle accounted for. Run by `make test-faults`;
the other tests here kill and stop all agents, and tests/db/archive/test_ledger.py changes plans."""

from __future__ import annotations

import os
import signal
from collections import Counter
from datetime import UTC, datetime
from pathlib import Path

import pytest

from tests.e2e import faults
from tests.e2e.stack import wait_for

pytestmark = pytest.mark.long

SINCE = "since=2026-01-01T00:00:00Z"
EVERY_S = 10


def path_id(stack, source, destination):
    ends = ((path["source"]["site"], path["destination"]["site"], path["id"]) for path in stack.get("paths"))
    return next(number for here, there, number in ends if (here, there) == (source, destination))


def pings(stack, number):
    """The ledger of a path's pings by reason, or by outcome where there is none."""
    body = stack.get(f"paths/{number}/ledger?{SINCE}")
    assert sum(line["count"] for line in body["lines"]) == body["planned"]
    counts = Counter()
    for line in body["lines"]:
        if line["test"] == "ping":
            counts[line["reason"] or line["outcome"]] += line["count"]
    return counts


def worker(stack, site):
    """The process of a site's worker; None while there is none."""
    for pid in stack.processes("probes.site.worker"):
        if f"/sites/{site}" in Path(f"/proc/{pid}/environ").read_text():
            return pid
    return None


@pytest.fixture
def slower_mesh(lab, tmp_path):
    """The lab's mesh with half as many pings; the original mesh is applied again at the end."""
    original = lab.data / "lab" / "mesh.toml"
    mesh = original.read_text()
    assert f"every_s = {EVERY_S}\n" in mesh
    slower = tmp_path / "slower.toml"
    slower.write_text(mesh.replace(f"every_s = {EVERY_S}\n", f"every_s = {2 * EVERY_S}\n"))
    yield slower
    lab.manage("mesh", "apply", str(original))
    applied = datetime.now(UTC)
    wait_for(lambda: faults.measured_since(lab, applied), 120, "every agent measures the mesh as it was")
    lab.measuring_since = datetime.now(UTC)


@pytest.mark.timeout(400)
def test_every_cycle_is_accounted_for_across_freezes_and_kills(lab, slower_mesh, capsys):
    frozen, killed = path_id(lab, "bern", "rome"), path_id(lab, "oslo", "rome")
    for number in (frozen, killed):
        wait_for(lambda number=number: pings(lab, number)["measured"] >= 2, 90, "the agents measure")
    before = {number: pings(lab, number) for number in (frozen, killed)}

    def missed(number):
        return sum(pings(lab, number)[reason] - before[number][reason] for reason in ("late", "agent_offline"))

    # It stays frozen until its supervisor ends and restarts it, and was offline meanwhile.
    os.kill(worker(lab, "bern"), signal.SIGSTOP)
    os.kill(worker(lab, "oslo"), signal.SIGKILL)
    wait_for(lambda: missed(frozen) >= 2, 150, "the frozen agent accounts for the cycles it did not run")
    wait_for(lambda: missed(killed) >= 1, 90, "so does the killed one")

    lab.manage("mesh", "apply", str(slower_mesh))
    measured = pings(lab, frozen)["measured"]
    wait_for(lambda: pings(lab, frozen)["measured"] >= measured + 2, 120, "the new plan is measured")
    wait_for(lambda: pings(lab, frozen)["awaited"] <= 2, 60, "only cycles that run or are being delivered are pending")

    since = {number: pings(lab, number) - before[number] for number in (frozen, killed)}
    with capsys.disabled():
        print(f"\nledger, frozen: {dict(since[frozen])}; killed: {dict(since[killed])}")
    assert since[frozen]["unknown"] == 0
    explained = {"measured", "late", "agent_offline", "not_in_plan", "awaited", "busy", "no_route"}
    assert set(since[frozen]) | set(since[killed]) <= explained
