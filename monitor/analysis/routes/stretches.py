"""The stretches of routes that suspected parts cover: between which two hops the fault is.

In: the parts, and the routes of bad paths across them. Out: the fewest stretches that cover all parts, each between two
hops that replied, or the ends of the path. A link next to silent hops covers all of them.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass
from itertools import pairwise

from monitor.analysis.routes.crossings import SILENT, Level, Nodes, Part, sections


@dataclass(frozen=True, slots=True)
class Stretch:
    """A part of a route from a hop, or the end of the path, to another: of the path with this index, its `nodes`, None
    where silent."""

    path: int
    nodes: Nodes

    @property
    def ends(self) -> tuple[str, str]:
        near, far = self.nodes[0], self.nodes[-1]
        assert near is not None
        assert far is not None
        return near, far


def find_stretches(
    parts: Collection[Part], routes: Iterable[tuple[int, Nodes]], as_of: Callable[[str], int | None]
) -> list[Stretch]:
    """The fewest stretches that cover these hops, links and borders; those of the most parts first."""
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
    """The stretches of a route that parts cover, each as long as possible."""
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
    """Fewest silent hops first."""
    return stretch.nodes.count(None), len(stretch.nodes)
