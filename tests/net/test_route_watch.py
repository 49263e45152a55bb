"""Changes and faults of routes in the lab, seen by real probes from both ends."""

from __future__ import annotations

import json
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from monitor.analysis.routes.onset import HopCounts, find_onset
from probes.lab.mesh import limits_toml
from probes.lab.scenario import load_scenario
from tests.lab import RunningLab, wait_until

REPOSITORY = Path(__file__).parents[2]
SCENARIO = load_scenario("four-sites-routed")
ADDRESS = {router.name: router.address for router in SCENARIO.topology.routers}
COGENT = ("slac-gw", "cogent-sjc", "cogent-par", "cern-gw")
ROUNDS = 7
"""Of sentinels: with them, each router of the way has had some."""
LOSS = 0.6
MOST_TRACES = 5


@pytest.fixture(scope="module")
def lab(namespaces_required: None) -> Iterator[RunningLab]:
    with RunningLab("four-sites-routed", "--seed", "1") as running:
        yield running


class Watcher:
    """`tests/net/route_watch.py` at a site; `traces` are those so far."""

    def __init__(self, lab: RunningLab, site: str, far: str, limits: Path) -> None:
        self.traces: list[dict[str, Any]] = []
        self.output: list[str] = []
        self.rounds = 0
        script = str(REPOSITORY / "tests/net/route_watch.py")
        self.process = lab.popen(
            site, "env", f"PYTHONPATH={REPOSITORY}", sys.executable, script, str(limits), lab.address(far)
        )
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def __enter__(self) -> Watcher:
        return self

    def __exit__(self, *_: object) -> None:
        self.process.terminate()
        self.process.wait(20)
        self._reader.join(20)

    def _read(self) -> None:
        for line in self.process.stdout or ():
            if not line.startswith("{"):
                self.output.append(line)
            elif (entry := json.loads(line))["reason"]:
                self.traces.append(entry)
            else:
                self.rounds += 1

    def await_sentinels(self, rounds: int) -> None:
        wait_until(lambda: self.rounds >= rounds, f"{rounds} rounds of sentinels; {self.output}", 90)

    def await_trace(self, reasons: set[str]) -> dict[str, Any]:
        """The first trace with such a reason."""

        def matching() -> list[dict[str, Any]]:
            return [trace for trace in self.traces if trace["reason"] in reasons]

        wait_until(lambda: bool(matching()), f"a trace for {reasons}; {self.traces} {self.output}", 60)
        return matching()[0]


def test_a_route_change_is_traced_from_both_ends_within_a_minute(lab: RunningLab, tmp_path: Path) -> None:
    limits = tmp_path / "limits.toml"
    limits.write_text(limits_toml({site: (lab.address(site),) for site in SCENARIO.site_names}))
    with ExitStack() as stack:
        here, there = (
            stack.enter_context(Watcher(lab, *pair, limits)) for pair in (("slac", "cern"), ("cern", "slac"))
        )
        before = here.await_trace({"scheduled"})
        there.await_trace({"scheduled"})
        here.await_sentinels(ROUNDS)
        quiet = [trace["reason"] for trace in (*here.traces, *there.traces)]

        changed_at = time.time()
        lab.command("route", "slac-cern", "via", ",".join(COGENT), "--one-way")
        try:
            seen_here = here.await_trace({"sentinel", "rtt_step", "ttl_changed"})
            seen_there = there.await_trace({"sentinel", "rtt_step", "ttl_changed"})
        finally:
            lab.command("route", "slac-cern", "--original")

    assert quiet == ["scheduled"] * 2
    assert before["hops"][1] == ADDRESS["esnet-svl"]
    # The TTL of the replies to SLAC is the same: only the sentinels see the change so soon.
    assert seen_here["reason"] == "sentinel"
    assert seen_here["hops"][1:3] == [ADDRESS["cogent-sjc"], ADDRESS["cogent-par"]]
    assert len(seen_here["hops"]) == len(COGENT) + 1
    # CERN's way there is the same, and its replies have taken fewer hops.
    assert seen_there["reason"] == "ttl_changed"
    assert all(0 < trace["started_at"] - changed_at < 60 for trace in (seen_here, seen_there))


def traced_from_both_ends(lab: RunningLab, attempts: int) -> list[list[dict[str, Any]]]:
    """The hops from SLAC to CERN and back, both up to the destination: where so much is lost, a trace in some ends at
    the router before it."""
    for _ in range(MOST_TRACES):
        processes = [
            lab.popen(site, sys.executable, "-m", "probes", "trace", "--json", "-c", str(attempts), lab.address(far))
            for site, far in (("slac", "cern"), ("cern", "slac"))
        ]
        traces = [json.loads(process.communicate(timeout=180)[0]) for process in processes]
        if all(trace["reached"] for trace in traces):
            break
    return [trace["hops"] for trace in traces]


def counts(hops: Sequence[dict[str, Any]], before: Sequence[dict[str, Any]]) -> list[HopCounts]:
    def lost(hop: dict[str, Any]) -> int:
        rtts_ms: list[float | None] = hop["rtts_ms"]
        return rtts_ms.count(None)

    return [
        HopCounts(len(hop["rtts_ms"]), lost(hop), len(earlier["rtts_ms"]), lost(earlier))
        for hop, earlier in zip(hops, before, strict=True)
    ]


def test_a_lossy_link_is_named_from_both_ends_and_no_limited_router(lab: RunningLab) -> None:
    """The link from New York to London, in that direction; CERN's own router, on the way, is limited."""
    before = traced_from_both_ends(lab, 8)
    lab.set("--link", "esnet-nyc-geant-lon", "--loss", str(LOSS))
    try:
        during = traced_from_both_ends(lab, 20)
    finally:
        lab.command("undo", "--link", "esnet-nyc-geant-lon")
    forward, reverse = map(counts, during, before)

    onset = find_onset(forward, reverse)

    assert onset is not None, (forward, reverse)
    hops = [hop["address"] for hop in before[0]]
    near, far = onset.near_ttl, onset.far_ttl
    # By chance, the hop at one end of the link loses as many as the other side: then it is between, in two links.
    assert {ADDRESS["esnet-nyc"], ADDRESS["geant-lon"]} <= set(hops[near - 1 : far]), (onset, forward, reverse)
    assert far - near <= 2
    assert not onset.is_of_reverse
    assert onset.is_certain
    assert onset.ends == 2
