"""An agent's end of a STAMP path: a reflector and cycles to PEER, a JSON line for each cycle until the input ends.

Run as `python -m tests.net.stamp_ends PEER`; a cycle follows each line of the input.
"""

from __future__ import annotations

import json
import sys
import threading
import time

from probes.contract import Deadline
from probes.stamp.limits import StampLimits
from probes.stamp.probe import STAMP
from probes.stamp.reflector.service import ReflectorService
from probes.stamp.spec import AnsweredPeer, ReflectorPlan, StampSpec, StampTarget

PORT = 8620
READY_S = 10.0


def main(peer: str) -> None:
    plan = ReflectorPlan(peers=(AnsweredPeer(address=peer),), port=PORT)
    service = ReflectorService(lambda: plan, StampLimits(), lambda address: None, STAMP.arrivals)
    stop = threading.Event()
    thread = threading.Thread(target=service.run, args=(stop,))
    thread.start()
    target = StampTarget(address=peer, port=PORT)
    spec = StampSpec(targets=(target,), count=5, spacing_s=0.02, timeout_s=0.3, late_s=0.0)
    until_s = time.monotonic() + READY_S
    while not STAMP.arrivals.is_running and time.monotonic() < until_s:
        time.sleep(0.02)
    print("ready", flush=True)
    for _ in sys.stdin:
        (burst,) = STAMP.run(spec, Deadline(20.0))
        told = {"received": burst.received, "undecided": burst.undecided, "peer_packets": burst.peer_packets}
        print(json.dumps(told), flush=True)
    stop.set()
    thread.join()


if __name__ == "__main__":
    main(sys.argv[1])
