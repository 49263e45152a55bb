"""Facts of an outage between two hosts, as evidence gathers them: what each end tells of the other's packets."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any, cast

from monitor.alerts.evidence.facts import ArrivalCycles, Facts, OneWayFacts, PathFacts

Arrivals = tuple[ArrivalCycles, ArrivalCycles] | None
"""Before and since the onset."""


def outage_facts(source: str, destination: str, *, there: Arrivals, back: Arrivals) -> Facts:
    """`there` are the packets from the destination that the source received, `back` those from the source."""
    ends = (source, destination)
    rows = [
        OneWayFacts(
            path_id,
            *hosts,
            *hosts,
            before=None,
            after=None,
            arrivals_before=None if arrivals is None else arrivals[0],
            arrivals=None if arrivals is None else arrivals[1],
        )
        for path_id, hosts, arrivals in ((1, ends, there), (2, ends[::-1], back))
    ]
    sides = [cast("Any", type("Side", (), {"path_id": path_id})()) for path_id in (1, 2)]
    path = PathFacts(1, f"{source} → {destination}", "192.0.2.1", "192.0.2.2", 4, sides[0], sides[1], *ends)
    return Facts(datetime(2026, 11, 21, tzinfo=UTC), None, (path,), (), (), (), (), (), one_way=tuple(rows))
