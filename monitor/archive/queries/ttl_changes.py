"""Route changes seen as TTL changes of replies: only of the reverse path, in a day at most."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from itertools import pairwise

from monitor.archive.statements import check_raw_period, run_statement

# Consecutive bursts with the same TTL that count as a route; a single reply over another path does not.
LEAST_BURSTS = 3


@dataclass(frozen=True, slots=True)
class TtlChange:
    """Reply TTL was `before` until `at`, then `after`."""

    at: datetime
    before: int
    after: int


def ttl_changes(path_id: int, packet_bytes: int, since: datetime, until: datetime) -> list[TtlChange]:
    """TTL changes that lasted `LEAST_BURSTS` bursts. Raises `ValueError` for more than a day."""
    check_raw_period(since, until)
    parameters = {"path_id": path_id, "packet_bytes": packet_bytes, "since": since, "until": until}
    _, rows = run_statement("ttl_runs", **parameters)
    held = [(at, ttl) for at, ttl, bursts in rows if bursts >= LEAST_BURSTS]
    return [TtlChange(at, before, after) for (_, before), (at, after) in pairwise(held) if before != after]
