"""The direction of an outage, by packets that still arrive at the reflectors of both agents."""

from __future__ import annotations

from dataclasses import dataclass, replace

from monitor.alerts.evidence.facts import ArrivalCycles, Facts
from monitor.alerts.evidence.one_way.ways import Ends, OneWay, PathLosses, both_ways
from monitor.analysis.directions import OneWayLosses

NOTHING = OneWayLosses(0, 0, 0, 0)
LEAST_CYCLES = 2
# A direction works from this share of cycles with packets.
MOST = 0.8


@dataclass(frozen=True, slots=True)
class CutDirection:
    text: str
    toward: Ends | None  # its ends; None where both are cut


def cut_direction(facts: Facts) -> CutDirection | None:
    """The direction of the outage; None if it cannot be told."""
    ways = both_ways(facts, lambda path: (_as_losses(path.arrivals_before), _as_losses(path.arrivals)))
    if ways is None:
        return None
    are_cut = [_is_cut(way) for way in ways]
    if all(are_cut):
        return CutDirection(f"no packet arrives {ways[0].place}, nor {ways[1].place}", None)
    for way, other, is_cut in ((ways[0], ways[1], are_cut[0]), (ways[1], ways[0], are_cut[1])):
        if is_cut and _works(other):
            return CutDirection(f"no packet arrives {way.place}, those {other.place} do", way.ends)
    return None


def with_proven_cut(facts: Facts, earlier: Facts) -> Facts:
    """Restore the arrivals that proved the direction, which the cycles of its end blur."""
    kept = replace(facts, one_way=earlier.one_way)
    is_lost = facts.ended_at is not None and cut_direction(facts) is None and cut_direction(kept) is not None
    return kept if is_lost else facts


def _as_losses(arrivals: ArrivalCycles | None) -> PathLosses | None:
    """Count cycles without arrivals as lost packets of the reverse direction."""
    if arrivals is None:
        return None
    silent = arrivals.cycles - arrivals.with_packets
    return NOTHING, OneWayLosses(silent, arrivals.cycles, arrivals.cycles, silent)


def _is_cut(way: OneWay) -> bool:
    worked = way.before.lost < way.before.sent
    return worked and way.after.sent >= LEAST_CYCLES and way.after.lost == way.after.sent


def _works(way: OneWay) -> bool:
    return way.after.sent >= LEAST_CYCLES and way.after.lost <= (1.0 - MOST) * way.after.sent
