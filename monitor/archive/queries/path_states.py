"""State of watched paths at a past moment, and paths that site limits refuse now."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any

from monitor.archive.statements import records, run_statement, run_text, statement

LATELY = timedelta(minutes=10)


class PathState(StrEnum):
    """State of a path, as in states_of_paths.sql."""

    PROBLEM = "problem"
    NO_DATA = "no data"
    MAINTENANCE = "maintenance"
    AWAITED = "awaited"
    NORMAL = "normal"


@dataclass(frozen=True, slots=True)
class RefusedPaths:
    """Number of paths that site limits refuse, and the rule against the newest burst."""

    paths: int
    rule: str | None


@dataclass(frozen=True, slots=True)
class MaintainedPlaces:
    """Ids in maintenance; with `everything` the whole mesh."""

    everything: bool = False
    paths: Collection[int] = ()
    sites: Collection[int] = ()
    groups: Collection[int] = ()


def states_of_paths(
    at: datetime, path_ids: Collection[int], problem_paths: Collection[int], maintained: MaintainedPlaces
) -> dict[int, PathState]:
    """State of each watched path at a moment, also past."""
    parameters = {"now": at, "until": at, "path_ids": list(path_ids), **_places(problem_paths, maintained)}
    _, rows = run_text(_states(), parameters)
    return {path_id: PathState(state) for path_id, _, state, _ in rows}


def not_permitted(now: datetime) -> RefusedPaths:
    """Paths of the last `LATELY` that site limits refuse."""
    return records(RefusedPaths, *run_statement("not_permitted", since=now - LATELY, until=now))[0]


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
