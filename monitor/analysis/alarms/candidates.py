"""Candidate common causes of bad paths, with the paths that each would make bad and their prices. `grouping` chooses
among them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum

# Price of a normal path that a cause would make bad.
EXCEPTION_PRICE = 0.6


class CauseKind(StrEnum):
    PATH = "path"
    PAIR = "pair"
    OUTBOUND = "outbound"
    INBOUND = "inbound"
    LINK = "link"
    PLACE = "place"
    HOST = "host"
    SITE = "site"
    REGIONS = "regions"
    FAMILY = "family"
    ALL = "all"


# By example decisions (docs/method/alerts.md). A place costs less than a link: its probability already accounts for
# others.
PRICES = {
    CauseKind.PATH: 1.0,
    CauseKind.PAIR: 1.2,
    CauseKind.OUTBOUND: 1.5,
    CauseKind.INBOUND: 1.5,
    CauseKind.LINK: 1.55,
    CauseKind.PLACE: 1.1,
    CauseKind.HOST: 1.6,
    CauseKind.SITE: 1.7,
    CauseKind.REGIONS: 1.8,
    CauseKind.FAMILY: 1.9,
    CauseKind.ALL: 2.0,
}


@dataclass(frozen=True, slots=True)
class PathLocation:
    """Hosts, sites and regions of a path's ends ("" if unknown)."""

    path_id: int
    source: str
    destination: str
    source_site: str
    destination_site: str
    family: int
    source_region: str = ""
    destination_region: str = ""


@dataclass(frozen=True, slots=True)
class Candidate:
    """A possible cause and the paths it would make bad."""

    kind: CauseKind
    name: str
    path_ids: frozenset[int]
    # evidence by path without an alarm; missing ones count EXCEPTION_PRICE against
    support: Mapping[int, float] = field(default_factory=dict)

    def exception(self, path_id: int) -> float:
        return max(-self.support.get(path_id, -EXCEPTION_PRICE), 0.0)

    def gain(self, path_id: int) -> float:
        """Evidence for the cause by a path without an alarm, at least 0."""
        return max(self.support.get(path_id, 0.0), 0.0)


def candidates(
    lines: Iterable[PathLocation],
    links: Mapping[str, Collection[int]],
    places: Mapping[str, Collection[int]] | None = None,
) -> list[Candidate]:
    """Candidates shared by several paths: `links` by the mesh's configuration, `places` by the routes of the paths."""
    members: dict[tuple[CauseKind, str], set[int]] = defaultdict(set)
    hosts: dict[str, set[str]] = defaultdict(set)
    for line in lines:
        for key in (
            (CauseKind.PAIR, " ↔ ".join(sorted((line.source, line.destination)))),
            (CauseKind.OUTBOUND, line.source_site),
            (CauseKind.INBOUND, line.destination_site),
            (CauseKind.HOST, line.source),
            (CauseKind.HOST, line.destination),
            (CauseKind.SITE, line.source_site),
            (CauseKind.SITE, line.destination_site),
            (CauseKind.FAMILY, f"IPv{line.family}"),
            (CauseKind.ALL, ""),
        ):
            members[key].add(line.path_id)
        if line.source_region and line.destination_region and line.source_region != line.destination_region:
            between = " ↔ ".join(sorted((line.source_region, line.destination_region)))
            members[CauseKind.REGIONS, between].add(line.path_id)
        hosts[line.source_site].add(line.source)
        hosts[line.destination_site].add(line.destination)
    alone = {host for of_site in hosts.values() if len(of_site) == 1 for host in of_site}
    if sum(kind is CauseKind.FAMILY for kind, _ in members) == 1:
        alone |= {"IPv4", "IPv6"}
    others = [path_ids for (kind, _), path_ids in members.items() if kind not in (CauseKind.PAIR, CauseKind.REGIONS)]
    for key in [key for key, path_ids in members.items() if key[0] is CauseKind.REGIONS and path_ids in others]:
        del members[key]  # a region of a single site, which no others than those of the other region measure
    for kind, parts in ((CauseKind.LINK, links), (CauseKind.PLACE, places or {})):
        for name, path_ids in parts.items():
            if set(path_ids) not in others:  # the only link of a site says no more than the site
                members[kind, name] = set(path_ids)
    return [
        Candidate(kind, name, frozenset(path_ids))
        for (kind, name), path_ids in sorted(members.items())
        if not (kind in (CauseKind.HOST, CauseKind.FAMILY) and name in alone)
    ]
