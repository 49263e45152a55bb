"""Score names against the planted fault: right, narrower (not yet named), or wrong."""

from __future__ import annotations

from collections.abc import Collection
from enum import StrEnum

from tests.causes.partial.faults import PlantedTroubles


class Mark(StrEnum):
    """Quality of names."""

    RIGHT = "right"
    NARROWER = "not yet named"
    WRONG = "wrong"


def wrong_names(planted: PlantedTroubles, names: Collection[str]) -> list[str]:
    """Names that are neither those of planted faults nor of a single pair of affected hosts."""
    right = {trouble.name for trouble in planted.troubles}
    pairs = {
        " ↔ ".join(sorted((path.source, path.destination)))
        for trouble in planted.troubles
        for path_id in trouble.path_ids
        for path in [planted.mesh.paths[path_id]]
    }
    return sorted(set(names) - right - pairs)


def mark(planted: PlantedTroubles, names: Collection[str]) -> Mark:
    """The mark of the first fault's name; any wrong name is worse."""
    if wrong_names(planted, names):
        return Mark.WRONG
    return Mark.RIGHT if planted.troubles[0].name in names else Mark.NARROWER
