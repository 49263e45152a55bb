"""What explains best that these paths are bad at the same time: a site, one of its directions, a host, a link.

In: the paths that are measured, which of them are bad, and of which nothing is known; where routes are known, the links
that they cross. Out: the fewest causes that account for all bad paths with the fewest exceptions, each with the figures
that speak for it and against the others. Not here: when a path is bad, and what is done about it (`monitor.alerts`).

Every cause has a price, a general one more than a special one, and so has every path that is well although a cause says
that it should be bad. The cheapest set is found exactly, as an integer programme; where that would take too long, as
when half of all paths are bad at random, the best that was found by then. A cause must pay for itself: it must be
cheaper than to leave its bad paths without one.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

import numpy as np
from scipy.optimize import Bounds, LinearConstraint, milp
from scipy.sparse import coo_array

EXCEPTION_PRICE = 0.6
LONGEST_SEARCH_S = 2.0


class Kind(StrEnum):
    """What can be a cause."""

    PATH = "path"
    PAIR = "pair"
    OUTBOUND = "outbound"
    INBOUND = "inbound"
    LINK = "link"
    HOST = "host"
    SITE = "site"
    FAMILY = "family"
    ALL = "all"


PRICES = {
    Kind.PATH: 1.0,
    Kind.PAIR: 1.2,
    Kind.OUTBOUND: 1.5,
    Kind.INBOUND: 1.5,
    Kind.LINK: 1.55,
    Kind.HOST: 1.6,
    Kind.SITE: 1.7,
    Kind.FAMILY: 1.9,
    Kind.ALL: 2.0,
}
"""Found by asking what two, three, … bad paths of so many should be called; docs/alerts.md has the table."""


@dataclass(frozen=True, slots=True)
class Line:
    """A path as far as its place goes: the hosts and sites of its ends, and its address family."""

    path_id: int
    source: str
    destination: str
    source_site: str
    destination_site: str
    family: int


@dataclass(frozen=True, slots=True)
class Candidate:
    """Something that would make all of these paths bad."""

    kind: Kind
    name: str
    path_ids: frozenset[int]


@dataclass(frozen=True, slots=True)
class Cause:
    """One cause. `path_ids` are the bad paths it accounts for; of `known` paths it would make bad, `bad` are.

    `elsewhere_bad` of `elsewhere_known` paths are bad that it says nothing of. `reverse_bad` of `reverse_known` are
    those of the opposite direction where it is a direction of a site, else both are 0.
    """

    kind: Kind
    name: str
    path_ids: frozenset[int]
    bad: int
    known: int
    reverse_bad: int
    reverse_known: int
    elsewhere_bad: int
    elsewhere_known: int


def explain(
    lines: Sequence[Line],
    bad: Collection[int],
    unknown: Collection[int] = frozenset(),
    links: Mapping[str, Collection[int]] | None = None,
) -> list[Cause]:
    """The causes of the `bad` paths, those that account for most first. Paths `unknown` speak for and against nothing.

    `links` has the paths that cross each link, by the name of the link.
    """
    bad_ids = frozenset(bad) - frozenset(unknown)
    known = frozenset(line.path_id for line in lines) - frozenset(unknown)
    if not bad_ids:
        return []
    general = [one for one in candidates(lines, links or {}) if pays(one, bad_ids, known)]
    chosen = [general[place] for place in cheapest(general, bad_ids, known)]
    return _told(lines, chosen, bad_ids, known)


def pays(one: Candidate, bad: frozenset[int], known: frozenset[int]) -> bool:
    """Whether the candidate by itself is cheaper than to leave its bad paths without a cause."""
    of_bad = one.path_ids & bad
    return price([one], of_bad, known) < price([], of_bad, known)


def candidates(lines: Iterable[Line], links: Mapping[str, Collection[int]]) -> list[Candidate]:
    """Everything that several paths have in common."""
    members: dict[tuple[Kind, str], set[int]] = defaultdict(set)
    hosts: dict[str, set[str]] = defaultdict(set)
    for line in lines:
        for key in (
            (Kind.PAIR, " ↔ ".join(sorted((line.source, line.destination)))),
            (Kind.OUTBOUND, line.source_site),
            (Kind.INBOUND, line.destination_site),
            (Kind.HOST, line.source),
            (Kind.HOST, line.destination),
            (Kind.SITE, line.source_site),
            (Kind.SITE, line.destination_site),
            (Kind.FAMILY, f"IPv{line.family}"),
            (Kind.ALL, ""),
        ):
            members[key].add(line.path_id)
        hosts[line.source_site].add(line.source)
        hosts[line.destination_site].add(line.destination)
    alone = {host for of_site in hosts.values() if len(of_site) == 1 for host in of_site}
    if sum(kind is Kind.FAMILY for kind, _ in members) == 1:
        alone |= {"IPv4", "IPv6"}
    others = [path_ids for (kind, _), path_ids in members.items() if kind is not Kind.PAIR]
    for name, path_ids in links.items():
        if set(path_ids) not in others:  # the only link of a site says no more than the site
            members[Kind.LINK, name] = set(path_ids)
    return [
        Candidate(kind, name, frozenset(path_ids))
        for (kind, name), path_ids in sorted(members.items())
        if not (kind in (Kind.HOST, Kind.FAMILY) and name in alone)
    ]


def cheapest(general: Sequence[Candidate], bad: frozenset[int], known: frozenset[int]) -> list[int]:
    """Which candidates make the cheapest account, by their place.

    Unknowns of the programme: a candidate is chosen; a bad path is left to itself; a path that is well is an exception.
    The last two need not be asked to be whole: they are whenever the choice is.
    """
    if not general:
        return []
    bad_row = {path_id: row for row, path_id in enumerate(sorted(bad))}
    well = sorted(frozenset().union(*(one.path_ids for one in general)) & known - bad)
    well_column = {path_id: len(general) + len(bad_row) + place for place, path_id in enumerate(well)}
    entries: list[tuple[int, int, float]] = [(row, len(general) + row, 1.0) for row in bad_row.values()]
    row = len(bad_row)
    for place, one in enumerate(general):
        entries += [(bad_row[path_id], place, 1.0) for path_id in one.path_ids if path_id in bad_row]
        for path_id in one.path_ids & well_column.keys():
            entries += [(row, well_column[path_id], 1.0), (row, place, -1.0)]
            row += 1
    rows, columns, values = zip(*entries, strict=True)
    width = len(general) + len(bad_row) + len(well)
    prices = np.full(width, EXCEPTION_PRICE)
    prices[: len(general)] = [PRICES[one.kind] for one in general]
    prices[len(general) : len(general) + len(bad_row)] = PRICES[Kind.PATH]
    least = np.zeros(row)
    least[: len(bad_row)] = 1.0
    found = milp(
        prices,
        options={"time_limit": LONGEST_SEARCH_S},
        integrality=np.arange(width) < len(general),
        bounds=Bounds(0, 1),
        constraints=LinearConstraint(coo_array((values, (rows, columns)), shape=(row, width)).tocsr(), lb=least),
    )
    greedy = by_greed(general, bad, known)
    if found.x is None:
        return greedy
    exact = np.flatnonzero(found.x[: len(general)] > 0.5).tolist()
    return min((exact, greedy), key=lambda places: price([general[place] for place in places], bad, known))


def by_greed(general: Sequence[Candidate], bad: frozenset[int], known: frozenset[int]) -> list[int]:
    """A cheap account, by always adding the candidate that saves most. In time, but not always the cheapest."""
    chosen: list[int] = []
    uncovered, excused = set(bad), set[int]()
    while True:
        savings = [
            PRICES[Kind.PATH] * len(one.path_ids & uncovered)
            - PRICES[one.kind]
            - EXCEPTION_PRICE * len((one.path_ids & known) - bad - excused)
            for one in general
        ]
        best = int(np.argmax(savings)) if savings else 0
        if not savings or savings[best] <= 0:
            return chosen
        chosen.append(best)
        uncovered -= general[best].path_ids
        excused |= (general[best].path_ids & known) - bad


def price(chosen: Sequence[Candidate], bad: frozenset[int], known: frozenset[int]) -> float:
    """What an account costs: its causes, the bad paths it leaves to themselves, and its exceptions."""
    said = frozenset[int]().union(*(one.path_ids for one in chosen))
    left, exceptions = len(bad - said), len((said & known) - bad)
    return sum(PRICES[one.kind] for one in chosen) + PRICES[Kind.PATH] * left + EXCEPTION_PRICE * exceptions


def _told(lines: Sequence[Line], chosen: list[Candidate], bad: frozenset[int], known: frozenset[int]) -> list[Cause]:
    """The chosen causes with their figures; each bad path goes to the one that has most, what is left to itself."""
    facts = _Facts(lines, bad, known)
    left = set(bad)
    causes = []
    for one in sorted(chosen, key=lambda one: (-len(one.path_ids & bad), one.kind, one.name)):
        explained = frozenset(one.path_ids & left)
        left -= explained
        if explained:
            causes.append(facts.cause(one, explained))
    for path_id in sorted(left):
        line = facts.lines[path_id]
        alone = Candidate(Kind.PATH, f"{line.source} → {line.destination}", frozenset({path_id}))
        causes.append(facts.cause(alone, alone.path_ids))
    return causes


class _Facts:
    """What is bad and what is well, for the figures of each cause."""

    def __init__(self, lines: Sequence[Line], bad: frozenset[int], known: frozenset[int]) -> None:
        self.lines = {line.path_id: line for line in lines}
        self._bad, self._known = bad, known
        self._opposite: dict[tuple[str, ...], set[int]] = defaultdict(set)
        for line in lines:
            self._opposite[Kind.OUTBOUND, line.destination_site].add(line.path_id)
            self._opposite[Kind.INBOUND, line.source_site].add(line.path_id)
            self._opposite[Kind.PATH, f"{line.destination} → {line.source}"].add(line.path_id)

    def cause(self, one: Candidate, explained: frozenset[int]) -> Cause:
        said = one.path_ids & self._known
        reverse = self._opposite[one.kind, one.name] & self._known
        bad, reverse_bad = len(said & self._bad), len(reverse & self._bad)
        return Cause(
            kind=one.kind,
            name=one.name,
            path_ids=explained,
            bad=bad,
            known=len(said),
            reverse_bad=reverse_bad,
            reverse_known=len(reverse),
            elsewhere_bad=len(self._bad) - bad - reverse_bad,
            elsewhere_known=len(self._known) - len(said) - len(reverse),
        )
