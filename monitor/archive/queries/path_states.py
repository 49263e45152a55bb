"""The state of watched paths, and the number of paths in each, in a single statement: also of 90,000 paths.

In: the paths with open incidents, and the places in maintenance. Out: `PathCounts`, or a `PathState` for each path, or
`NewestResults`.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any

import numpy as np
from numpy.typing import NDArray

from monitor.archive.statements import records, run_statement, run_text, statement

LATELY = timedelta(minutes=10)


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
class RefusedPaths:
    """How many paths the limits of their sites do not permit to measure, and the rule against the newest burst."""

    paths: int
    rule: str | None


@dataclass(frozen=True, slots=True)
class NewestResults:
    """Of watched paths the time for which a result is current, and when the newest current one was measured, in seconds
    since the epoch; NaN for a path without any, which is awaited or has no data."""

    path_ids: NDArray[np.int64]
    current_for_s: NDArray[np.float64]
    newest_s: NDArray[np.float64]
    is_awaited: NDArray[np.bool_]


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
    return records(PathCounts, *run_statement("path_states", {"states": _states()}, **parameters))[0]


def states_of_paths(
    at: datetime, path_ids: Collection[int], problem_paths: Collection[int], maintained: MaintainedPlaces
) -> dict[int, PathState]:
    """The state of each of these paths at a moment, also of the past. Paths that were not watched are left out."""
    parameters = {"now": at, "until": at, "path_ids": list(path_ids), **_places(problem_paths, maintained)}
    _, rows = run_text(_states(), parameters)
    return {path_id: PathState(state) for path_id, _, state, _ in rows}


def not_permitted(now: datetime) -> RefusedPaths:
    """The paths of the last `LATELY` that the limits of their sites do not permit to measure."""
    return records(RefusedPaths, *run_statement("not_permitted", since=now - LATELY, until=now))[0]


def newest_results(now: datetime, path_ids: Collection[int] | None = None) -> NewestResults:
    """The newest current result at `now` of each of these watched paths, or of all, in the order of their ids, whatever
    their incidents and maintenance."""
    ids = None if path_ids is None else list(path_ids)
    parameters = {"now": now, "until": "infinity", "path_ids": ids, **_places((), MaintainedPlaces())}
    rows = sorted(run_text(_states(), parameters)[1])
    path_id, current_for_s, state, newest_s = zip(*rows, strict=True) if rows else ((), (), (), ())
    return NewestResults(
        np.array(path_id, dtype=np.int64),
        np.array(current_for_s, dtype=np.float64),
        np.array(newest_s, dtype=np.float64),
        np.array(state) == PathState.AWAITED.value,
    )


def maintained_paths(maintained: MaintainedPlaces) -> set[int]:
    """The paths in these places."""
    parameters = _places((), maintained)
    return (
        {path_id for (path_id,) in run_statement("maintained_paths", **parameters)[1]} if parameters["quiet"] else set()
    )


def _states() -> str:
    return statement("states_of_paths", maintained=statement("maintained_paths"))


def _places(problem_paths: Collection[int], maintained: MaintainedPlaces) -> dict[str, Any]:
    return {
        "problems": list(problem_paths),
        "quiet": bool(maintained.everything or maintained.paths or maintained.sites or maintained.groups),
        "quiet_all": maintained.everything,
        "quiet_paths": list(maintained.paths),
        "quiet_sites": list(maintained.sites),
        "quiet_groups": list(maintained.groups),
    }
