"""Resource use of an agent that measures 1,000 targets every minute, against fping with the same packets. 6 minutes.

A whole agent, as run at a site, measures loopback addresses like PingER: ten requests of each of two sizes per minute
to each, after one that is not counted. Each result is spooled and delivered to a small centre in this process. Memory
is the kernel's resident size of the worker, and the supervisor's pages that it shares with nobody, so that shared
libraries count once; CPU is that of whole minutes, the first of which begins when the first cycle is delivered. Before
the agent and after it, fping sends the packets of a cycle to the same addresses, a size at a time.
"""

from __future__ import annotations

import argparse
import os
import re
import resource
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import django

from probes.contract import Outcome
from probes.packets.spec import PingSpec, PingTarget
from probes.ping.spec import PingTask
from probes.site.wire import PROTOCOL, Plan
from tests.bench import Row
from tests.bench.processes import cpu_s

if TYPE_CHECKING:
    from tests.e2e.test_site_agent import Agent, Centre

TARGETS = 1000
MINUTES = 3
PATIENCE_S = 150.0
SETTLE_S = 10.0
"""After the delivery of the first cycle; the next cycles are then in the middle of a measured minute."""
FPING_PACKETS_PER_S = 5000
"""Above 6,500 fping runs out of sequence numbers."""
LARGEST_MB = 80
LARGEST_SHARES = {1000: 0.01, 10_000: 0.08}
LIMITS = """
[networks]
allowed = ["127.77.0.0/16"]
[ping]
max_packets_per_s = 20000
"""


def run(targets: int = TARGETS, minutes: int = MINUTES) -> list[Row]:
    """The maximum memory, the CPU, and whether all targets were measured."""
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "monitor.settings")
    django.setup()
    from tests.e2e.test_site_agent import Agent, Centre

    with tempfile.TemporaryDirectory(prefix="soundings-agent-") as folder:
        limits = Path(folder) / "limits.toml"
        limits.write_text(LIMITS)
        plan = _plan(targets)
        spec = plan.ping[0].spec
        theirs_s = [_fping_cpu_s(spec)]
        centre = Centre(plan)
        centre.fake.highest = PROTOCOL
        agent = Agent(Path(folder) / "site", centre.port, "--limits", str(limits))
        try:
            used_s, rows = _measure(agent, centre, spec, minutes)
        finally:
            agent.stop()
            centre.stop()
        return [*rows, *_against_fping(spec, used_s, [*theirs_s, _fping_cpu_s(spec)])]


def rows_of(arguments: Sequence[str]) -> list[Row]:
    """The figures of a run with the options of the command line."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench agent", description=__doc__)
    parser.add_argument("--targets", type=int, default=TARGETS)
    parser.add_argument("--minutes", type=int, default=MINUTES)
    return run(**vars(parser.parse_args(arguments)))


def _plan(count: int) -> Plan:
    targets = [PingTarget(address=f"127.77.{n // 250}.{1 + n % 250}", path_id=n + 1) for n in range(count)]
    task = PingTask(test="pinger", every_s=60, spec=PingSpec(targets=tuple(targets)))
    return Plan(version="v1", site="home", mesh="bench", ping=(task,))


def _measure(agent: Agent, centre: Centre, spec: PingSpec, minutes: int) -> tuple[float, list[Row]]:
    """The CPU time of a minute in seconds, and the rows of the agent."""
    from tests.e2e.test_site_agent import wait_until

    targets = len(spec.targets)
    wait_until(lambda: len(centre.bursts()) >= len(spec.packet_bytes) * targets, PATIENCE_S, agent.log)
    time.sleep(SETTLE_S)
    pids = [agent.process.pid, *agent.children().values()]
    began, began_s, began_cpu_s = len(centre.bursts()), time.monotonic(), cpu_s(pids)
    # This process does nothing meanwhile but to store results: it would take the caches of the processor.
    time.sleep(60 * minutes)
    share = (cpu_s(pids) - began_cpu_s) / (time.monotonic() - began_s)
    bursts = centre.bursts()[began:]
    measured = sum(burst.result.outcome is Outcome.MEASURED for burst in bursts)
    sent, received = (sum(getattr(burst.result, name) for burst in bursts) for name in ("sent", "received"))
    sizes_mb = {name: _largest_bytes(pid) / 1e6 for name, pid in agent.children().items()}
    sizes_mb["supervisor"] = _private_bytes(agent.process.pid) / 1e6
    reach = f"< {100 * LARGEST_SHARES[targets]:.0f} %" if targets in LARGEST_SHARES else ""
    return 60 * share, [
        Row("targets, minutes", f"{targets:,}, {minutes}"),
        Row("bursts, of them measured", f"{len(bursts):,}, {measured:,}", "all"),
        Row("packets without a reply", f"{sent - received:,} of {sent:,}", "0"),
        Row("CPU of a core", f"{100 * share:.2f} %", reach),
        Row("memory, largest ever", f"{sum(sizes_mb.values()):.0f} MB", f"≤ {LARGEST_MB} MB" * (targets <= TARGETS)),
        Row("of that", ", ".join(f"{name} {size:.0f} MB" for name, size in sorted(sizes_mb.items()))),
    ]


def _against_fping(spec: PingSpec, ours_s: float, theirs_s: Sequence[float | None]) -> Iterator[Row]:
    """The ratio of our CPU time in a minute to that of fping for a cycle."""
    known_s = [used_s for used_s in theirs_s if used_s is not None]
    if not known_s:
        yield Row("CPU of fping", "fping is not installed")
        return
    spacing_ms, period_ms = _fping_pace_ms(spec)
    yield Row("CPU of a minute", f"{ours_s:.2f} s")
    yield Row(f"fping -C {spec.count} -i {spacing_ms:g} -p {period_ms:g}", " and ".join(f"{s:.2f} s" for s in known_s))
    yield Row("ratio, ours to fping", f"{ours_s / (sum(known_s) / len(known_s)):.2f}")


def _fping_cpu_s(spec: PingSpec) -> float | None:
    """CPU time of fping for the packets of a cycle; None if it is not installed."""
    if shutil.which("fping") is None:
        return None
    spacing_ms, period_ms = _fping_pace_ms(spec)
    counts = dict.fromkeys(spec.packet_bytes, spec.count)
    if spec.priming_bytes is not None:
        counts[spec.priming_bytes] = 1
    before_s = _children_cpu_s()
    for size, count in counts.items():
        options = ("-q", "-C", count, "-b", size, "-i", f"{spacing_ms:g}", "-p", f"{period_ms:g}")
        command = ["fping", *map(str, options), *(target.address for target in spec.targets)]
        subprocess.run(command, stderr=subprocess.DEVNULL, check=False)
    return _children_cpu_s() - before_s


def _fping_pace_ms(spec: PingSpec) -> tuple[float, float]:
    """Between two packets, and between two to a target: as in the plan, within what fping can do."""
    spacing_ms = 1000 * max(spec.spacing_s / len(spec.targets), 1 / FPING_PACKETS_PER_S)
    return spacing_ms, spacing_ms * len(spec.targets)


def _children_cpu_s() -> float:
    """CPU time of the ended processes that this process has waited for."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _largest_bytes(pid: int) -> int:
    """The maximum memory of a process so far, by the kernel's count."""
    status = Path(f"/proc/{pid}/status").read_text()
    return int(re.findall(r"VmHWM:\s+(\d+) kB", status)[0]) * 1024


def _private_bytes(pid: int) -> int:
    """The memory that a process has for itself."""
    figures = Path(f"/proc/{pid}/smaps_rollup").read_text()
    return sum(map(int, re.findall(r"Private_\w+:\s+(\d+) kB", figures))) * 1024
