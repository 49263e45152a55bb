"""The slots of a site, run by the agent's runner of slots: `python -m tests.net.aggregate_end` at a site of a lab.

Out: the line `ready`, then a line of JSON for each result, as it would be delivered. In: a plan as JSON on standard
input.
"""

from __future__ import annotations

import sys
import tempfile
import threading
from datetime import UTC, datetime
from pathlib import Path

import msgspec

from probes.site.limits.limits import Limits
from probes.site.limits.networks import Networks
from probes.site.runner.own_tests import OwnTests
from probes.site.runner.permit import Permit
from probes.site.runner.slot import Slots
from probes.site.spool.spool import Spool
from probes.site.wire import Plan


def main() -> None:
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    plan = msgspec.json.decode(sys.stdin.buffer.read(), type=Plan)
    limits = Limits(networks=Networks(allowed=("10.77.0.0/16",)))
    with tempfile.TemporaryDirectory() as folder:
        spool = Spool(Path(folder) / "spool.sqlite3")
        slots = Slots(spool, Permit(limits), OwnTests())
        threads = []
        for planned in plan.slots:
            # Deriving keys takes seconds; agents do it a minute ahead.
            slot = msgspec.structs.replace(planned, spec=msgspec.structs.replace(planned.spec, one_time_key=None))
            wait_s = max(0.0, (slots.starts_at(slot) - datetime.now(UTC)).total_seconds())
            threads.append(threading.Timer(wait_s, slots.run, (slot,)))
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        batch = spool.next_batch(max_results=1000, max_bytes=10**7, now=datetime.now(UTC), agent_version="1")
        for result in () if batch is None else batch.results:
            sys.stdout.write(msgspec.json.encode(result).decode() + "\n")


if __name__ == "__main__":
    main()
