"""The common part of bad paths: hops, links, AS and AS borders that all bad paths share and good ones do not.

In: the routes of each path and whether it is bad. Out: for each level the suspects with their posterior probabilities.
Parts that the same paths cross cannot be told apart: they are one suspect with several names.

Model: a faulty part makes the paths across it bad with a common probability, and other paths are bad by themselves with
another; both are unknown and averaged over. Explanations are no common part, a single part, or two. A path whose
direction of loss is unknown crosses the parts of its route there and of the route back. Where a silent hop hides
whether a path crosses a part, another path with the same hops beside it tells, with less certainty. After Arzani et al.
("007", NSDI 2018) and Dhamdhere et al. ("NetDiagnoser", CoNEXT 2007).
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Hops = Sequence[str | None]
Nodes = tuple[str | None, ...]

CERTAIN = 0.9
"""Least probability of a named part."""

LEAST_BAD = 2

CROSSED_BEHIND_SILENCE = 0.8
"""Probability that a path crosses a part which other paths cross between the hops beside its silent hops."""

HIT_RATIOS, HIT_WEIGHTS = np.array([0.5, 0.75, 0.9, 0.98]), np.array([0.2, 0.25, 0.3, 0.25])
"""Of the paths across a faulty part, the share that looks bad."""
OWN_RATIOS, OWN_WEIGHTS = np.array([0.005, 0.02, 0.06, 0.15]), np.array([0.3, 0.35, 0.25, 0.1])
"""Of other paths, the share that looks bad."""

NO_PART = 0.3
"""Prior probability that bad paths have no part in common."""
TWO_PARTS = 0.05
"""Prior probability of two faulty parts at once."""
NOT_TOLD_APART = 10.0
"""A part next to the likeliest is named with it if it is less than this many times less likely."""
FILLING_ROUNDS = 3
HOP_SHARE = 0.15
"""Prior probability that a faulty part is a router and not a link."""
MOST_IN_PAIRS = 12
"""Parts of which pairs are tried with every other part."""


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
    """A path with its state. `reverse` is the route back, empty if the loss is known to be on the way there.

    Routes are the hops between both ends, None where silent.
    """

    is_bad: bool
    source: str
    destination: str
    forward: Hops
    reverse: Hops = ()


@dataclass(frozen=True, slots=True)
class Suspect:
    """Parts that the same paths cross, with the probability that the fault is in them; `bad` of `crossing` paths are
    bad."""

    parts: tuple[Part, ...]
    probability: float
    bad: int
    crossing: int


@dataclass(frozen=True, slots=True)
class Suspects:
    """Suspects in order of probability: `parts` of hops and links, and `places`, the AS and borders they lie in."""

    parts: tuple[Suspect, ...]
    places: tuple[Suspect, ...]

    def certain(self) -> Suspect | None:
        """The finest suspect that is certain; None if the paths cannot tell."""
        for ranking in (self.parts, self.places):
            if ranking and ranking[0].probability >= CERTAIN:
                return ranking[0]
        return None


def find_suspects(paths: Sequence[MeshPath], as_of: Callable[[str], int | None] = lambda address: None) -> Suspects:
    """Suspects of the bad paths. `as_of` gives the AS of an address, None where unknown."""
    bad = np.array([path.is_bad for path in paths], dtype=bool)
    if bad.sum() < LEAST_BAD:
        return Suspects((), ())
    crossings, gaps = _crossings(paths)
    parts = sorted(crossings)
    columns = np.zeros((len(parts), len(paths)))
    for row, part in enumerate(parts):
        for place, probability in crossings[part].items():
            columns[row, place] = probability
    columns, groups = _distinct(columns, parts)
    entries = _named_together(groups, _posterior(columns, bad, _prior(groups)), columns)
    return Suspects(_suspects(entries, bad), _suspects(_places(entries, gaps, as_of), bad))


def crossing_paths(paths: Sequence[MeshPath]) -> dict[Part, frozenset[int]]:
    """The indexes of the paths that cross each hop and link for certain."""
    return {
        part: frozenset(place for place, probability in of_paths.items() if probability == 1.0)
        for part, of_paths in _crossings(paths)[0].items()
    }


def _crossings(paths: Sequence[MeshPath]) -> tuple[dict[Part, dict[int, float]], set[Part]]:
    """The probability that a path crosses a part, by index of the path; without an entry it does not. And the links
    with silent hops between their ends."""
    routes = [
        (place, _nodes(path, is_reverse=is_reverse))
        for place, path in enumerate(paths)
        for is_reverse in (False, True)
        if not is_reverse or path.reverse
    ]
    filled, guesses = fill_silent([nodes for _, nodes in routes])
    crossings: dict[Part, dict[int, float]] = defaultdict(dict)
    gaps: set[Part] = set()
    for (place, _), nodes in zip(routes, filled, strict=True):
        for part in _parts_of(nodes):
            crossings[part][place] = 1.0
        for near, far, x, y in _gaps(nodes):
            gaps.add(Part(Level.LINK, (x, y)))
            for ends in ((x, SILENT), (SILENT, y)):
                crossings[Part(Level.LINK, ends)][place] = 1.0
            inner = guesses.get((x, y, far - near), ())
            counts = Counter(part for guess in inner for part in _parts_of(guess))
            for part, count in counts.items():
                probability = 1.0 if count == len(inner) else CROSSED_BEHIND_SILENCE * count / len(inner)
                crossings[part][place] = max(crossings[part].get(place, 0.0), probability)
    return crossings, gaps


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


def _distinct(columns: Floats, parts: Sequence[Part]) -> tuple[Floats, list[list[Part]]]:
    """The different columns, with the parts of each."""
    groups: dict[bytes, list[int]] = defaultdict(list)
    for row in range(len(parts)):
        groups[columns[row].tobytes()].append(row)
    rows = list(groups.values())
    return columns[[of_group[0] for of_group in rows]], [[parts[row] for row in of_group] for of_group in rows]


def _prior(groups: Sequence[Sequence[Part]]) -> Floats:
    """Of each column: the sum over its parts."""
    hops = sum(part.level is Level.HOP for group in groups for part in group)
    links = sum(len(group) for group in groups) - hops
    of_hop = HOP_SHARE / max(hops, 1)
    of_link = (1.0 - HOP_SHARE) / max(links, 1)
    return np.array([sum(of_hop if part.level is Level.HOP else of_link for part in group) for group in groups])


def _posterior(columns: Floats, bad: NDArray[np.bool_], prior: Floats) -> Floats:
    """The probability of each column to be faulty, alone or as one of two."""
    count = len(columns)
    singles = np.full((len(HIT_RATIOS), len(OWN_RATIOS), count), -np.inf)
    none = np.empty(len(OWN_RATIOS))
    for j, own in enumerate(OWN_RATIOS):
        none[j] = np.where(bad, np.log(own), np.log1p(-own)).sum() + np.log(OWN_WEIGHTS[j])
        for i, hit in enumerate(HIT_RATIOS):
            gain = _log_gain(columns * hit, bad, own).sum(axis=1)
            singles[i, j] = none[j] + np.log(HIT_WEIGHTS[i]) + gain
    log_none = np.logaddexp.reduce(none) + np.log(NO_PART)
    log_single = np.logaddexp.reduce(singles.reshape(-1, count), axis=0) + np.log((1 - NO_PART - TWO_PARTS) * prior)
    best = np.argsort(log_single)[::-1][:MOST_IN_PAIRS]
    pairs = np.full((len(best), count), -np.inf)
    for row, first in enumerate(best):
        i, j = divmod(int(singles[:, :, first].argmax()), len(OWN_RATIOS))
        hit, own = HIT_RATIOS[i], OWN_RATIOS[j]
        reached = 1.0 - (1.0 - columns[first] * hit) * (1.0 - columns * hit)
        pairs[row] = none[j] + np.log(HIT_WEIGHTS[i]) + _log_gain(reached, bad, own).sum(axis=1)
        # A pair of two of the best is met twice.
        pairs[row, best[: row + 1]] = -np.inf
    pairs += np.log(TWO_PARTS * 2.0) + np.log(prior[best])[:, np.newaxis] + np.log(prior)
    highest = max(log_none, log_single.max(), pairs.max())
    weights, of_pairs = np.exp(log_single - highest), np.exp(pairs - highest)
    total = np.exp(log_none - highest) + weights.sum() + of_pairs.sum()
    weights += of_pairs.sum(axis=0)
    np.add.at(weights, best, of_pairs.sum(axis=1))
    return np.asarray(weights / total)


def _log_gain(reached: Floats, bad: NDArray[np.bool_], own: float) -> Floats:
    """The log likelihood ratio of each path, if the fault makes it bad with the probability `reached`, to none."""
    ratio = 1.0 - (1.0 - own) * (1.0 - reached)
    return np.where(bad, np.log(ratio / own), np.log((1.0 - ratio) / (1.0 - own)))


_Entry = tuple[tuple[Part, ...], float, Floats]
"""Parts, their probability and the probability that each path crosses them."""


def _named_together(groups: Sequence[Sequence[Part]], posterior: Floats, columns: Floats) -> list[_Entry]:
    """Suspects, likeliest first. Both directions of a link are the same suspect, and so are links and hops next to each
    other of which the paths cannot tell the likeliest."""
    entries: list[_Entry] = []
    links: list[set[frozenset[str]]] = []
    ends: list[set[str]] = []
    for row in np.argsort(-posterior, kind="stable"):
        parts, probability = tuple(groups[row]), float(posterior[row])
        own_links = {frozenset(part.ends) for part in parts if part.level is Level.LINK}
        own_ends = {end for part in parts for end in part.ends} - {SILENT}
        same = next((place for place, others in enumerate(links) if own_links & others), None)
        if same is None and entries and own_ends & ends[0] and probability * NOT_TOLD_APART >= posterior.max():
            same = 0
        if same is None:
            entries.append((parts, probability, columns[row]))
            links.append(own_links)
            ends.append(own_ends)
            continue
        names, sum_before, column = entries[same]
        new = tuple(part for part in parts if frozenset(part.ends) not in links[same] or part.level is Level.HOP)
        entries[same] = ((*names, *new), min(sum_before + probability, 1.0), column)
        links[same] |= own_links
    return sorted(entries, key=lambda entry: -entry[1])


def _suspects(entries: Iterable[_Entry], bad: NDArray[np.bool_]) -> tuple[Suspect, ...]:
    return tuple(
        Suspect(parts, probability, int((column[bad] > 0.0).sum()), int((column > 0.0).sum()))
        for parts, probability, column in entries
    )


def _places(suspects: Sequence[_Entry], gaps: Collection[Part], as_of: Callable[[str], int | None]) -> list[_Entry]:
    """The AS and borders in which the suspects lie.

    The first entry is the smallest set of places that is certain, or the likeliest without any; the others do not
    overlap it.
    """
    sets = [frozenset(place for part in parts for place in _places_of(part, gaps, as_of)) for parts, _, _ in suspects]
    sums: dict[frozenset[Part], float] = {}
    for own in {own for own in sets if own}:
        inside = [entry[1] for other, entry in zip(sets, suspects, strict=True) if other and other <= own]
        sums[own] = sum(inside)
    if not sums:
        return []
    likeliest = sorted(sums, key=lambda own: (-sums[own], len(own), sorted(own)))
    certain = [own for own in likeliest if sums[own] >= CERTAIN]
    chosen = [min(certain, key=len) if certain else likeliest[0]]
    for own in likeliest:
        if not any(own & other for other in chosen):
            chosen.append(own)
    entries = []
    for own in chosen:
        columns = [entry[2] for other, entry in zip(sets, suspects, strict=True) if other and other <= own]
        entries.append((tuple(sorted(own)), min(sums[own], 1.0), np.max(columns, axis=0)))
    return entries


def _places_of(part: Part, gaps: Collection[Part], as_of: Callable[[str], int | None]) -> list[Part]:
    """The AS of a hop or of a link within an AS, or the border that a link crosses; with silent hops between, any."""
    numbers = sorted({number for end in part.ends for number in [as_of(end)] if number is not None})
    places = [Part(Level.AS, (str(number),)) for number in numbers]
    if len(numbers) < 2:
        return places if None not in [as_of(end) for end in part.ends] else []
    border = Part(Level.BORDER, tuple(str(number) for number in numbers))
    return [*places, border] if part in gaps else [border]
