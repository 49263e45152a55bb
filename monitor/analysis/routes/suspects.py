"""Rank hops, links, AS and AS borders that bad paths share and good paths do not, by `posterior`. Indistinguishable
parts are one suspect.

After Arzani et al. ("007", NSDI 2018) and Dhamdhere et al. ("NetDiagnoser", CoNEXT 2007).
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from monitor.analysis.routes.crossings import SILENT, Level, MeshPath, Part, PartCrossings
from monitor.analysis.routes.posterior import path_states, posterior
from monitor.arrays import Floats

# Least probability of a named part.
CERTAIN = 0.8

LEAST_BAD = 2
# Evidence of a normal path across a part, relative to a bad path, as in `grouping`.
EXCEPTION = 0.6

# A part next to the likeliest is named with it if less than this many times less likely.
NOT_TOLD_APART = 10.0
# Prior probability that a faulty part is a link, a router, all links between two AS, or a whole AS.
SHARES = {Level.LINK: 0.65, Level.HOP: 0.1, Level.BORDER: 0.17, Level.AS: 0.08}
# Parts that are weighed: those with the most bad paths and the fewest others.
MOST_PARTS = 500


@dataclass(frozen=True, slots=True)
class Suspect:
    """Parts that the same paths cross."""

    parts: tuple[Part, ...]
    probability: float  # that the fault is in them
    bad: int  # of the crossing paths
    crossing: int
    paths: frozenset[int] = frozenset()  # indexes


@dataclass(frozen=True, slots=True)
class Suspects:
    """Suspects in order of probability."""

    parts: tuple[Suspect, ...]  # hops and links
    places: tuple[Suspect, ...]  # AS and borders they lie in

    def certain(self) -> Suspect | None:
        """The finest suspect that is certain; None if the paths cannot tell."""
        for ranking in (self.parts, self.places):
            if ranking and ranking[0].probability >= CERTAIN:
                return ranking[0]
        return None


def rank_suspects(paths: Sequence[MeshPath], crossings: PartCrossings, as_of: Callable[[str], int | None]) -> Suspects:
    """Rank the parts that bad paths cross. `as_of` gives the AS of an address, None where unknown."""
    bad = frozenset(place for place, path in enumerate(paths) if path.is_bad)
    if len(bad) < LEAST_BAD:
        return Suspects((), ())
    parts = _suspected(paths, crossings, bad)
    known = [place for place in sorted({place for part in parts for place in crossings.of_part[part]})
             if paths[place].is_bad is not None]  # fmt: skip
    position = {place: number for number, place in enumerate(known)}
    columns = np.zeros((len(parts), len(known)))
    for row, part in enumerate(parts):
        for place, probability in crossings.of_part[part].items():
            if place in position:
                columns[row, position[place]] = probability
    rows, groups = _distinct(columns, parts)
    prior = _prior(groups, Counter(part.level for part in crossings.of_part))
    probabilities = posterior(columns[rows], path_states(paths, known), prior)
    across = [frozenset(crossings.of_part[parts[row]]) for row in rows]
    entries = _named_together(groups, probabilities, across, crossings.nodes)
    return Suspects(_suspects(entries, bad), _suspects(_places(entries, crossings.gaps, as_of), bad))


def _suspected(paths: Sequence[MeshPath], crossings: PartCrossings, bad: frozenset[int]) -> list[Part]:
    # At most MOST_PARTS: most bad paths, fewest others.
    counts = {}
    for part, of_paths in crossings.of_part.items():
        of_bad = len(bad & of_paths.keys())
        if of_bad:
            counts[part] = of_bad - EXCEPTION * sum(paths[place].is_bad is False for place in of_paths)
    best = sorted(counts, key=lambda part: -counts[part])[:MOST_PARTS]
    return sorted(best)


def _distinct(columns: Floats, parts: Sequence[Part]) -> tuple[list[int], list[list[Part]]]:
    groups: dict[bytes, list[int]] = defaultdict(list)
    for row in range(len(parts)):
        groups[columns[row].tobytes()].append(row)
    of_groups = groups.values()
    return [rows[0] for rows in of_groups], [[parts[row] for row in rows] for rows in of_groups]


def _prior(groups: Sequence[Sequence[Part]], counts: Mapping[Level, int]) -> Floats:
    return np.array([sum(SHARES[part.level] / counts[part.level] for part in group) for group in groups])


# Parts, their probability and the paths that may cross them.
_Entry = tuple[tuple[Part, ...], float, frozenset[int]]


def _named_together(
    groups: Sequence[Sequence[Part]],
    probabilities: Floats,
    across: Sequence[frozenset[int]],
    nodes: Mapping[Part, frozenset[str]],
) -> list[_Entry]:
    """Suspects, likeliest first, with indistinguishable neighbours and both directions of links merged."""
    entries: list[_Entry] = []
    keys: list[set[tuple[str, ...]]] = []
    ends: list[set[str]] = []
    for row in np.argsort(-probabilities, kind="stable"):
        parts, probability = tuple(groups[row]), float(probabilities[row])
        own_keys = {_key(part) for part in parts if part.level is Level.LINK}
        own_ends = {end for part in parts for end in nodes.get(part, part.ends)} - {SILENT}
        same = next((place for place, others in enumerate(keys) if own_keys & others), None)
        is_near = bool(entries) and bool(own_ends & ends[0]) and entries[0][1] < CERTAIN
        if same is None and is_near and probability * NOT_TOLD_APART >= probabilities.max():
            same = 0
        if same is None:
            entries.append((parts, probability, across[row]))
            keys.append(own_keys)
            ends.append(own_ends)
            continue
        names, sum_before, of_first = entries[same]
        new = tuple(part for part in parts if part.level is not Level.LINK or _key(part) not in keys[same])
        entries[same] = ((*names, *new), min(sum_before + probability, 1.0), of_first)
        keys[same] |= own_keys
    return sorted(entries, key=lambda entry: -entry[1])


def _key(link: Part) -> tuple[str, ...]:
    # The same for both directions of a link.
    return link.ends if SILENT in link.ends else tuple(sorted(link.ends))


def _suspects(entries: Iterable[_Entry], bad: frozenset[int]) -> tuple[Suspect, ...]:
    return tuple(
        Suspect(parts, probability, len(bad & across), len(across), across) for parts, probability, across in entries
    )


def _places(
    suspects: Sequence[_Entry], gaps: Mapping[Part, Collection[Part]], as_of: Callable[[str], int | None]
) -> list[_Entry]:
    """Smallest certain (or likeliest) set of AS and borders, then disjoint others."""
    sets = [_places_of_all(parts, gaps, as_of) for parts, _, _ in suspects]
    sums: dict[frozenset[Part], float] = {}
    for own in {own for own in sets if own}:
        sums[own] = sum(entry[1] for other, entry in zip(sets, suspects, strict=True) if other and other <= own)
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
        inside = [entry[2] for other, entry in zip(sets, suspects, strict=True) if other and other <= own]
        entries.append((tuple(sorted(own)), min(sums[own], 1.0), frozenset[int]().union(*inside)))
    return entries


def _places_of_all(
    parts: Sequence[Part], gaps: Mapping[Part, Collection[Part]], as_of: Callable[[str], int | None]
) -> frozenset[Part]:
    """Places of all parts; a hop at the end of a link adds none."""
    wider = [part for part in parts if part.level is not Level.HOP] or parts
    return frozenset(place for part in wider for place in _places_of(part, gaps, as_of))


def _places_of(part: Part, gaps: Mapping[Part, Collection[Part]], as_of: Callable[[str], int | None]) -> list[Part]:
    """AS or border of a part; all possible places for a link across silent hops."""
    if part.level in (Level.AS, Level.BORDER):
        return [part]
    if SILENT in part.ends:
        return [place for link in gaps.get(part, ()) for place in _places_of(link, gaps, as_of)]
    numbers = sorted({number for end in part.ends for number in [as_of(end)] if number is not None})
    places = [Part(Level.AS, (str(number),)) for number in numbers]
    if len(numbers) < 2:
        return places if None not in [as_of(end) for end in part.ends] else []
    border = Part(Level.BORDER, tuple(str(number) for number in numbers))
    return [*places, border] if part in gaps else [border]
