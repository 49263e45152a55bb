"""Even cycles of the agent's runner between two namespaces: every planted outage costs a probe, in real packets.

Periods and outages are a thirtieth of the usual ones: 10 packets in 2 s, outages of 0.33 s for 10 s in a minute.
"""

from __future__ import annotations

import json
import random
import subprocess
import sys
import time
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import pytest

from tests.net.test_ping import FAR, NEAR, Sites, joined_namespaces, run

PERIOD_S = 2
COUNT = 10
OUTAGE_S = 10 / 60 * PERIOD_S
OUTAGES = 5
KINDS_MEASURED = ("ping", "tcp-ping")

AGENT = """
import json, sys, threading, time
from pathlib import Path
from probes.kinds import KINDS
from probes.packets.spec import PingSpec, PingTarget
from probes.ping.spec import PingTask
from probes.site.limits.limits import Limits
from probes.site.limits.networks import Networks
from probes.site.runner.cycle import Cycles
from probes.site.runner.own_tests import OwnTests
from probes.site.runner.permit import Permit
from probes.tcp_ping.limits import TcpPingLimits
from probes.tcp_ping.spec import TcpPingSpec, TcpPingTarget, TcpPingTask
address, every_s, count = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])

class Spool:
    def __init__(self, name):
        self.name = name
    def put(self, results, *, cycle=None, more=False):
        for delivered in results:
            burst = delivered.result
            line = [self.name, burst.started_at.timestamp(), burst.outcome, burst.sent, list(burst.rtts_ms)]
            print(json.dumps(line) + chr(10), end="", flush=True)

even = {"count": count, "spacing_s": every_s / count, "timeout_s": 0.4, "pattern": "even"}
pings = PingSpec(targets=(PingTarget(address=address, path_id=1),), packet_bytes=(100,), late_s=0.1,
                 priming_bytes=None, **even)
handshakes = TcpPingSpec(targets=(TcpPingTarget(address=address, path_id=1),), port=7, **even)
tasks = {"ping": PingTask(test="even", every_s=every_s, spec=pings),
         "tcp-ping": TcpPingTask(test="even", every_s=every_s, spec=handshakes)}
limits = Limits(networks=Networks(allowed=(address + "/32",)), tcp_ping=TcpPingLimits(min_spacing_s=0.1))
permit = Permit(limits)
cycles = {name: Cycles(Spool(name), permit, OwnTests()) for name in tasks}
while True:
    time.sleep(every_s - time.time() % every_s)
    for name, task in tasks.items():
        threading.Thread(target=cycles[name].run, args=(KINDS[name], task)).start()
"""


@pytest.fixture(scope="module")
def sites(namespaces_required: None, root_required: None) -> Iterator[Sites]:
    with joined_namespaces() as joined:
        yield joined


def plant_outages(sites: Sites) -> list[tuple[float, float]]:
    """Drop the replies of the far end at random times, for `OUTAGE_S` each; returns when they certainly were."""
    route, near = ("ip", "-n", sites.far, "route"), f"{NEAR[4]}/32"
    planted = []
    for _ in range(OUTAGES):
        time.sleep(random.uniform(0.7, 1.3))
        run(*route, "add", "blackhole", near)
        began = time.time()
        time.sleep(OUTAGE_S)
        planted.append((began, time.time()))
        run(*route, "delete", "blackhole", near)
    return planted


@pytest.fixture(scope="module")
def measured(sites: Sites) -> tuple[list[tuple[float, float]], list[list[Any]]]:
    """The outages planted, and the bursts of pings and of handshakes with a closed port, which the far end resets."""
    command = ["ip", "netns", "exec", sites.near, sys.executable, "-c", AGENT, FAR[4], str(PERIOD_S), str(COUNT)]
    agent = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        # Cycles have no pause between them once the first is complete.
        assert agent.stdout is not None
        first = [agent.stdout.readline() for _ in KINDS_MEASURED]
        planted = plant_outages(sites)
        # The last cycle is complete a period, its lead and the timeout later.
        time.sleep(2 * PERIOD_S + 1)
    finally:
        agent.terminate()
        rest, _ = agent.communicate()
    return planted, [json.loads(line) for line in [*first, *rest.splitlines()]]


@pytest.mark.parametrize("kind", KINDS_MEASURED)
def test_every_planted_outage_costs_an_even_probe(
    measured: tuple[list[tuple[float, float]], list[list[Any]]], kind: str
) -> None:
    planted, every_burst = measured
    bursts = [burst for name, *burst in every_burst if name == kind]

    assert {outcome for _, outcome, _, _ in bursts} == {"measured"}
    assert {sent for _, _, sent, _ in bursts} == {COUNT}
    begins = [started_at for started_at, *_ in bursts]
    assert all(abs(later - earlier - PERIOD_S) < 0.5 for earlier, later in pairwise(begins))
    spacing_s = PERIOD_S / COUNT
    lost_at = [
        started_at + number * spacing_s
        for started_at, _, _, rtts_ms in bursts
        for number, rtt_ms in enumerate(rtts_ms)
        if rtt_ms is None
    ]
    for since, until in planted:
        # The time of a packet follows from its number to within the jitter.
        assert any(since - spacing_s <= at <= until + spacing_s for at in lost_at), (since, until, lost_at)
    healthy = sum(len(rtts_ms) - rtts_ms.count(None) for *_, rtts_ms in bursts)
    assert len(lost_at) < healthy
