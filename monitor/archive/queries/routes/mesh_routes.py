"""Routes of many paths at a moment, and the number of their changes by time: for the graph of the mesh.

In: aware times, and path ids or router addresses that limit the paths. Out: records.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from monitor.archive.statements import check_period, optional_list, select

LARGEST = 2**31 - 1


@dataclass(frozen=True, slots=True)
class MeshRoute:
    """A route that a path took at a moment; paths with balanced load have several. `last_at` is its last trace by
    then."""

    path_id: int
    route_id: int
    hops: list[str | None]
    reached: bool
    last_at: datetime


@dataclass(frozen=True, slots=True)
class ChangeStep:
    """The route changes in a step of a period, counted from 0."""

    step: int
    changes: int
    first_at: datetime
    last_at: datetime


def mesh_routes(
    at: datetime,
    path_ids: Sequence[int] | None = None,
    *,
    addresses: Sequence[str] | None = None,
    most: int = LARGEST,
) -> list[MeshRoute]:
    """The routes at a moment by path, at most `most`: of all paths, or these; through any of `addresses`, if given. A
    path that was not traced in the day before has none."""
    return select(
        MeshRoute,
        "mesh_routes",
        at=at,
        path_ids=optional_list(path_ids),
        addresses=None if addresses is None else list(addresses),
        most=most,
    )


def change_steps(
    since: datetime, until: datetime, step_s: float, path_ids: Sequence[int] | None = None
) -> list[ChangeStep]:
    """The steps of a period in which routes changed, of all paths or these."""
    check_period(since, until)
    return select(
        ChangeStep, "route_change_steps", since=since, until=until, step_s=step_s, path_ids=optional_list(path_ids)
    )
