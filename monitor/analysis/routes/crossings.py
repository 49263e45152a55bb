"""The parts that each path crosses: its hops, links, AS and borders of AS, with silent hops filled from other paths.

In: the routes of each path. Out: for each part the probability that a path crosses it. Where a silent hop hides whether
a path crosses a part, another path with the same hops beside it tells, with less certainty.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import groupby, pairwise
from operator import itemgetter

Hops = Sequence[str | None]
Nodes = tuple[str | None, ...]

CROSSED_BEHIND_SILENCE = 0.8
"""Probability that a path crosses a part which other paths cross between the hops beside its silent hops."""

FILLING_ROUNDS = 3

SILENT = "*"
"""In place of the other end of a link: the silent hops next to a node, wherever the paths go on."""


class Level(StrEnum):
    """Kinds of parts."""

    HOP = "hop"
    LINK = "link"
    AS = "as"
    BORDER = "border"


@dataclass(frozen=True, slots=True, order=True)
class Part:
    """A hop (an address), a link (two addresses with none or silent hops between them), an AS or a border of two AS.

    The ends of a link are in the order in which packets cross it, those of a border in order of number.
    """

    level: Level
    ends: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class MeshPath:
    """A path with its state, None where not known. `reverse` is the route back, empty if the loss is known to be on the
    way there.

    Routes are the hops between both ends, None where silent.
    """

    is_bad: bool | None
    source: str
    destination: str
    forward: Hops
    reverse: Hops = ()


Crossings = dict[Part, dict[int, float]]
"""The probability that a path crosses a part, by index of the path; without an entry it does not."""


@dataclass(frozen=True, slots=True)
class PartCrossings:
    """`routes` are those of both directions, filled, with the index of their path. `of_part` has the paths across each
    part, `nodes` the hops in each AS and at each border. `gaps` are the links with silent hops between their ends, each
    with itself, and for a link to silent hops all links of which it may be a part."""

    routes: tuple[tuple[int, Nodes], ...]
    of_part: Crossings
    gaps: dict[Part, frozenset[Part]]
    nodes: dict[Part, frozenset[str]]

    def certain(self, part: Part) -> frozenset[int]:
        """The indexes of the paths that cross a part for certain."""
        of_paths = self.of_part.get(part, {})
        return frozenset(place for place, probability in of_paths.items() if probability == 1.0)


def find_crossings(
    paths: Sequence[MeshPath], as_of: Callable[[str], int | None] = lambda address: None
) -> PartCrossings:
    """The paths across each part. `as_of` gives the AS of an address, None where unknown."""
    routes = [
        (place, _nodes(path, is_reverse=is_reverse))
        for place, path in enumerate(paths)
        for is_reverse in (False, True)
        if not is_reverse or path.reverse
    ]
    filled, guesses = fill_silent([nodes for _, nodes in routes])
    crossings: Crossings = defaultdict(dict)
    gaps: dict[Part, set[Part]] = defaultdict(set)
    nodes_of: dict[Part, set[str]] = defaultdict(set)
    for (place, _), nodes in zip(routes, filled, strict=True):
        for part in _parts_of(nodes):
            crossings[part][place] = 1.0
        for part, near, far in sections(nodes, as_of):
            # A silent hop between two AS belongs to either; several may be a third.
            is_certain = part.level is Level.AS or far - near <= 2
            probability = 1.0 if is_certain else CROSSED_BEHIND_SILENCE
            crossings[part][place] = max(crossings[part].get(place, 0.0), probability)
            nodes_of[part] |= {node for node in nodes[near : far + 1] if node is not None}
        for near, far, x, y in _gaps(nodes):
            of_gap = Part(Level.LINK, (x, y))
            gaps[of_gap].add(of_gap)
            for beside in (Part(Level.LINK, (x, SILENT)), Part(Level.LINK, (SILENT, y))):
                gaps[beside].add(of_gap)
                crossings[beside][place] = 1.0
            inner = guesses.get((x, y, far - near), ())
            counts = Counter(part for guess in inner for part in _parts_of(guess))
            for part, count in counts.items():
                probability = 1.0 if count == len(inner) else CROSSED_BEHIND_SILENCE * count / len(inner)
                crossings[part][place] = max(crossings[part].get(place, 0.0), probability)
    return PartCrossings(
        tuple((place, nodes) for (place, _), nodes in zip(routes, filled, strict=True)),
        dict(crossings),
        {part: frozenset(links) for part, links in gaps.items()},
        {part: frozenset(ends) for part, ends in nodes_of.items()},
    )


def sections(nodes: Nodes, as_of: Callable[[str], int | None]) -> Iterator[tuple[Part, int, int]]:
    """The AS and borders that a route crosses, each with the places of the first and last hop there."""
    numbers = [
        (place, number)
        for place, node in enumerate(nodes)
        if node is not None
        for number in [as_of(node)]
        if number is not None
    ]
    for number, group in groupby(numbers, key=itemgetter(1)):
        places = [place for place, _ in group]
        yield Part(Level.AS, (str(number),)), places[0], places[-1]
    for (near, before), (far, after) in pairwise(numbers):
        if before != after:
            yield Part(Level.BORDER, tuple(str(number) for number in sorted((before, after)))), near, far


def _parts_of(nodes: Nodes) -> list[Part]:
    replied = [node for node in nodes if node is not None]
    links = [Part(Level.LINK, link) for link in pairwise(replied)]
    return [*links, *(Part(Level.HOP, (hop,)) for hop in replied[1:-1])]


Gap = tuple[str, str, int]
"""The nodes on both sides of silent hops and their distance."""


def fill_silent(routes: Sequence[Nodes]) -> tuple[list[Nodes], dict[Gap, list[Nodes]]]:
    """Routes with their silent hops filled from others that have the same hops on both sides, at the same distance.

    Where those differ the hops stay silent; then the second result has the possible fillings.
    """
    filled = list(routes)
    guesses: dict[Gap, list[Nodes]] = {}
    for _ in range(FILLING_ROUNDS):
        guesses = _fillings(filled)
        for place, nodes in enumerate(filled):
            copy = list(nodes)
            for near, far, x, y in _gaps(nodes):
                inner = guesses.get((x, y, far - near), [])
                if len(inner) == 1:
                    copy[near : far + 1] = inner[0]
            filled[place] = tuple(copy)
    return filled, guesses


def _fillings(routes: Sequence[Nodes]) -> dict[Gap, list[Nodes]]:
    """For each gap the different hops seen in its place, those that agree merged."""
    gaps: dict[str, set[tuple[str, int]]] = defaultdict(set)
    for nodes in routes:
        for near, far, x, y in _gaps(nodes):
            gaps[x].add((y, far - near))
    fillings: dict[Gap, list[Nodes]] = defaultdict(list)
    for nodes in routes:
        for near, node in enumerate(nodes):
            if node is None:
                continue
            for y, distance in gaps.get(node, ()):
                inner = nodes[near : near + distance + 1]
                if len(inner) <= distance or inner[-1] != y or not any(inner[1:-1]):
                    continue
                others = fillings[node, y, distance]
                for place, other in enumerate(others):
                    if all(a is None or b is None or a == b for a, b in zip(inner, other, strict=True)):
                        others[place] = tuple(a or b for a, b in zip(inner, other, strict=True))
                        break
                else:
                    others.append(inner)
    return fillings


def _nodes(path: MeshPath, *, is_reverse: bool) -> Nodes:
    if is_reverse:
        return (path.destination, *path.reverse, path.source)
    return (path.source, *path.forward, path.destination)


def _gaps(nodes: Sequence[str | None]) -> list[tuple[int, int, str, str]]:
    """(Index, index, node, node) of the nodes on both sides of silent hops."""
    gaps = []
    replied = [(place, node) for place, node in enumerate(nodes) if node is not None]
    for (near, x), (far, y) in pairwise(replied):
        if far - near > 1:
            gaps.append((near, far, x, y))
    return gaps
