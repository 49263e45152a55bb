"""Find the common cause of simultaneously bad paths: a site, a direction of a site, a host, a link, two regions.

In: the measured paths, the bad and the unknown among them, and, where routes are available, the paths crossing each
link. Out: the fewest causes that account for all bad paths with the fewest exceptions, each with its supporting
figures. `monitor.alerts` decides when a path is bad and acts on causes.

Every cause has a price, higher for more general causes, and so has every normal path that a cause says should be bad.
The cheapest set is found exactly by integer programming; on timeout, as when half of all paths are bad at random, the
best solution so far is used. A cause must be cheaper than leaving its bad paths without a cause.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

import numpy as np
import scipy  # loads scipy.optimize at its first use: a second, which most processes do not need

EXCEPTION_PRICE = 0.6
LONGEST_SEARCH_S = 2.0


class CauseKind(StrEnum):
    """Kinds of causes."""

    PATH = "path"
    PAIR = "pair"
    OUTBOUND = "outbound"
    INBOUND = "inbound"
    LINK = "link"
    HOST = "host"
    SITE = "site"
    REGIONS = "regions"
    FAMILY = "family"
    ALL = "all"


PRICES = {
    CauseKind.PATH: 1.0,
    CauseKind.PAIR: 1.2,
    CauseKind.OUTBOUND: 1.5,
    CauseKind.INBOUND: 1.5,
    CauseKind.LINK: 1.55,
    CauseKind.HOST: 1.6,
    CauseKind.SITE: 1.7,
    CauseKind.REGIONS: 1.8,
    CauseKind.FAMILY: 1.9,
    CauseKind.ALL: 2.0,
}
"""Chosen by deciding which cause to report for given numbers of bad paths; docs/alerts.md has the table."""


@dataclass(frozen=True, slots=True)
class PathLocation:
    """Location of a path: the hosts, sites and regions of its ends ("" if unknown), and its address family."""

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


@dataclass(frozen=True, slots=True)
class Cause:
    """A cause. `path_ids` are the bad paths it accounts for; of the `measured` paths it would make bad, `bad` are.

    Of the `elsewhere_known` other paths `elsewhere_bad` are bad. For a direction of a site, `reverse_bad` of
    `reverse_known` paths in the opposite direction are bad; otherwise both are 0.
    """

    kind: CauseKind
    name: str
    path_ids: frozenset[int]
    bad: int
    measured: int
    reverse_bad: int
    reverse_known: int
    elsewhere_bad: int
    elsewhere_known: int


def explain(
    lines: Sequence[PathLocation],
    bad: Collection[int],
    unknown: Collection[int] = frozenset(),
    links: Mapping[str, Collection[int]] | None = None,
) -> list[Cause]:
    """Causes of the `bad` paths, largest first. `unknown` paths count neither for nor against a cause.

    `links` has the paths that cross each link, by the name of the link.
    """
    bad_ids = frozenset(bad) - frozenset(unknown)
    measured = frozenset(line.path_id for line in lines) - frozenset(unknown)
    if not bad_ids:
        return []
    general = [candidate for candidate in candidates(lines, links or {}) if is_worthwhile(candidate, bad_ids, measured)]
    chosen = [general[place] for place in cheapest(general, bad_ids, measured)]
    return _with_figures(lines, chosen, bad_ids, measured)


def is_worthwhile(candidate: Candidate, bad: frozenset[int], measured: frozenset[int]) -> bool:
    """Whether the candidate alone is cheaper than leaving its bad paths without a cause."""
    of_bad = candidate.path_ids & bad
    return price([candidate], of_bad, measured) < price([], of_bad, measured)


def candidates(lines: Iterable[PathLocation], links: Mapping[str, Collection[int]]) -> list[Candidate]:
    """Candidates shared by several paths."""
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
    for name, path_ids in links.items():
        if set(path_ids) not in others:  # the only link of a site says no more than the site
            members[CauseKind.LINK, name] = set(path_ids)
    return [
        Candidate(kind, name, frozenset(path_ids))
        for (kind, name), path_ids in sorted(members.items())
        if not (kind in (CauseKind.HOST, CauseKind.FAMILY) and name in alone)
    ]


def cheapest(general: Sequence[Candidate], bad: frozenset[int], measured: frozenset[int]) -> list[int]:
    """Candidates of the cheapest explanation, by index.

    Unknowns of the programme: a candidate is chosen; a bad path is left without cause; a normal path is an exception.
    The last two need no integer constraint: they are integral whenever the choice is.
    """
    if not general:
        return []
    bad_row = {path_id: row for row, path_id in enumerate(sorted(bad))}
    well = sorted(frozenset().union(*(candidate.path_ids for candidate in general)) & measured - bad)
    well_column = {path_id: len(general) + len(bad_row) + place for place, path_id in enumerate(well)}
    entries: list[tuple[int, int, float]] = [(row, len(general) + row, 1.0) for row in bad_row.values()]
    row = len(bad_row)
    for place, candidate in enumerate(general):
        entries += [(bad_row[path_id], place, 1.0) for path_id in candidate.path_ids if path_id in bad_row]
        for path_id in candidate.path_ids & well_column.keys():
            entries += [(row, well_column[path_id], 1.0), (row, place, -1.0)]
            row += 1
    rows, columns, values = zip(*entries, strict=True)
    width = len(general) + len(bad_row) + len(well)
    prices = np.full(width, EXCEPTION_PRICE)
    prices[: len(general)] = [PRICES[candidate.kind] for candidate in general]
    prices[len(general) : len(general) + len(bad_row)] = PRICES[CauseKind.PATH]
    least = np.zeros(row)
    least[: len(bad_row)] = 1.0
    table = scipy.sparse.coo_array((values, (rows, columns)), shape=(row, width)).tocsr()
    solution = scipy.optimize.milp(
        prices,
        options={"time_limit": LONGEST_SEARCH_S},
        integrality=np.arange(width) < len(general),
        bounds=scipy.optimize.Bounds(0, 1),
        constraints=scipy.optimize.LinearConstraint(table, lb=least),
    )
    greedy = greedy_choice(general, bad, measured)
    if solution.x is None:
        return greedy
    exact = np.flatnonzero(solution.x[: len(general)] > 0.5).tolist()
    return min((exact, greedy), key=lambda places: price([general[place] for place in places], bad, measured))


def greedy_choice(general: Sequence[Candidate], bad: frozenset[int], measured: frozenset[int]) -> list[int]:
    """Greedy explanation: repeatedly add the candidate that saves most. Fast, but not always the cheapest."""
    chosen: list[int] = []
    uncovered, excused = set(bad), set[int]()
    while True:
        savings = [
            PRICES[CauseKind.PATH] * len(candidate.path_ids & uncovered)
            - PRICES[candidate.kind]
            - EXCEPTION_PRICE * len((candidate.path_ids & measured) - bad - excused)
            for candidate in general
        ]
        best = int(np.argmax(savings)) if savings else 0
        if not savings or savings[best] <= 0:
            return chosen
        chosen.append(best)
        uncovered -= general[best].path_ids
        excused |= (general[best].path_ids & measured) - bad


def price(chosen: Sequence[Candidate], bad: frozenset[int], measured: frozenset[int]) -> float:
    """Cost of an explanation: its causes, the bad paths without cause, and its exceptions."""
    said = frozenset[int]().union(*(candidate.path_ids for candidate in chosen))
    left, exceptions = len(bad - said), len((said & measured) - bad)
    return (
        sum(PRICES[candidate.kind] for candidate in chosen)
        + PRICES[CauseKind.PATH] * left
        + EXCEPTION_PRICE * exceptions
    )


def _with_figures(
    lines: Sequence[PathLocation], chosen: list[Candidate], bad: frozenset[int], measured: frozenset[int]
) -> list[Cause]:
    """Chosen causes with their figures; each bad path is assigned to the largest, the rest to themselves."""
    facts = _Facts(lines, bad, measured)
    left = set(bad)
    causes = []
    for candidate in sorted(
        chosen, key=lambda candidate: (-len(candidate.path_ids & bad), candidate.kind, candidate.name)
    ):
        explained = frozenset(candidate.path_ids & left)
        left -= explained
        if explained:
            causes.append(facts.cause(candidate, explained))
    for path_id in sorted(left):
        line = facts.lines[path_id]
        alone = Candidate(CauseKind.PATH, f"{line.source} → {line.destination}", frozenset({path_id}))
        causes.append(facts.cause(alone, alone.path_ids))
    return causes


class _Facts:
    """Bad and normal paths, for the figures of each cause."""

    def __init__(self, lines: Sequence[PathLocation], bad: frozenset[int], measured: frozenset[int]) -> None:
        self.lines = {line.path_id: line for line in lines}
        self._bad, self._known = bad, measured
        self._opposite: dict[tuple[str, ...], set[int]] = defaultdict(set)
        for line in lines:
            self._opposite[CauseKind.OUTBOUND, line.destination_site].add(line.path_id)
            self._opposite[CauseKind.INBOUND, line.source_site].add(line.path_id)
            self._opposite[CauseKind.PATH, f"{line.destination} → {line.source}"].add(line.path_id)

    def cause(self, candidate: Candidate, explained: frozenset[int]) -> Cause:
        said = candidate.path_ids & self._known
        reverse = self._opposite[candidate.kind, candidate.name] & self._known
        bad, reverse_bad = len(said & self._bad), len(reverse & self._bad)
        return Cause(
            kind=candidate.kind,
            name=candidate.name,
            path_ids=explained,
            bad=bad,
            measured=len(said),
            reverse_bad=reverse_bad,
            reverse_known=len(reverse),
            elsewhere_bad=len(self._bad) - bad - reverse_bad,
            elsewhere_known=len(self._known) - len(said) - len(reverse),
        )
