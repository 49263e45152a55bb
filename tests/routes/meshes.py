"""Simulated meshes of sites with faulty links, silent hops, asymmetric routes, and noise in which paths look bad."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from monitor.analysis.routes.common_part import CommonPart
from monitor.analysis.routes.crossings import SILENT, Level, MeshPath, Part
from monitor.analysis.routes.stretches import Stretch
from monitor.analysis.routes.suspects import Suspect

SILENT_ROUTERS, SILENT_REPLIES = 0.15, 0.18
"""Routers that never reply, and hops of other routers that are silent in a route: 30% of all hops together."""
ASYMMETRIC = 0.4
SEEN, NOISE = 0.9, 0.02
"""Of the affected paths, the share that looks bad, and of the others."""
LEAST_AFFECTED = 3

Link = tuple[str, str]


@dataclass(frozen=True, slots=True)
class FaultyMesh:
    """The paths as measured, and the truth: faulty links or the faulty AS, the links that each silent hop hides, the
    nodes of each path there and back."""

    paths: list[MeshPath]
    faults: tuple[Link, ...]
    numbers: dict[str, int]
    hidden: dict[Link, frozenset[Link]]
    nodes: list[tuple[list[str], list[str]]]
    faulty_as: int | None = None

    def as_of(self, node: str) -> int | None:
        return self.numbers.get(node)

    def links_within(self, stretch: Stretch) -> set[Link]:
        """The links of a stretch, those hidden by silent hops too."""
        near, far = stretch.ends
        for nodes in self.nodes[stretch.path]:
            if near in nodes and far in nodes and nodes.index(near) < nodes.index(far):
                return set(pairwise(nodes[nodes.index(near) : nodes.index(far) + 1]))
        return set()  # a silent hop was filled with another

    def is_named(self, part: CommonPart) -> bool:
        """Whether the fault is where the common part says."""
        if self.faulty_as is not None:
            return part.name.split(" or ")[0] == f"AS {self.faulty_as}"
        if not part.stretches:
            return self.is_right(Suspect(part.places, 1.0, 0, 0))
        links = set().union(*(self.links_within(stretch) for stretch in part.stretches))
        return any(fault in links or fault[::-1] in links for fault in self.faults)

    def is_right(self, suspect: Suspect) -> bool:
        """Whether it has a faulty link, by its ends or by those of silent hops, a router at its end, or its place."""
        return any(self._is_of(part, fault) for part in suspect.parts for fault in self.faults)

    def _is_of(self, part: Part, fault: Link) -> bool:
        if part.level is Level.HOP:
            return part.ends[0] in fault
        if part.level is Level.LINK:
            hidden = [ends for ends, links in self.hidden.items() if {fault, fault[::-1]} & links]
            if SILENT in part.ends:
                return any(set(part.ends) & set(fault) & set(ends) for ends in hidden)
            return part.ends in (fault, fault[::-1]) or {part.ends, part.ends[::-1]} & set(hidden) != set()
        numbers = tuple(str(self.numbers[node]) for node in fault)
        if part.level is Level.BORDER:
            return set(part.ends) == set(numbers)
        return part.level is Level.AS and set(numbers) == set(part.ends)


def faulty_mesh(seed: int, *, sites: int = 10, faults: int = 1, knows_direction: bool = False,
                has_faulty_as: bool = False, bad_pairs: int = 0) -> FaultyMesh:  # fmt: skip
    """A mesh in which each pair of sites is joined by one or two transit AS of a few routers each.

    Faulty are some links, or all of a transit AS, or, with `bad_pairs`, pairs of sites for reasons of their own.
    """
    random = np.random.default_rng(seed)
    transits = max(3, sites // 2)
    numbers = {f"s{site}": 100 + site for site in range(sites)}
    numbers |= {f"a{site}.{router}": 100 + site for site in range(sites) for router in range(2)}
    numbers |= {f"t{transit}.{router}": 10 + transit for transit in range(transits) for router in range(4)}
    homes = {site: random.choice(transits, 2, replace=False) for site in range(sites)}
    choices: dict[tuple[int, int], list[str]] = {}
    for a in range(sites):
        for b in range(sites):
            if a != b:
                mirrored = choices.get((b, a))
                is_symmetric = mirrored is not None and random.random() >= ASYMMETRIC
                choices[a, b] = mirrored[::-1] if is_symmetric and mirrored else _route(a, b, homes, random)
    users = defaultdict(set)
    users_of_as = defaultdict(set)
    for (a, b), nodes in choices.items():
        pairs = {(a, b)} if knows_direction else {(a, b), (b, a)}
        for link in pairwise(nodes):
            users[link] |= pairs
        for node in nodes:
            users_of_as[numbers[node]] |= pairs
    faulty_as, planted, affected = None, tuple[Link, ...](), set[tuple[int, int]]()
    if bad_pairs:
        few = random.choice(sites * (sites - 1) // 2, bad_pairs, replace=False)
        unordered = [pair for pair in choices if pair[0] < pair[1]]
        affected = {pair for place in few for pair in (unordered[place], unordered[place][::-1])}
    elif has_faulty_as:
        faulty_as = int(10 + random.integers(transits))
        affected = users_of_as[faulty_as]
    else:
        possible = sorted(link for link, pairs in users.items() if len(pairs) >= LEAST_AFFECTED)
        planted = tuple(possible[place] for place in random.choice(len(possible), faults, replace=False))
        affected = set().union(*(users[link] for link in planted))
    silent = {node for node in sorted(numbers) if node[0] != "s" and random.random() < SILENT_ROUTERS}
    hidden: dict[Link, set[Link]] = defaultdict(set)
    shown = {pair: _shown(nodes, silent, hidden, random) for pair, nodes in choices.items()}
    paths, both = [], []
    for a, b in choices:
        is_bad = bool(random.random() < (SEEN if (a, b) in affected else NOISE))
        paths.append(MeshPath(is_bad, f"s{a}", f"s{b}", shown[a, b], () if knows_direction else shown[b, a]))
        both.append((choices[a, b], choices[b, a]))
    links_of = {ends: frozenset(links) for ends, links in hidden.items()}
    return FaultyMesh(paths, planted, numbers, links_of, both, faulty_as)


def _route(a: int, b: int, homes: dict[int, np.ndarray], random: np.random.Generator) -> list[str]:
    """From site to site by a transit of each, each entered and left at a router that depends on its neighbours."""
    first, last = (int(homes[site][int(random.random() < 0.3)]) for site in (a, b))
    nodes = [f"s{a}", f"a{a}.0", f"a{a}.1", f"t{first}.{a % 4}"]
    if first != last:
        nodes += [f"t{first}.{last % 4}", f"t{last}.{first % 4}"]
    nodes += [f"t{last}.{b % 4}", f"a{b}.1", f"a{b}.0", f"s{b}"]
    return [node for place, node in enumerate(nodes) if not place or node != nodes[place - 1]]


def _shown(
    nodes: list[str], silent: set[str], hidden: dict[Link, set[Link]], random: np.random.Generator
) -> tuple[str | None, ...]:
    """The hops between both ends, None where silent."""
    hops = [None if node in silent or random.random() < SILENT_REPLIES else node for node in nodes[1:-1]]
    near = 0
    for place, node in enumerate([*hops, nodes[-1]], 1):
        if node is not None:
            if place - near > 1:
                hidden[nodes[near], nodes[place]] |= set(pairwise(nodes[near : place + 1]))
            near = place
    return tuple(hops)
