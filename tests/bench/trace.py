"""Traces compared with `mtr -r -c 10` and `scamper` in a single run, over Linux routers in namespaces: 5 minutes.

All trace to addresses of the same host, five hops away. `scamper` and our agent trace all of them in a process, `mtr`
one in each. Our figures are those of an agent that has its code loaded, ten attempts at each hop as mtr's.
"""

from __future__ import annotations

import json
import resource
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.bench import Row
from tests.net.routers import Routers, routers

TARGETS = 100
MANY = 1000
MTR_TARGETS = 5
ATTEMPTS = 10
EVERY_S = 600
PINGS = 10 * 2 * 10
"""The default mesh pings a path with 10 packets of 2 sizes a minute: packets in 10 minutes."""
REPOSITORY = Path(__file__).parents[2]

ROUNDS = """
import json, sys, time
from datetime import UTC, datetime
from probes.contract import Deadline
from probes.packets.resolve import resolve
from probes.trace.memory import RouteMemory
from probes.trace.probe import Traces
from probes.trace.search import EarlierRoute
from probes.trace.spec import TraceSpec, TraceTarget
addresses, fields = json.loads(sys.argv[1]), json.loads(sys.argv[2])
spec = TraceSpec(targets=tuple(TraceTarget(address=address) for address in addresses), **fields)
memory, rounds = RouteMemory(), []
if len(addresses) > 100:
    # As after a first round, which takes minutes.
    near = ("10.8.1.2", "10.8.2.2", "10.8.3.2", "10.8.5.2")
    memory.learn({("icmp", 4, None, (each, 0)): EarlierRoute((*near, each), reached=True) for each in addresses})
for _ in range(int(sys.argv[3])):
    before = time.process_time()
    deadline = Deadline(300.0)
    answers = resolve([(address, 4) for address in addresses], deadline)
    with Traces(spec, answers, memory, datetime.now(UTC)) as traces:
        traces.run(deadline)
        runs = traces.runs()
        packets = traces.packets
    right = sum(run.reached and len(run.hops) == 5 for run in runs)
    rounds.append([time.process_time() - before, packets, right])
print(json.dumps(rounds))
"""


def run() -> list[Row]:
    """Measure everything; comparisons with a missing tool are left out."""
    missing = [tool for tool in ("ip", "mtr", "scamper") if shutil.which(tool) is None]
    if missing:
        return [Row("CPU per traced path", f"{' and '.join(missing)} not installed")]
    with routers() as path:
        path.at("far", "ip", "route", "add", "local", "10.77.0.0/16", "dev", "lo")
        path.at("r4", "ip", "route", "add", "10.77.0.0/16", "via", "10.8.7.2")
        [(cpu_s, _, right)] = ours(path, TARGETS, 1, attempts=ATTEMPTS)
        ours_ms = 1000 * cpu_s / TARGETS
        [(single_s, _, _)] = ours(path, 1, 1, attempts=ATTEMPTS)
        mtr_ms = children_ms(
            path, *[("mtr", "-r", "-n", "-i", "0.2", "-c", str(ATTEMPTS), each) for each in addresses(MTR_TARGETS)]
        )
        scamper_ms = against_scamper(path)
        [many] = ours(path, MANY, 1, attempts=3, max_packets=30)
        many_ms = 1000 * many[0] / MANY
    return [
        Row(f"CPU per traced path, {TARGETS} in a round: ours", f"{ours_ms:.2f} ms; {right} right"),
        Row("CPU of a single path: ours", f"{1000 * single_s:.1f} ms"),
        Row(f"CPU per traced path: mtr -r -c {ATTEMPTS}", f"{mtr_ms / MTR_TARGETS:.1f} ms"),
        Row("ratio, ours to mtr", f"{ours_ms / (mtr_ms / MTR_TARGETS):.3f}"),
        Row(f"CPU per traced path, {MANY} in a round of an agent: ours", f"{many_ms:.2f} ms"),
        Row("ratio, an agent's to mtr", f"{many_ms / (mtr_ms / MTR_TARGETS):.3f}", "≤ 0.1"),
        Row(f"CPU per traced path, {TARGETS} in a process: scamper", f"{scamper_ms / TARGETS:.2f} ms"),
        Row("ratio, ours to scamper", f"{ours_ms / (scamper_ms / TARGETS):.2f}"),
        Row(f"{MANY} targets every 10 minutes", text(*many), "< 1% of a core, ≤ 15% of the pings"),
    ]


def text(cpu_s: float, packets: int, right: int) -> str:
    """The cost of a round."""
    share = packets / (MANY * PINGS)
    return f"{100 * cpu_s / EVERY_S:.2f}% of a core, packets {100 * share:.1f}% of the pings; {right} right"


def addresses(count: int) -> list[str]:
    return [f"10.77.{number // 250}.{1 + number % 250}" for number in range(count)]


def ours(path: Routers, targets: int, rounds: int, **fields: int) -> list[tuple[float, int, int]]:
    """CPU, packets and right routes of each round."""
    arguments = (json.dumps(addresses(targets)), json.dumps(fields), str(rounds))
    command = path.command("near", sys.executable, "-c", ROUNDS, *arguments)
    done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=REPOSITORY)
    return [(cpu_s, packets, right) for cpu_s, packets, right in json.loads(done.stdout)]


def children_ms(path: Routers, *commands: Sequence[str]) -> float:
    """CPU of these commands."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    for command in commands:
        path.at("near", *command)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return 1000 * (after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime)


def against_scamper(path: Routers) -> float:
    """CPU of scamper for all targets; it probes each hop once, and again without a reply."""
    with TemporaryDirectory() as folder:
        listed, warts = Path(folder) / "targets", Path(folder) / "traces.warts"
        listed.write_text("\n".join(addresses(TARGETS)) + "\n")
        return children_ms(
            path,
            ("scamper", "-O", "warts", "-o", str(warts), "-p", "1000", "-c", "trace -P icmp-paris", "-f", str(listed)),
        )
