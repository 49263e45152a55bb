"""Both ways of an incident: the packets of all its paths from a host or site, and those to it.

In: the facts of the incident, and which of its counts are read. Out: two `OneWay`; None where the paths of the incident
have no host or site in common, or some of them no counts.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import reduce

from monitor.alerts.evidence.facts import Facts, OneWayFacts
from monitor.analysis import figures as shown
from monitor.analysis.directions import OneWayLosses

Ends = tuple[str, str]

PathLosses = tuple[OneWayLosses, OneWayLosses]
"""Those of a path, forward and reverse."""
PathCounts = Callable[[OneWayFacts], tuple[PathLosses | None, PathLosses | None]]
"""The losses of a path before and since the beginning."""


@dataclass(frozen=True, slots=True)
class OneWay:
    """Packets one way of all paths of an incident, before and since its beginning. `ends` are hosts; a site's other end
    is empty."""

    name: str
    place: str
    ends: Ends
    before: OneWayLosses
    after: OneWayLosses

    @property
    def text(self) -> str:
        lost, sent = self.after.lost, self.after.sent
        return f"{shown.percent(lost / sent)} of {sent:,}" if lost else f"0 of {sent:,}"


def both_ways(facts: Facts, counts: PathCounts) -> tuple[OneWay, OneWay] | None:
    """Both ways of the incident: between two hosts, or out of and into the site or host that all paths share."""
    counted = [one_way for one_way in facts.one_way if counts(one_way)[1] is not None]
    path_ids = {one_way.path_id for one_way in counted}
    hosts = {(one_way.source, one_way.destination) for one_way in counted}
    sides = ([side.path_id for side in (path.there, path.back) if side is not None] for path in facts.paths)
    if not hosts or not all(path_ids.intersection(of_pair) for of_pair in sides):
        return None
    if len({frozenset(ends) for ends in hosts}) == 1:
        path = facts.paths[0].name.split(" → ")
        source, destination = (path[0], path[1]) if len(path) == 2 else min(hosts)
        return (
            _way(facts, counts, f"{source} → {destination}", f"from {source} to {destination}", (source, destination),
                 lambda one_way: (one_way.source, one_way.destination) == (source, destination)),
            _way(facts, counts, f"{destination} → {source}", f"from {destination} to {source}", (destination, source),
                 lambda one_way: (one_way.source, one_way.destination) == (destination, source)),
        )  # fmt: skip
    sites = {frozenset((one_way.source_site, one_way.destination_site)) for one_way in facts.one_way}
    shared = frozenset.intersection(*(frozenset(ends) for ends in hosts)) or frozenset.intersection(*sites)
    if len(shared) != 1:
        return None
    (name,) = shared
    return (
        _way(facts, counts, f"from {name}", f"out of {name}", (name, ""),
             lambda one_way: name in (one_way.source, one_way.source_site)),
        _way(facts, counts, f"to {name}", f"into {name}", ("", name),
             lambda one_way: name in (one_way.destination, one_way.destination_site)),
    )  # fmt: skip


def _way(
    facts: Facts, counts: PathCounts, name: str, place: str, ends: Ends, holds: Callable[[OneWayFacts], bool]
) -> OneWay:
    """The packets of all paths one way: forward on those that hold, reverse on the others."""

    def pooled(number: int) -> OneWayLosses:
        of_paths = ((path, counts(path)[number]) for path in facts.one_way)
        one_way = (losses[0 if holds(path) else 1] for path, losses in of_paths if losses is not None)
        return reduce(OneWayLosses.plus, one_way, OneWayLosses(0, 0, 0, 0))

    return OneWay(name, place, ends, pooled(0), pooled(1))
