"""What programs that keep their own series ask: counts that only grow, and the newest of each path.

Counts of a path are of the UTC day, and begin anew with it; those of deliveries have been kept for ever. Out: frozen
records, None where there is nothing to say. Each function is one statement in sql/, and reads summaries and the newest
burst of a path, found by its index.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

import numpy as np
from numpy.typing import NDArray

from monitor.analysis.sketches import RTT_MS, Sketches
from monitor.archive.periods import start_of
from monitor.archive.statements import ask, records


@dataclass(frozen=True, slots=True)
class Waiting:
    """Summaries of a tier that wait to be computed, the longest since `since`."""

    tier: str
    summaries: int
    since: datetime


@dataclass(frozen=True, slots=True)
class PathCounter:
    """One path and packet size since the UTC day began. `address`, `measured_at` and `ttl` are of the newest burst of
    the last day; `rtt_sum_ms` is over all received, `rtt_sketch` as monitor.analysis.sketches has it."""

    path_id: int
    packet_bytes: int
    source_site: str
    destination_site: str
    source: str
    host: str
    family: int
    address: str | None
    measured_at: datetime | None
    ttl: int | None
    sent: int
    received: int
    duplicates: int
    rtt_sum_ms: float
    rtt_sketch: bytes | None


@dataclass(frozen=True, slots=True)
class DeliveredCount:
    """All results of a site that ever came, refused ones included."""

    site: str
    delivered: int


def path_counters(now: datetime, *, source: str | None = None, most: int) -> list[PathCounter]:
    """The paths in use, those from one site with `source`, by path and size, `most` of them."""
    asked = {"since": start_of("day", now), "now": now, "source": source, "most": most}
    return records(PathCounter, *ask("path_counters", **asked))


def received_within(counters: Sequence[PathCounter], bounds_ms: Sequence[float]) -> NDArray[np.int64]:
    """How many round trips of each took at most each bound, shape (counters, bounds); bounds ascend. A round trip
    counts as the middle of its sketch's bucket, which is within 0.25%."""
    sketches = Sketches.of_bytes([one.rtt_sketch for one in counters])
    place = np.searchsorted(np.asarray(bounds_ms), RTT_MS.values_of(sketches.key), side="left")
    counts = np.zeros((len(counters), len(bounds_ms) + 1), dtype=np.int64)
    np.add.at(counts, (sketches.group, place), sketches.count)
    within: NDArray[np.int64] = counts.cumsum(axis=1)[:, :-1]
    return within


def delivered_counts() -> list[DeliveredCount]:
    """Each site that ever delivered, by name."""
    return records(DeliveredCount, *ask("delivered_counts"))


def waiting() -> list[Waiting]:
    """The tiers of which summaries wait to be computed."""
    return records(Waiting, *ask("waiting"))
