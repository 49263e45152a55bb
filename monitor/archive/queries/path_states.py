"""The state of watched paths, and the number of paths in each, in a single statement: also of 90,000 paths.

In: the paths with open incidents, and the places in maintenance. Out: `PathCounts`, or a `PathState` for each path.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any

from monitor.archive.statements import records, run_statement, statement


class PathState(StrEnum):
    """The state of a path; as in states_of_paths.sql."""

    PROBLEM = "problem"
    NO_DATA = "no data"
    MAINTENANCE = "maintenance"
    AWAITED = "awaited"
    NORMAL = "normal"


@dataclass(frozen=True, slots=True)
class PathCounts:
    """Watched paths by state; the states add up to `paths`. `without_data_s` is the shortest time after which those
    without data count as such; None without any."""

    paths: int
    with_problems: int
    in_maintenance: int
    normal: int
    awaited: int
    without_data: int
    without_data_s: float | None


@dataclass(frozen=True, slots=True)
class MaintainedPlaces:
    """Paths, sites and groups in maintenance, by id; with `everything` the whole mesh is."""

    everything: bool = False
    paths: Collection[int] = ()
    sites: Collection[int] = ()
    groups: Collection[int] = ()


def path_states(now: datetime, problem_paths: Collection[int], maintained: MaintainedPlaces) -> PathCounts:
    """Count the watched paths by their state at `now`."""
    parameters = {"now": now, "until": "infinity", "path_ids": None, **_places(problem_paths, maintained)}
    return records(PathCounts, *run_statement("path_states", {"states": statement("states_of_paths")}, **parameters))[0]


def states_of_paths(
    at: datetime, path_ids: Collection[int], problem_paths: Collection[int], maintained: MaintainedPlaces
) -> dict[int, PathState]:
    """The state of each of these paths at a moment, also of the past. Paths that were not watched are left out."""
    parameters = {"now": at, "until": at, "path_ids": list(path_ids), **_places(problem_paths, maintained)}
    return {path_id: PathState(state) for path_id, _, state in run_statement("states_of_paths", **parameters)[1]}


def _places(problem_paths: Collection[int], maintained: MaintainedPlaces) -> dict[str, Any]:
    return {
        "problems": list(problem_paths),
        "quiet": bool(maintained.everything or maintained.paths or maintained.sites or maintained.groups),
        "quiet_all": maintained.everything,
        "quiet_paths": list(maintained.paths),
        "quiet_sites": list(maintained.sites),
        "quiet_groups": list(maintained.groups),
    }
