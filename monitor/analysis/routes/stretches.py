"""The fewest stretches of routes, between hops that replied, that cover all suspected parts."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass
from itertools import pairwise

from monitor.analysis.routes.crossings import SILENT, Level, Nodes, Part, sections


@dataclass(frozen=True, slots=True)
class Stretch:
    """A part of a route between two hops or ends."""

    path: int  # index of the path
    nodes: Nodes  # None where silent

    @property
    def ends(self) -> tuple[str, str]:
        near, far = self.nodes[0], self.nodes[-1]
        assert near is not None
        assert far is not None
        return near, far


def find_stretches(
    parts: Collection[Part], routes: Iterable[tuple[int, Nodes]], as_of: Callable[[str], int | None]
) -> list[Stretch]:
    """The fewest stretches that cover these hops, links and borders; most parts first."""
    covered: dict[frozenset[str], tuple[set[Part], Stretch]] = {}
    for path, nodes in routes:
        for stretch, of_stretch in _covered(set(parts), path, nodes, as_of):
            key = frozenset(stretch.ends)
            before, shortest = covered.get(key, (set(), stretch))
            covered[key] = (before | of_stretch, min(shortest, stretch, key=_length))
    left = set().union(*(of_stretch for of_stretch, _ in covered.values()))
    chosen = []
    while left:
        of_stretch, stretch = max(
            covered.values(), key=lambda entry: (len(entry[0] & left), -len(entry[1].nodes), entry[1].ends)
        )
        chosen.append(stretch)
        left -= of_stretch
    return chosen


def _covered(
    parts: set[Part], path: int, nodes: Nodes, as_of: Callable[[str], int | None]
) -> Iterator[tuple[Stretch, set[Part]]]:
    of_link: list[set[Part]] = [set() for _ in nodes[1:]]
    replied = [(place, node) for place, node in enumerate(nodes) if node is not None]
    for (near, x), (far, y) in pairwise(replied):
        links = [(x, y), (y, x)]
        if far - near > 1:
            links += [(x, SILENT), (SILENT, y)]
        here = {part for ends in links for part in [Part(Level.LINK, ends)] if part in parts}
        for place in range(near, far):
            of_link[place] |= here
    for part, near, far in sections(nodes, as_of):
        if part in parts:
            for place in range(near, far):
                of_link[place].add(part)
    start = None
    for place, here in enumerate([*of_link, set[Part]()]):
        if here and start is None:
            start = place
        elif not here and start is not None:
            inside = set().union(*of_link[start:place])
            hops = {Part(Level.HOP, (node,)) for node in nodes[start : place + 1] if node is not None}
            yield Stretch(path, nodes[start : place + 1]), inside | (hops & parts)
            start = None


def _length(stretch: Stretch) -> tuple[int, int]:
    # Fewest silent hops first.
    return stretch.nodes.count(None), len(stretch.nodes)
