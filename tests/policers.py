"""The table of `policers`, the policer test over simulated paths.

Each path has its own seed, so that two runs give the same table. It takes about ten minutes of one processor.
"""

from __future__ import annotations

import math
import random
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from probes.policer.spec import PolicerVerdict
from tests.reproduce.table import Table
from tests.scored import count_of
from tests.unit.transfers.policer_paths import LabPath, Shaper, measured
from tests.unit.transfers.test_policer_estimate import WITHIN, null_paths

POLICERS, SHAPERS, SEEDS_OF_NULL = 1000, 500, 40
CALM, BUSY = (0.0, 0.0002), (0.01, 0.001)
"""Stalls of the sender and noise of the receiver, s: an idle host and a busy one."""
HOSTS = {"idle": CALM, "busy": BUSY}
LIMITS = (PolicerVerdict.POLICER, PolicerVerdict.SHAPER)


@dataclass(frozen=True, slots=True)
class PlantedLimit:
    """A path with its planted mechanism, None for no bucket, and its rate and burst."""

    path: Any
    seed: int
    verdict: PolicerVerdict | None = None
    rate_bps: float = 0.0
    burst_bytes: float = 0.0


def planted(kind: str, share: float) -> Iterator[PlantedLimit]:
    if kind == "none":
        for seed in range(count_of(SEEDS_OF_NULL, share)):
            for path in null_paths(seed):
                yield PlantedLimit(path, seed)
        return
    for seed in range(count_of(POLICERS if kind == "policer" else SHAPERS, share)):
        chance = random.Random(seed)
        rate_bps = 1e6 * math.exp(chance.uniform(0.0, math.log(50.0)))
        burst = math.exp(chance.uniform(math.log(15_000), math.log(1_000_000)))
        if kind == "policer":
            path: Any = LabPath(seed, policer_mbps=rate_bps / 1e6, policer_bytes=round(burst))
            yield PlantedLimit(path, seed, PolicerVerdict.POLICER, rate_bps, burst)
        else:
            path = Shaper(rate_bps, burst, queue_bytes=rate_bps / 8 * chance.uniform(0.05, 0.3))
            yield PlantedLimit(path, seed, PolicerVerdict.SHAPER, rate_bps, burst)


def judged(limit: PlantedLimit, stall_s: float, noise_s: float) -> str:
    result, _ = measured(limit.path, limit.seed, stall_s=stall_s, noise_s=noise_s)
    if result.verdict is PolicerVerdict.UNDETERMINED:
        return "undetermined"
    if limit.verdict is None:
        return "called a bucket" if result.verdict in LIMITS else "right"
    if result.verdict is not limit.verdict:
        return f"called {result.verdict}"
    if abs(result.sustained_bps / limit.rate_bps - 1) > WITHIN:
        return "rate off"
    if result.burst_bytes is None:
        return "right, no burst"
    return "burst off" if abs(result.burst_bytes / limit.burst_bytes - 1) > WITHIN else "right"


NAMES = {
    "policer": "policers of 1 to 50 Mbit/s, buckets of 15 kB to 1 MB",
    "shaper": "shapers of the same rates and buckets",
    "none": "paths without a bucket",
}
COLUMNS = ("right", "right, no burst", "undetermined", "rate off", "burst off")


def table(share: float) -> Table:
    """What the policer test says of each kind of path, from an idle and a busy host."""
    result = Table(("simulated", "hosts", "runs", *COLUMNS, "called otherwise"))
    for kind, name in NAMES.items():
        for hosts, (stall_s, noise_s) in HOSTS.items():
            counts = Counter(judged(limit, stall_s, noise_s) for limit in planted(kind, share))
            wrong = {reason: count for reason, count in counts.items() if reason.startswith("called")}
            told = ", ".join(f"{count} {reason.removeprefix('called ')}" for reason, count in sorted(wrong.items()))
            cells = (f"{counts[column]:,}" for column in COLUMNS)
            result.rows.append((name, hosts, f"{counts.total():,}", *cells, told or "0"))
    return result


PARTS = {"simulated runs": table}
