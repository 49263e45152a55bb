"""The common part of bad paths' routes (`suspects.CERTAIN`) as a candidate cause; `monitor.analysis.alarms.grouping`
decides."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from monitor.analysis.routes import wording
from monitor.analysis.routes.crossings import Level, MeshPath, Part, find_crossings
from monitor.analysis.routes.stretches import Stretch, find_stretches
from monitor.analysis.routes.suspects import EXCEPTION, Suspect, rank_suspects
from monitor.analysis.routes.wording import AsLabels

# Bad paths across a part; with fewer it is not named.
LEAST_BAD = 3
MOST_STRETCHES = 2
# Stretches in a name, and links in all of them.
MOST_LINKS = 8


@dataclass(frozen=True, slots=True)
class CommonPart:
    name: str
    crossing: frozenset[int]  # indexes of the paths across it
    text: str  # with probabilities: "AS 20965 GEANT 0.93, next AS 513 CERN 0.04"
    stretches: tuple[Stretch, ...]
    places: tuple[Part, ...]  # AS and hops, without stretches


def find_common_part(paths: Sequence[MeshPath], labels: AsLabels) -> CommonPart | None:
    """The common part of the bad paths; None with fewer than three, or if uncertain."""
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
    numbers = tuple(part for part in suspect.parts if part.level is Level.AS)
    return numbers or tuple(part for part in suspect.parts if part.level is Level.HOP)


def _whole_as(suspect: Suspect, labels: AsLabels) -> str | None:
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
    numbers = [None if node is None else labels.as_of(node) for node in stretch.nodes]
    names = sorted({number for number in numbers if number is not None})
    if len(names) == 1 and None not in (numbers[0], numbers[-1]):
        return wording.part_name(Part(Level.AS, (str(names[0]),)), labels)
    if len(names) == 2 and len(numbers) == 2:
        return wording.part_name(Part(Level.BORDER, tuple(map(str, names))), labels)
    return wording.stretch(*stretch.ends, labels)
