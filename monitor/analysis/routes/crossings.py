"""The probability that each path crosses each hop, link, AS and AS border; silent hops are filled from other paths."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import groupby, pairwise
from operator import itemgetter

Hops = Sequence[str | None]
Nodes = tuple[str | None, ...]

# Probability that a path crosses a part which others cross between the hops beside its silent hops.
CROSSED_BEHIND_SILENCE = 0.8

FILLING_ROUNDS = 3

# The other end of a link for the silent hops next to a node.
SILENT = "*"


class Level(StrEnum):
    HOP = "hop"
    LINK = "link"
    AS = "as"
    BORDER = "border"


@dataclass(frozen=True, slots=True, order=True)
class Part:
    """A hop (an address), a link (two addresses, possibly with silent hops between), an AS or a border of two AS."""

    level: Level
    ends: tuple[str, ...]  # of a link in packet order, of a border in numeric order


@dataclass(frozen=True, slots=True)
class MeshPath:
    """A path with its state and routes: hops between both ends, None where silent."""

    is_bad: bool | None  # None where not known
    source: str
    destination: str
    forward: Hops
    reverse: Hops = ()  # empty if the loss is known to be in the forward direction


# Probability that a path crosses a part, by path index; without an entry it does not.
Crossings = dict[Part, dict[int, float]]


@dataclass(frozen=True, slots=True)
class PartCrossings:
    """The parts of the routes and the paths that cross them."""

    routes: tuple[tuple[int, Nodes], ...]  # of both directions, filled, with their path's index
    of_part: Crossings
    gaps: dict[Part, frozenset[Part]]  # links with silent hops, and the links they may contain
    nodes: dict[Part, frozenset[str]]  # hops in each AS and at each border

    def certain(self, part: Part) -> frozenset[int]:
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
    """The AS and borders that a route crosses, with the places of the first and last hop there."""
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


# The nodes on both sides of silent hops and their distance.
Gap = tuple[str, str, int]


def fill_silent(routes: Sequence[Nodes]) -> tuple[list[Nodes], dict[Gap, list[Nodes]]]:
    """Fill silent hops from routes with the same hops around them at the same distance; ambiguous ones stay silent,
    with their fillings in the second result."""
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
    """Distinct hops seen in place of each gap, compatible ones merged."""
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
    """(Index, index, node, node) on both sides of silent hops."""
    gaps = []
    replied = [(place, node) for place, node in enumerate(nodes) if node is not None]
    for (near, x), (far, y) in pairwise(replied):
        if far - near > 1:
            gaps.append((near, far, x, y))
    return gaps
