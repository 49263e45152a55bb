"""Collect STAMP measurements of an incident's paths, before and since its beginning: two to six queries."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta

from monitor.alerts.evidence.facts import ArrivalCycles, OneWayFacts, PathFacts
from monitor.analysis.directions import OneWayDelays, SteppedDirection, delay_step_direction
from monitor.archive.queries.directions import PathStretch, direction_counts, one_way_delays, peer_arrivals
from monitor.archive.statements import LONGEST_RAW

# Delays this long before and after the beginning are compared: clocks drift by less than a step meanwhile.
NEAR = timedelta(minutes=30)


def collect_one_way(paths: Sequence[PathFacts], left_out: Sequence[PathStretch] = ()) -> tuple[OneWayFacts, ...]:
    """Collect both directions of these paths and their reverse paths."""
    both = [(path, side) for path in paths for side in (path.there, path.back) if side is not None]
    if not both:
        return ()
    path_ids = sorted({side.path_id for _, side in both})
    before, after = both[0][1].before, both[0][1].after
    counted = direction_counts(*_last_day(after.since, after.until), path_ids)
    delays = one_way_delays(after.since, max(after.since, min(after.until, after.since + NEAR)), path_ids)
    is_outage = any(side.after.is_cut_off for _, side in both)
    arrivals = peer_arrivals(*_last_day(after.since, after.until), path_ids) if is_outage else {}
    if not counted and not delays and not arrivals:
        return ()
    arrivals_before = peer_arrivals(*_last_day(before.since, before.until), list(arrivals)) if arrivals else {}
    counted_before = direction_counts(*_last_day(before.since, before.until), path_ids, left_out)
    delays_before = one_way_delays(max(before.since, before.until - NEAR), before.until, path_ids)
    facts = []
    for path, side in both:
        if not any(side.path_id in measured for measured in (counted, delays, arrivals)):
            continue
        ends = (path.source_site, path.destination_site)
        source, _, destination = side.name.partition(" → ")
        step = _step(delays_before.get(side.path_id), delays.get(side.path_id))
        facts.append(
            OneWayFacts(
                path_id=side.path_id,
                source=source,
                destination=destination,
                source_site=ends[0] if side is path.there else ends[1],
                destination_site=ends[1] if side is path.there else ends[0],
                before=counted_before.get(side.path_id),
                after=counted.get(side.path_id),
                step=step[0],
                step_ms=step[1],
                arrivals_before=_cycles(arrivals_before.get(side.path_id)),
                arrivals=_cycles(arrivals.get(side.path_id)),
            )
        )
    return tuple(facts)


def _last_day(since: datetime, until: datetime) -> tuple[datetime, datetime]:
    until = max(since, until)
    return max(since, until - LONGEST_RAW), until


def _cycles(counts: tuple[int, int] | None) -> ArrivalCycles | None:
    return None if counts is None else ArrivalCycles(*counts)


def _step(before: OneWayDelays | None, after: OneWayDelays | None) -> tuple[SteppedDirection, float | None]:
    if before is None or after is None:
        return SteppedDirection.UNKNOWN, None
    step = delay_step_direction(before, after)
    return step.direction, step.step_ms
