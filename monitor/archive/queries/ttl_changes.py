"""What the replies tell of a path's route: when the TTL that they had left changed.

In: a path, a packet size, and a period of a day at most. Out: the changes, oldest first. The TTL of a reply counts the
routers on the way back; a change of the way there alone is not seen. Nothing else is known of routes.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from itertools import pairwise

from monitor.archive.statements import ask, check_raw_period

LEAST_BURSTS = 3
"""In a row with one TTL before a route counts as one; a single reply that came another way is none."""


@dataclass(frozen=True, slots=True)
class TtlChange:
    """From `at` on, replies had the TTL `after` left, and `before` until then."""

    at: datetime
    before: int
    after: int


def ttl_changes(path_id: int, packet_bytes: int, since: datetime, until: datetime) -> list[TtlChange]:
    """When the TTL of replies changed for at least `LEAST_BURSTS` bursts; `ValueError` for more than a day."""
    check_raw_period(since, until)
    asked = {"path_id": path_id, "packet_bytes": packet_bytes, "since": since, "until": until}
    _, rows = ask("ttl_runs", **asked)
    held = [(at, ttl) for at, ttl, bursts in rows if bursts >= LEAST_BURSTS]
    return [TtlChange(at, before, after) for (_, before), (at, after) in pairwise(held) if before != after]
