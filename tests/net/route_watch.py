"""An agent's pings, sentinels and triggered traces without centre and schedule: prints each trace as a JSON line, and
each round of sentinels.

python tests/net/route_watch.py LIMITS_TOML ADDRESS
"""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from probes.kinds import KINDS
from probes.packets.spec import PingSpec, PingTarget
from probes.ping.spec import PingTask
from probes.site.limits.read import read_limits
from probes.site.runner.cycle import Cycles
from probes.site.runner.own_tests import OwnTests
from probes.site.runner.permit import Permit
from probes.site.runner.sentinels import Sentinels
from probes.site.runner.trace_budget import TraceBudget
from probes.site.runner.triggered_traces import TriggeredTraces
from probes.site.spool.spool import Spool
from probes.trace.kind import KIND as TRACE_KIND
from probes.trace.probe import TRACE
from probes.trace.sentinels import SentinelProbe
from probes.trace.spec import TraceRun, TraceSpec, TraceTarget, TraceTask

PATH_ID = 1


class PrintingSpool(Spool):
    def put(self, results: Any, **options: Any) -> Any:
        for each in results:
            if isinstance(each.result, TraceRun):
                line = {
                    "reason": each.result.reason.value,
                    "started_at": each.result.started_at.timestamp(),
                    "hops": [hop.address for hop in each.result.hops],
                    "reached": each.result.reached,
                }
                print(json.dumps(line), flush=True)
        return super().put(results, **options)


def main() -> None:
    limits_file, address = sys.argv[1:]
    traces = TraceTask(
        test="routes", every_s=600, spec=TraceSpec(targets=(TraceTarget(address=address, path_id=PATH_ID),), attempts=1)
    )
    target = PingTarget(address=address, path_id=PATH_ID)
    pings = PingTask(
        test="pinger",
        every_s=60,
        spec=PingSpec(targets=(target,), spacing_s=0.1, timeout_s=0.5, late_s=0.1, check_rate_limit=False),
    )
    plan: Any = SimpleNamespace(of=lambda kind: {"trace": (traces,), "ping": (pings,)}.get(kind.name, ()))
    permit = Permit(read_limits(Path(limits_file)))
    budget = TraceBudget(lambda: TRACE.memory.packets)

    def note(results: Any) -> None:
        triggered.note(results)
        sentinels.note(results)

    def send(spec: Any, deadline: Any, most_packets: int) -> tuple[int, ...]:
        changed = probe.run(spec, deadline, most_packets)
        print(json.dumps({"reason": "", "changed": len(changed)}), flush=True)
        return changed

    probe = SentinelProbe(TRACE.memory)
    with tempfile.TemporaryDirectory() as folder:
        cycles = Cycles(PrintingSpool(Path(folder) / "spool.sqlite3"), permit, OwnTests(), note=note)
        triggered = TriggeredTraces(cycles.run_besides, lambda: plan)
        sentinels = Sentinels(send, permit, lambda: plan, budget, triggered.request)
        cycles.run(TRACE_KIND, traces)
        while True:
            cycles.run(KINDS["ping"], pings)  # type: ignore[arg-type]


if __name__ == "__main__":
    main()
