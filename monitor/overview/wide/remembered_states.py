"""The counts of paths by state of a mesh of many paths, from what is remembered of each path's newest result.

In: as `monitor.archive.queries.path_states.path_states`. Out: the same `PathCounts`, of now. A path stays current until
its newest known result is too old, so that a count looks only for newer results of paths of which no current one is
known, and of some whose known result will soon be too old. Looking for all takes the database two seconds for 100,000
paths.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable
from datetime import datetime
from threading import Lock

import numpy as np

from monitor.archive.queries.path_states import (
    MaintainedPlaces,
    NewestResults,
    PathCounts,
    maintained_paths,
    newest_results,
)
from monitor.mesh.queries import mesh_version

LOOKED_UP_EARLY = 1 / 20
"""The share of the paths that a count looks up early. Their results are half as old as they may be; so there are two
dozen counts, one every ten seconds, for all of them."""


class RememberedStates:
    """What is remembered of the paths of the mesh. A change of the mesh has all paths looked up again."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._version: Hashable = None
        self._paths: NewestResults | None = None

    @property
    def is_filled(self) -> bool:
        return self._paths is not None

    def forget(self) -> None:
        """Look all paths up again for the next count."""
        with self._lock:
            self._paths = None

    def count(self, now: datetime, problem_paths: Collection[int], maintained: MaintainedPlaces) -> PathCounts:
        """The counts at `now`."""
        with self._lock:
            version = mesh_version()
            if self._paths is None or self._version != version:
                self._paths, self._version = newest_results(now), version
            else:
                _renew(self._paths, now)
            return _counts(self._paths, problem_paths, maintained_paths(maintained))


def _renew(paths: NewestResults, now: datetime) -> None:
    """Look up the paths without a known current result, and early the first of those that soon have none."""
    expires_s = paths.newest_s + paths.current_for_s
    is_current = expires_s >= now.timestamp()
    paths.newest_s[~is_current] = np.nan
    aging = np.flatnonzero(expires_s < now.timestamp() + paths.current_for_s / 2)
    aging = aging[is_current[aging]]
    early = aging[np.argsort(expires_s[aging], kind="stable")][: int(LOOKED_UP_EARLY * len(paths.path_ids)) + 1]
    wanted = paths.path_ids[np.concatenate([np.flatnonzero(~is_current), early])]
    if len(wanted):
        newest = newest_results(now, wanted.tolist())
        place = np.searchsorted(paths.path_ids, newest.path_ids)
        paths.newest_s[place], paths.is_awaited[place] = newest.newest_s, newest.is_awaited


def _counts(paths: NewestResults, problem_paths: Collection[int], maintained: Collection[int]) -> PathCounts:
    """Each path counts in the first state that applies, as in states_of_paths.sql."""
    has_problem = np.isin(paths.path_ids, list(problem_paths))
    in_maintenance = np.isin(paths.path_ids, list(maintained)) & ~has_problem
    is_other = ~(has_problem | in_maintenance)
    is_normal = is_other & ~np.isnan(paths.newest_s)
    is_awaited = is_other & ~is_normal & paths.is_awaited
    is_without = is_other & ~is_normal & ~is_awaited
    return PathCounts(
        paths=len(paths.path_ids),
        with_problems=int(has_problem.sum()),
        in_maintenance=int(in_maintenance.sum()),
        normal=int(is_normal.sum()),
        awaited=int(is_awaited.sum()),
        without_data=int(is_without.sum()),
        without_data_s=float(paths.current_for_s[is_without].min()) if is_without.any() else None,
    )
