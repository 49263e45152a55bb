"""The number of watched paths in each state, in a single statement: also of 90,000 paths.

In: the paths with open incidents, and the places in maintenance. Out: `PathStates`.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime

from monitor.archive.statements import records, run_statement


@dataclass(frozen=True, slots=True)
class PathStates:
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


def path_states(now: datetime, problem_paths: Collection[int], maintained: MaintainedPlaces) -> PathStates:
    """Count the watched paths by their state at `now`."""
    parameters = {
        "now": now,
        "problems": list(problem_paths),
        "quiet": bool(maintained.everything or maintained.paths or maintained.sites or maintained.groups),
        "quiet_all": maintained.everything,
        "quiet_paths": list(maintained.paths),
        "quiet_sites": list(maintained.sites),
        "quiet_groups": list(maintained.groups),
    }
    return records(PathStates, *run_statement("path_states", **parameters))[0]
