"""Sum packets both ways over all paths of an incident, from and to a common host, site or group."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from functools import reduce
from itertools import chain

from monitor.alerts.evidence.facts import Facts, OneWayFacts
from monitor.analysis import figures as shown
from monitor.analysis.directions import OneWayLosses

MOST_NAMED = 3

Ends = tuple[str, str]

# Of a path, forward and reverse.
PathLosses = tuple[OneWayLosses, OneWayLosses]
# The losses of a path before and since the beginning.
PathCounts = Callable[[OneWayFacts], tuple[PathLosses | None, PathLosses | None]]


@dataclass(frozen=True, slots=True)
class OneWay:
    """Packets in a direction on all paths of an incident."""

    name: str
    place: str
    ends: Ends  # hosts; a site's other end is empty
    before: OneWayLosses
    after: OneWayLosses

    @property
    def text(self) -> str:
        lost, sent = self.after.lost, self.after.sent
        return f"{shown.percent(lost / sent)} of {sent:,}" if lost else f"0 of {sent:,}"


def both_ways(facts: Facts, counts: PathCounts) -> tuple[OneWay, OneWay] | None:
    """Sum both ways between two hosts or site groups, or out of and into a common place."""
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
        return _between_groups(facts, counts, counted)
    (name,) = shared
    return (
        _way(facts, counts, f"from {name}", f"out of {name}", (name, ""),
             lambda one_way: name in (one_way.source, one_way.source_site)),
        _way(facts, counts, f"to {name}", f"into {name}", ("", name),
             lambda one_way: name in (one_way.destination, one_way.destination_site)),
    )  # fmt: skip


def _between_groups(facts: Facts, counts: PathCounts, counted: Sequence[OneWayFacts]) -> tuple[OneWay, OneWay] | None:
    """Both ways between two groups; None where a path lies within a group."""
    groups = _two_groups({(one_way.source_site, one_way.destination_site) for one_way in counted})
    if groups is None:
        return None
    (near, far), names = groups, tuple(_listed(group) for group in groups)

    def way(source: str, destination: str, sources: frozenset[str]) -> OneWay:
        name = f"{source} → {destination}"
        return _way(
            facts, counts, name, f"from {source} to {destination}", (source, destination),
            lambda one_way: one_way.source_site in sources,
        )  # fmt: skip

    return way(names[0], names[1], near), way(names[1], names[0], far)


def _two_groups(pairs: AbstractSet[Ends]) -> tuple[frozenset[str], frozenset[str]] | None:
    """Split sites into two groups that every pair crosses; None if impossible or arbitrary."""
    sites = sorted(set(chain.from_iterable(pairs)))
    side, queue = {sites[0]: 0}, [sites[0]]
    while queue:
        site = queue.pop()
        for pair in pairs:
            if site in pair:
                other = pair[1] if pair[0] == site else pair[0]
                if other not in side:
                    side[other] = 1 - side[site]
                    queue.append(other)
                elif side[other] == side[site]:
                    return None
    if len(side) != len(sites):
        return None
    near, far = (frozenset(site for site in side if side[site] == number) for number in (0, 1))
    return near, far


def _listed(sites: frozenset[str]) -> str:
    names = sorted(sites)
    if len(names) <= MOST_NAMED:
        return ", ".join(names)
    return f"{', '.join(names[: MOST_NAMED - 1])} and {len(names) - MOST_NAMED + 1} more sites"


def _way(
    facts: Facts, counts: PathCounts, name: str, place: str, ends: Ends, holds: Callable[[OneWayFacts], bool]
) -> OneWay:
    def pooled(number: int) -> OneWayLosses:
        of_paths = ((path, counts(path)[number]) for path in facts.one_way)
        one_way = (losses[0 if holds(path) else 1] for path, losses in of_paths if losses is not None)
        return reduce(OneWayLosses.plus, one_way, OneWayLosses(0, 0, 0, 0))

    return OneWay(name, place, ends, pooled(0), pooled(1))
