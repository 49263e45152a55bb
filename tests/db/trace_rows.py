"""Traces as delivered by an agent, from the letters of their hops: "A*C" are router A, a silent hop and router C."""

from __future__ import annotations

from datetime import datetime

from monitor.mesh.models import Path
from probes.contract import Outcome
from probes.site.wire import Delivered
from probes.trace.spec import Hop, TraceRun
from tests.db.mesh_of_three import HOUR

FLOW = 4711


def address(letter: str) -> str:
    return f"198.51.100.{ord(letter) - ord('A') + 1}"


def hop(ttl: int, letter: str, **fields: object) -> Hop:
    if letter == "*":
        return Hop(ttl=ttl, rtts_ms=(None, None, None), **fields)
    return Hop(**{"ttl": ttl, "address": address(letter), "rtts_ms": (float(ttl), None, ttl + 0.5), **fields})


def trace(letters: str = "", *, at: datetime = HOUR, reached: bool = True, **fields: object) -> TraceRun:
    values: dict[str, object] = {
        "target": "cern",
        "address": "192.0.2.2",
        "family": 4,
        "started_at": at,
        "outcome": Outcome.MEASURED,
        "flow": FLOW,
        "reached": reached,
        "hops": tuple(hop(ttl, letter) for ttl, letter in enumerate(letters, 1)),
    }
    return TraceRun(**{**values, **fields})


def delivered(path: Path, run: TraceRun, sequence: int = 1, **fields: object) -> Delivered:
    return Delivered(**{"sequence": sequence, "path_id": path.pk, "test": "routes", "result": run, **fields})
