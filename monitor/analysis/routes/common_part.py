"""The common part of bad paths as a possible cause of an incident: its name, and the paths that cross it.

In: the paths with their routes and state (`suspects`), and names of AS. Out: a `CommonPart`, or None where the routes
cannot tell with `suspects.CERTAIN`. Whether it explains the bad paths better than a site or a host does is decided by
`monitor.analysis.alarms.grouping`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from monitor.analysis.routes import wording
from monitor.analysis.routes.suspects import (
    CERTAIN,
    Level,
    MeshPath,
    Part,
    Suspect,
    Suspects,
    crossing_paths,
    find_suspects,
)
from monitor.analysis.routes.wording import AsLabels

LEAST_BAD = 3
"""Bad paths across a part, without which it is not named."""
MOST_NAMES = 3
"""Parts that cannot be told apart and are still a name."""
LEAST_PROBABILITY = 0.02
"""Of hops and links in a place whose crossing paths are compared."""
EXCEPTION = 0.6
"""How much a good path across a part speaks against it, compared with a bad path for it, as in `grouping`."""


@dataclass(frozen=True, slots=True)
class CommonPart:
    """A hop, link, AS or border that bad paths have in common. `crossing` are the indexes of the paths across it;
    `text` has its probability and that of the next: "AS 20965 GEANT 0.93, next AS 513 CERN 0.04"."""

    name: str
    crossing: frozenset[int]
    text: str
    suspect: Suspect


def find_common_part(paths: Sequence[MeshPath], labels: AsLabels) -> CommonPart | None:
    """The common part of the bad paths among these; None if fewer than three are bad, or their routes cannot tell."""
    bad = frozenset(place for place, path in enumerate(paths) if path.is_bad)
    if len(bad) < LEAST_BAD:
        return None
    rankings = find_suspects(paths, labels.as_of)
    suspect = _named(rankings)
    if suspect is None:
        return None
    crossing = crossing_paths(paths)
    sets = [crossing.get(part, frozenset()) for part in _parts_of(suspect, rankings, labels)]
    best = max(sets, key=lambda own: len(own & bad) - EXCEPTION * len(own - bad), default=frozenset[int]())
    if len(best & bad) < LEAST_BAD:
        return None
    return CommonPart(wording.suspect(suspect, labels), best, wording.suspects(rankings, labels), suspect)


def _named(rankings: Suspects) -> Suspect | None:
    """A certain AS or border, else a certain hop or link; None if too many parts cannot be told apart."""
    for ranking in (rankings.places, rankings.parts):
        if ranking and ranking[0].probability >= CERTAIN and len(ranking[0].parts) <= MOST_NAMES:
            return ranking[0]
    return None


def _parts_of(suspect: Suspect, rankings: Suspects, labels: AsLabels) -> list[Part]:
    """The hops and links of a suspect: its own, or those within its places."""
    if suspect in rankings.parts:
        return list(suspect.parts)
    numbers = {number for part in suspect.parts for number in part.ends}
    return [
        part
        for entry in rankings.parts
        if entry.probability >= LEAST_PROBABILITY
        for part in entry.parts
        if part.level in (Level.HOP, Level.LINK) and _numbers(part, labels) and _numbers(part, labels) <= numbers
    ]


def _numbers(part: Part, labels: AsLabels) -> set[str]:
    return {str(number) for end in part.ends for number in [labels.as_of(end)] if number is not None}
