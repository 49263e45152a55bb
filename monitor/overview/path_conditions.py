"""The state of paths at a moment, with their incident, as counted by `monitor.overview.mesh_state`."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime

from monitor.alerts.incidents.queries import incidents_of_paths_at
from monitor.archive.queries.path_states import PathState, states_of_paths
from monitor.overview.mesh_state import maintained_places


@dataclass(frozen=True, slots=True)
class PathCondition:
    """The state of a path; `incident_id` is None without an open incident."""

    state: PathState
    incident_id: int | None


def conditions_at(
    at: datetime, path_ids: Collection[int], incidents: dict[int, int] | None = None
) -> dict[int, PathCondition]:
    """Conditions of paths at a moment; `incidents` are of all paths then. Unwatched paths without an incident have no
    data."""
    if incidents is None:
        incidents = incidents_of_paths_at(at)
    states = states_of_paths(at, path_ids, incidents, maintained_places(at))

    def condition(path_id: int) -> PathCondition:
        incident_id = incidents.get(path_id)
        unwatched = PathState.NO_DATA if incident_id is None else PathState.PROBLEM
        return PathCondition(states.get(path_id, unwatched), incident_id)

    return {path_id: condition(path_id) for path_id in path_ids}
