"""Route changes seen as changes of the TTL of replies.

In: a path, a packet size, and a period of a day at most. Out: the changes, oldest first. A reply's TTL counts the
routers on the reverse path; a change of the forward path alone is not seen.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from itertools import pairwise

from monitor.archive.statements import check_raw_period, run_statement

LEAST_BURSTS = 3
"""Consecutive bursts with the same TTL that count as a route; a single reply over another path does not."""


@dataclass(frozen=True, slots=True)
class TtlChange:
    """TTL of replies was `after` from `at` on, and `before` until then."""

    at: datetime
    before: int
    after: int


def ttl_changes(path_id: int, packet_bytes: int, since: datetime, until: datetime) -> list[TtlChange]:
    """Changes of the replies' TTL that lasted at least `LEAST_BURSTS` bursts; `ValueError` for more than a day."""
    check_raw_period(since, until)
    parameters = {"path_id": path_id, "packet_bytes": packet_bytes, "since": since, "until": until}
    _, rows = run_statement("ttl_runs", **parameters)
    held = [(at, ttl) for at, ttl, bursts in rows if bursts >= LEAST_BURSTS]
    return [TtlChange(at, before, after) for (_, before), (at, after) in pairwise(held) if before != after]
