"""The common part of bad paths as a possible cause of an incident: its name, and the paths that cross it.

In: the paths with their routes and state (`suspects`), and names of AS. Out: a `CommonPart`, or None where the routes
cannot tell with `suspects.CERTAIN`. Whether it explains the bad paths better than a site or a host does is decided by
`monitor.analysis.alarms.grouping`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from monitor.analysis.routes import wording
from monitor.analysis.routes.crossings import Level, MeshPath, Part, find_crossings
from monitor.analysis.routes.stretches import Stretch, find_stretches
from monitor.analysis.routes.suspects import EXCEPTION, Suspect, rank_suspects
from monitor.analysis.routes.wording import AsLabels

LEAST_BAD = 3
"""Bad paths across a part, without which it is not named."""
MOST_STRETCHES = 2
MOST_LINKS = 8
"""Stretches that are a name, and links in all of them."""


@dataclass(frozen=True, slots=True)
class CommonPart:
    """The part that bad paths have in common: `stretches` of their routes, or without any `places`, AS and hops.

    `crossing` are the indexes of the paths across it; `text` has its probability and that of the next: "AS 20965 GEANT
    0.93, next AS 513 CERN 0.04".
    """

    name: str
    crossing: frozenset[int]
    text: str
    stretches: tuple[Stretch, ...]
    places: tuple[Part, ...]


def find_common_part(paths: Sequence[MeshPath], labels: AsLabels) -> CommonPart | None:
    """The common part of the bad paths among these; None if fewer than three are bad, or their routes cannot tell."""
    bad = frozenset(place for place, path in enumerate(paths) if path.is_bad)
    if len(bad) < LEAST_BAD:
        return None
    crossings = find_crossings(paths, labels.as_of)
    rankings = rank_suspects(paths, crossings, labels.as_of)
    suspect = rankings.certain()
    if suspect is None:
        return None
    sets = [suspect.paths, *(crossings.certain(part) for part in suspect.parts)]
    best = max(sets, key=lambda own: len(own & bad) - EXCEPTION * len(own - bad))
    if len(best & bad) < LEAST_BAD:
        return None
    routes = [(path, nodes) for path, nodes in crossings.routes if path in best & bad]
    stretches = tuple(find_stretches(suspect.parts, routes, labels.as_of))
    places = () if stretches else _places(suspect)
    if not 0 < len(stretches) + len(places) <= MOST_STRETCHES:
        return None
    if sum(len(stretch.nodes) - 1 for stretch in stretches) > MOST_LINKS:
        return None
    names = [_name(stretch, labels) for stretch in stretches] or [wording.part_name(place, labels) for place in places]
    name = _whole_as(suspect, labels) or " or ".join(dict.fromkeys(names))
    return CommonPart(name, best, wording.common_part(name, suspect, rankings, labels), stretches, places)


def _places(suspect: Suspect) -> tuple[Part, ...]:
    """The AS among its parts, else the hops."""
    numbers = tuple(part for part in suspect.parts if part.level is Level.AS)
    return numbers or tuple(part for part in suspect.parts if part.level is Level.HOP)


def _whole_as(suspect: Suspect, labels: AsLabels) -> str | None:
    """The AS that all paths across the suspect cross, with the border that cannot be told from it; None if there are
    several or none."""
    numbers = {part.ends[0] for part in suspect.parts if part.level is Level.AS}
    if len(numbers) != 1:
        return None
    (number,) = numbers
    inside = [part for part in suspect.parts if part.level in (Level.HOP, Level.LINK)]
    of_ends = [{str(labels.as_of(end)) for end in part.ends} for part in inside]
    borders = [set(part.ends) for part in suspect.parts if part.level is Level.BORDER]
    if not all(number in ends for ends in [*of_ends, *borders]):
        return None
    others = [labels.text(int(other)) for other in sorted(set[str]().union(*borders) - {number})]
    return labels.text(int(number)) + (f" or its border with {' and '.join(others)}" if others else "")


def _name(stretch: Stretch, labels: AsLabels) -> str:
    """The AS in which a stretch is, the border that it is, or else its ends."""
    numbers = [None if node is None else labels.as_of(node) for node in stretch.nodes]
    names = sorted({number for number in numbers if number is not None})
    if len(names) == 1 and None not in (numbers[0], numbers[-1]):
        return wording.part_name(Part(Level.AS, (str(names[0]),)), labels)
    if len(names) == 2 and len(numbers) == 2:
        return wording.part_name(Part(Level.BORDER, tuple(map(str, names))), labels)
    return wording.stretch(*stretch.ends, labels)
