"""Resource use of an agent: memory and CPU at 1,000 targets measured every minute. 4 minutes.

A whole agent, as run at a site, measures loopback addresses like PingER: ten requests of each of two sizes per minute
to each, each result spooled and delivered to a small centre in this process. Memory is the kernel's resident size of
the worker, and the supervisor's pages that it shares with nobody, so that shared libraries count once; CPU is that of
whole minutes without the start.
"""

from __future__ import annotations

import os
import re
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import django

from probes.contract import Outcome
from probes.ping.spec import PingSpec, PingTarget, PingTask
from probes.site.wire import PROTOCOL, Plan
from tests.bench import Row

if TYPE_CHECKING:
    from tests.e2e.test_site_agent import Agent, Centre

TARGETS = 1000
MINUTES = 3
BURSTS_A_MINUTE = 2 * TARGETS
PATIENCE_S = 150.0
LARGEST_MB = 80
LARGEST_SHARE = 0.01


def run() -> list[Row]:
    """The maximum memory, the CPU, and whether all targets were measured."""
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "monitor.settings")
    django.setup()
    from tests.e2e.test_site_agent import Agent, Centre

    with tempfile.TemporaryDirectory(prefix="soundings-agent-") as folder:
        centre = Centre(_plan())
        centre.fake.highest = PROTOCOL
        agent = Agent(Path(folder) / "site", centre.port)
        try:
            return list(_measure(agent, centre))
        finally:
            agent.stop()
            centre.stop()


def _plan() -> Plan:
    targets = [PingTarget(address=f"127.77.{n // 250}.{1 + n % 250}", path_id=n + 1) for n in range(TARGETS)]
    task = PingTask(test="pinger", every_s=60, spec=PingSpec(targets=tuple(targets)))
    return Plan(version="v1", site="home", mesh="bench", ping=(task,))


def _measure(agent: Agent, centre: Centre) -> Iterator[Row]:
    from tests.e2e.test_site_agent import wait_until

    wait_until(lambda: len(centre.bursts()) >= BURSTS_A_MINUTE, PATIENCE_S, agent.log)
    pids = [agent.process.pid, *agent.children().values()]
    began_s, began_cpu_s, began = time.monotonic(), _cpu_s(pids), len(centre.bursts())
    wait_until(lambda: len(centre.bursts()) >= began + MINUTES * BURSTS_A_MINUTE, MINUTES * 60 + PATIENCE_S, agent.log)
    cpu_s, took_s = _cpu_s(pids) - began_cpu_s, time.monotonic() - began_s
    bursts = centre.bursts()[began:]
    measured = sum(burst.result.outcome is Outcome.MEASURED for burst in bursts)
    yield Row("targets; bursts, of them measured", f"{TARGETS:,}; {len(bursts):,}, {measured:,}", "all")
    yield Row("CPU of a core", f"{100 * cpu_s / took_s:.2f} %", f"< {100 * LARGEST_SHARE:.0f} %")
    sizes_mb = {name: _largest_bytes(pid) / 1e6 for name, pid in agent.children().items()}
    sizes_mb["supervisor"] = _private_bytes(agent.process.pid) / 1e6
    yield Row("memory, largest ever", f"{sum(sizes_mb.values()):.0f} MB", f"≤ {LARGEST_MB} MB")
    yield Row("of that", ", ".join(f"{name} {size:.0f} MB" for name, size in sorted(sizes_mb.items())))


def _cpu_s(pids: list[int]) -> float:
    """CPU time used by these processes and by those that they have waited for."""
    ticks = 0
    for pid in pids:
        figures = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        ticks += sum(map(int, figures[11:15]))
    return ticks / os.sysconf("SC_CLK_TCK")


def _largest_bytes(pid: int) -> int:
    """The maximum memory of a process so far, by the kernel's count."""
    status = Path(f"/proc/{pid}/status").read_text()
    return int(re.findall(r"VmHWM:\s+(\d+) kB", status)[0]) * 1024


def _private_bytes(pid: int) -> int:
    """The memory that a process has for itself."""
    figures = Path(f"/proc/{pid}/smaps_rollup").read_text()
    return sum(map(int, re.findall(r"Private_\w+:\s+(\d+) kB", figures))) * 1024
